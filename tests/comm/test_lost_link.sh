#!/usr/bin/env bash
# test_lost_link.sh - ranks on two machines: the link between them is cut, or a rank of the second one
# is killed or stopped. All processes on both end in time.
# soak: --full
set -euo pipefail
. "$TESTS/mpi.sh"
. "$TESTS/hosts.sh"
. "$TESTS/comm/lost.sh"
trap 'clean; hosts_down' EXIT
ranks=4
job() { hosts "$ranks" "$BUILD/ranks_lost" "$ranks" "$BUILD/hilbert_mpi.so" "$work/job" "$@"; }

check_line() # check_line WHAT RANK WORDS: one line of hilbert's names the rank
{
    [ "$(grep -c '^hilbert: ' "$work/err")" = 1 ] || die "$1: not one line of hilbert"
    grep -q "^hilbert: rank $2 on hilbert-b $3.*; its last word: step " "$work/err" ||
        die "$1: no line names rank $2"
}

# mpirun and its daemon on the other machine wait for each other much longer: docs/ranks.md.
cut() # cut NAMESPACE
{
    hosts_up
    begin job 60
    since=$(now)
    ip -n "$1" link set link0 down
    ends "link cut at $1" 10000 "${pids[@]}"
    check_line "link cut at $1" 2 'has not answered for [5-8] s, nor 1 other rank'
    hosts_down
}

# The same in a training run, which resumes on the remaining machine.
cut_train() # cut_train NAMESPACE
{
    hosts_up
    begin_train hosts
    since=$(now)
    ip -n "$1" link set link0 down
    ends "link of a training run cut at $1" 10000 "${pids[@]}"
    grep -q '^hilbert: rank 2 on hilbert-b has not answered for [5-8] s, nor 1 other' "$work/err" ||
        die "link of a training run: nobody says so"
    hosts_down
    go_on 2
}

# With keepalives mpirun notices the cut too, and no process stays; its message may come first.
cut_alive()
{
    hosts_up
    export OMPI_MCA_oob_tcp_keepalive_time=2 OMPI_MCA_oob_tcp_keepalive_intvl=1
    export OMPI_MCA_oob_tcp_keepalive_probes=2
    begin job 60
    since=$(now)
    ip -n "$1" link set link0 down
    ends "link with keepalives cut at $1" 10000 "$launcher" "${pids[@]}" $(hosts_inside)
    grep -qE '^hilbert: rank 2 on hilbert-b|lost communication with a remote daemon' "$work/err" ||
        die "nobody says why"
    hosts_down
}

lose() # lose SIGNAL RANK WORDS
{
    hosts_up
    begin job 60
    since=$(now)
    kill "-$1" "${pids[$2]}"
    ends "SIG$1 of rank $2" 10000 "${pids[@]}"
    ends "SIG$1 of rank $2, launchers" 20000 "$launcher" $(hosts_inside) # mpirun takes its time
    check_line "SIG$1 of rank $2" "$2" "$3"
    hosts_down
}

kill_one() { lose KILL "$1" 'is gone'; }
stop_one() { lose STOP "$1" 'has not answered for [5-8] s'; }

if [ "${1:-}" = --full ]; then
    cut "$hosts_a"
    cut "$hosts_b"
    cut_train "$hosts_a"
    cut_train "$hosts_b"
    cut_alive "$hosts_a"
    for rank in 2 3; do
        kill_one "$rank"
        stop_one "$rank"
    done
elif [ $((seed % 2)) = 0 ]; then
    cut "$hosts_a"
    kill_one 2
else
    cut "$hosts_b"
    kill_one 3
fi
