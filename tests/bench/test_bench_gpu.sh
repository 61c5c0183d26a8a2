# bench/gpu.py on any processor: every part of it gives rows, and several commands make one table.
# Parts that need PyTorch: test_bench_torch.sh.
. "$TESTS/bench/gpu_rows.sh"

bench --list || die "--list"
[ "$(wc -l < "$work/out")" -ge 13 ] || die "parts: $(cat "$work/out")"
bench --only nothing && die "a part that is not there"

bench --only offload-3b,disk-3b,capacity-16g || die "it failed"
bench --only capacity-fp32,capacity-8bit,losses,start-8b,fp8-8b --append || die "it failed"
for budget in "whole GPU" "24 GiB of it"; do
    row "states in RAM: 3B, 64k tokens, $budget" '\| [0-9]+ TFLOP/s \|'
    row "states in RAM: 3B, 16k tokens, $budget" '\| [0-9]+ TFLOP/s \|'
done
row "optimizer state on disk" '[0-9.]+ s per step; its limit needs memory-3b and ceiling'
row "8B in 16 GiB" '\| [0-9.]+ s per step \|.* yes'
row "largest model, fp32" '\| [0-9.]+B, [0-9]+ layers \|'
row "largest model, 8-bit" '\| [0-9.]+B, [0-9]+ layers \|'
row "fp8: 8B, 64k tokens" '\| [0-9]+ TFLOP/s \| [0-9]+ hilbert in bf16 \| [0-9.]+ \|'
row "command to end of the first step: 8B" '\| [0-9.]+ s \|'
row "losses of 5 steps" '\| 0.000% \|.* yes'
row "losses and norms of two placements" '\| the same bits \| the same bits \|.* yes'
fp32=$(sed -n 's/^| largest model, fp32.*, \([0-9]*\) layers.*/\1/p' "$work/table.md")
small=$(sed -n 's/^| largest model, 8-bit.*, \([0-9]*\) layers.*/\1/p' "$work/table.md")
[ "$small" -gt "$fp32" ] || die "8-bit moments make room for $small layers, fp32 for $fp32"
