# What hilbert saves loads in transformers, with the same logits and, greedily, the same 64 tokens:
# every golden model, after a step with learning rate 0. Without --full some of them. Skips where
# transformers is not installed; HIL_PYTHON names the interpreter.
# soak: --full
set -eu
. "$TESTS/work.sh"

python=${HIL_PYTHON:-python3}
"$python" -c 'import torch, safetensors, transformers' 2> /dev/null ||
    { echo "no transformers for $python"; exit 77; }
cd "$TESTS/golden/models"
models=(stablelm_norms granitemoe deepseek_v3)
[ "${1:-}" != --full ] || models=(*/)
pairs=()
for model in "${models[@]%/}"; do
    [ -f "$model/golden.safetensors" ] || continue
    data=$model/tokens.npy
    [ -f "$data" ] || data=gemma3/tokens.npy # with fewer ids than any vocabulary
    env -u HOME -u XDG_CACHE_HOME "$HILBERT" train --model "$model" --data "$data" --seq 32 --batch 4 \
        --steps 1 --lr 0 --schedule constant --dtype fp32 --device cpu --threads 1 --quiet \
        --out "$work/run" --overwrite || die "$model"
    # A folder in MXFP4 would become one in bf16.
    "$HILBERT" export "$work/run/checkpoints/step-1" "$work/$model" --dtype fp32 > "$work/log" ||
        die "$model: $(cat "$work/log")"
    pairs+=("$work/$model" "$model/golden.safetensors")
done
HF_HUB_OFFLINE=1 CUDA_VISIBLE_DEVICES='' "$python" "$SOURCE/tools/check_folder.py" "${pairs[@]}"
