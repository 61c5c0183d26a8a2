#!/usr/bin/env bash
# test_lost_train.sh - one rank of a training run is killed or stopped: the run ends in time with one
# line that names the rank, and resumes with fewer ranks.
# soak: --full
set -euo pipefail
. "$TESTS/mpi.sh"
. "$TESTS/comm/lost.sh"
ranks=4

lose() # lose SIGNAL RANK WORDS LEFT: LEFT ranks go on
{
    begin_train mpi
    since=$(now)
    kill "-$1" "${pids[$2]}"
    ends "SIG$1 of rank $2" 10000 "$launcher" "${pids[@]}"
    grep '^hilbert: rank ' "$work/err" > "$work/lines" || die "SIG$1 of rank $2: nobody says so"
    [ "$(wc -l < "$work/lines")" = 1 ] || die "SIG$1 of rank $2: not one line"
    grep -q "^hilbert: rank $2 on $(hostname) $3.*; its last word: " "$work/lines" ||
        die "SIG$1 of rank $2: another one is named"
    go_on "$4"
}

if [ "${1:-}" = --full ]; then
    for rank in 0 2 3; do
        lose KILL "$rank" 'is gone' 3
        lose STOP "$rank" 'has not answered for [5-8] s' 2
    done
elif [ $((seed % 2)) = 0 ]; then
    lose KILL $((seed / 2 % ranks)) 'is gone' 3
else
    lose STOP $((seed / 2 % ranks)) 'has not answered for [5-8] s' 1
fi
