# Training a mixture of experts on a GPU: the CPU's losses within rounding, the same bits for any placement of
# the experts.
set -u
. "$TESTS/cli/lib.sh"
device=cuda exact=0 steps=10 parts="70 45" kills= limit=
. "$TESTS/gpu/device.sh"
"$HILBERT" plan --model "$work/mixtral.json" --device cuda >"$work/plan" 2>&1 || {
    grep -q 'there is no GPU here\|built without CUDA' "$work/plan" || die "$(cat "$work/plan")"
    echo "skipped: $(cat "$work/plan")"
    exit 77
}
check_mixture mixtral fp32 0.001
check_mixture qwen3_moe bf16 0.05 # a token near a tie of two experts may go to the other one
more="--router-z-loss 0.01" check_mixture qwen3_moe fp32 0.001
check_mixture gpt_oss fp32 0.001
check_mixture gpt_oss bf16 0.05
