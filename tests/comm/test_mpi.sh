#!/usr/bin/env bash
# test_mpi.sh - all collective calls over MPI.
set -euo pipefail
. "$TESTS/mpi.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() { echo "$*" >&2; cat "$work"/out "$work"/err >&2; exit 1; }

for ranks in 1 2 3 8; do
    mpi "$ranks" "$BUILD/ranks_collectives" "$ranks" "$BUILD/hilbert_mpi.so" all \
        > "$work/out" 2> "$work/err" || die "$ranks ranks failed"
    [ "$(cat "$work/out")" = "done" ] || die "$ranks ranks did not all come to the end"
done

# A rank that fails ends the waits of all ranks on every channel, and none hangs at exit. mpirun itself
# fails, because ranks exit without MPI_Finalize.
for ranks in 2 5; do
    got=0
    MPI_SECONDS=30 mpi "$ranks" "$BUILD/ranks_collectives" "$ranks" "$BUILD/hilbert_mpi.so" break \
        > "$work/out" 2> "$work/err" || got=$?
    [ "$got" != 124 ] && [ "$got" != 137 ] || die "$ranks ranks hang at the end"
    [ "$(grep -c broken "$work/out")" = "$ranks" ] || die "a failure does not end $ranks ranks"
done
