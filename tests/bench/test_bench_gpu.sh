# bench/gpu.py on any processor: every part of it gives rows, and several commands make one table.
# The parts that need PyTorch are left out where there is none, and say so.
set -u
[ -x "$HILBERT" ] || { echo "no program at '$HILBERT'"; exit 77; }
command -v python3 > /dev/null || { echo "no python3"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache
die() { echo "FAILED: $*" >&2; cat "$work/err" >&2; exit 1; }
bench() {
    timeout 600 python3 "$SOURCE/bench/gpu.py" --tiny --hilbert "$HILBERT" --work "$work/gpu" \
        --out "$work/table.md" "$@" > "$work/out" 2> "$work/err"
}
# row WORDS PATTERN: the row that begins so has a cell or more that match.
row() { grep -F "| $1" "$work/table.md" | grep -Eq -- "$2" || die "$1: $(cat "$work/table.md")"; }

bench --list || die "--list"
[ "$(wc -l < "$work/out")" -ge 13 ] || die "parts: $(cat "$work/out")"
bench --only nothing && die "a part that is not there"

bench --only offload-3b,disk-3b,capacity-16g || die "it failed"
bench --only capacity-fp32,capacity-8bit,losses,start-8b --append || die "it failed"
for budget in "whole GPU" "24 GiB of it"; do
    row "states in RAM: 3B, 64k tokens, $budget" '\| [0-9]+ TFLOP/s \|'
    row "states in RAM: 3B, 16k tokens, $budget" '\| [0-9]+ TFLOP/s \|'
done
row "optimizer state on disk" '[0-9.]+ s per step; its limit needs memory-3b and ceiling'
row "8B in 16 GiB" '\| [0-9.]+ s per step \|.* yes'
row "largest model, fp32" '\| [0-9.]+B, [0-9]+ layers \|'
row "largest model, 8-bit" '\| [0-9.]+B, [0-9]+ layers \|'
row "command to end of the first step: 8B" '\| [0-9.]+ s \|'
row "losses of 5 steps" '\| 0.000% \|.* yes'
row "losses and norms of two placements" '\| the same bits \| the same bits \|.* yes'
fp32=$(sed -n 's/^| largest model, fp32.*, \([0-9]*\) layers.*/\1/p' "$work/table.md")
small=$(sed -n 's/^| largest model, 8-bit.*, \([0-9]*\) layers.*/\1/p' "$work/table.md")
[ "$small" -gt "$fp32" ] || die "8-bit moments make room for $small layers, fp32 for $fp32"

python3 -c 'import torch' 2> "$work/err" || { echo "the rest is skipped: no PyTorch"; exit 0; }
bench --only ceiling,memory-3b --append || die "it failed"
row "in memory: 3B" '\| [0-9]+ PyTorch \(eager\) \| [0-9.]+ \|'
row "optimizer state on disk" '\| [0-9.]+ s: [0-9.]+ GB at [0-9.]+ GB/s \| [0-9.]+ \|'
