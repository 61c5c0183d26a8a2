# Training, evaluation and generation on a GPU: the CPU's losses within rounding, the same bits
# for any placement of states, after kill -9 and after --resume.
set -u
. "$TESTS/cli/lib.sh"
device=cuda exact=0 steps=20 parts="80 60 45 35" kills="1 2 3" limit=
. "$TESTS/gpu/device.sh"
"$HILBERT" plan --model "$work/gpt2.json" --device cuda >"$work/plan" 2>&1 || {
    grep -q 'there is no GPU here\|built without CUDA' "$work/plan" || die "$(cat "$work/plan")"
    echo "skipped: $(cat "$work/plan")"
    exit 77
}
cat "$work/plan"
for model in llama gpt2; do
    check_model "$model" fp32 0.001
    check_model "$model" bf16 0.01
    check_pairs "$model" fp32 0.001
    check_pairs "$model" bf16 0.01
done
check_model cohere fp32 0.001
check_model stablelm bf16 0.01
check_adapter wide bf16 0.01 gate_proj,up_proj,down_proj
check_adapter llama fp32 0.001 gate_proj,up_proj,down_proj
check_adapter wide bf16 0.01 q_proj,down_proj
more="--optimizer muon"
for dtype in fp32 bf16; do check_placements llama $dtype; done
