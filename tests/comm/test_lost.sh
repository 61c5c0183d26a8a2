#!/usr/bin/env bash
# test_lost.sh - one rank is killed, stopped or fails: all processes end in time, and the message names
# the rank.
# soak: --full
set -euo pipefail
. "$TESTS/mpi.sh"
. "$TESTS/comm/lost.sh"
ranks=4
job() { mpi "$ranks" "$BUILD/ranks_lost" "$ranks" "$BUILD/hilbert_mpi.so" "$work/job" "$@"; }

lose() # lose SIGNAL RANK WORDS
{
    begin job 60
    since=$(now)
    kill "-$1" "${pids[$2]}"
    ends "SIG$1 of rank $2" 10000 "$launcher" "${pids[@]}"
    local lines
    lines=$(grep -c '^hilbert: ' "$work/err") || true
    [ "$lines" = 1 ] || die "SIG$1 of rank $2: $lines lines of hilbert"
    grep -q "^hilbert: rank $2 on $(hostname) $3.*; its last word: step [0-9]*, " "$work/err" ||
        die "SIG$1 of rank $2: no line names it"
    [ ! -s "$work/out" ] || die "SIG$1 of rank $2: the job came to its end"
}

fail_one() # fail_one RANK
{
    local code=0
    begin job 60 "$1"
    wait "$launcher" || code=$?
    [ "$code" = 1 ] || die "rank $1 failed: exit code $code"
    local name=''
    [ "$1" = 0 ] || name="rank $1 on $(hostname): " # rank 0 speaks of itself
    [ "$(grep '^hilbert: ' "$work/err")" = "hilbert: ${name}cannot write swap.0: disk full" ] ||
        die "rank $1 failed"
}

# More ranks than cores, and other load on the cores: no rank is lost.
crowd()
{
    local busy=() i
    for ((i = 0; i < 2 * $(nproc); ++i)); do
        timeout 60 sh -c 'while :; do :; done' &
        busy+=($!)
    done
    ranks=8
    begin job 12
    wait "$launcher" || die "a slow rank was lost"
    ranks=4
    [ "$(cat "$work/out")" = "done, 8 of 8 here" ] || die "a crowded job did not come to its end"
    kill "${busy[@]}" 2> /dev/null || true
    wait "${busy[@]}" || true
}

kill_launcher()
{
    begin job 60
    since=$(now)
    kill -KILL "$(ps -o ppid= -p "${pids[0]}")"
    ends "SIGKILL of mpirun" 10000 "$launcher" "${pids[@]}"
}

kill_one() { lose KILL "$1" 'is gone'; }
stop_one() { lose STOP "$1" 'has not answered for [5-8] s'; }

if [ "${1:-}" = --full ]; then
    for rank in 0 1 2 3; do
        kill_one "$rank"
        stop_one "$rank"
    done
    for ((i = 0; i < 20; ++i)); do kill_one $((i % ranks)); done
    for rank in 0 2 3; do fail_one "$rank"; done
    kill_launcher
    crowd
else
    kill_one $((seed % ranks))
    fail_one $(((seed + 1) % ranks))
    stop_one $(((seed + 2) % ranks))
fi
