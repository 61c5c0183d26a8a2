#!/usr/bin/env bash
# test_mpi.sh - everything that ranks do together, over MPI.
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
