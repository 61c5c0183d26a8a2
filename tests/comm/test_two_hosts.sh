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
    [ "$(cat "$work/out")" = "done, $(((ranks + 1) / 2)) of $ranks here" ] ||
        die "$ranks ranks on two hosts said: $(cat "$work/out")"
done

# A training run over both gives the same bits as on one.
model=$TESTS/golden/models/llama3
train() # train OUT LAUNCHER: four ranks
{
    "$2" 4 "$HILBERT" train --model "$model" --data "$model/tokens.npy" --seq 32 --batch 8 --lr 1e-3 \
        --threads 1 --steps 6 --save-every 3 --out "$1" > "$work/out" 2> "$work/err" || die "training: $2"
}
losses() { sed -n 's/.*"loss": \([^,]*\),.*/\1/p' "$1/metrics.jsonl"; }
train "$work/one" mpi
train "$work/two" hosts
[ "$(losses "$work/one" | wc -l)" = 6 ] || die "$(losses "$work/one" | wc -l) of 6 steps have a loss"
[ "$(losses "$work/one")" = "$(losses "$work/two")" ] || die "the losses differ"
for file in model.safetensors checkpoints/step-6/master.safetensors \
    checkpoints/step-6/moment1.safetensors checkpoints/step-6/moment2.safetensors; do
    cmp "$work/one/$file" "$work/two/$file" || die "$file differs"
done
