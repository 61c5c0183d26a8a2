#!/usr/bin/env bash
# test_two_hosts.sh - ranks on two machines work together over TCP.
set -euo pipefail
. "$TESTS/mpi.sh"
. "$TESTS/hosts.sh"
work=$(mktemp -d)
trap 'hosts_down; rm -rf "$work"' EXIT
die() { echo "FAILED: $*" >&2; cat "$work/err" >&2; exit 1; }
hosts_up

for ranks in 2 5; do
    hosts "$ranks" "$BUILD/ranks_lost" "$ranks" "$BUILD/hilbert_mpi.so" "$work" 1 \
        > "$work/out" 2> "$work/err" || die "$ranks ranks on two hosts"
    [ "$(cat "$work/out")" = "done" ] || die "$ranks ranks on two hosts said: $(cat "$work/out")"
done
