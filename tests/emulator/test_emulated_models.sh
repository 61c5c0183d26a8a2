# Every golden model on the emulated GPU: losses of two steps in fp32 are the CPU's within rounding,
# and so is the loss that eval computes then. Without --full those whose operations are most special.
# soak: --full
set -u
. "$TESTS/cli/lib.sh"
HILBERT=$BUILD/emulated/hilbert
[ -x "$HILBERT" ] || { echo "skipped: built without the emulated GPU"; exit 77; }
export LD_LIBRARY_PATH=$BUILD/emulated
cd "$TESTS/golden/models" || exit 1
models=(deepseek_v3 gemma2 gemma4 gpt_neox granitemoehybrid kimi_linear lfm2_moe phi3_long qwen3_5 qwen3_next)
[ "${1:-}" != --full ] || models=(*/)

# losses DEVICE MODEL DATA
losses()
{
    run 0 train --model "$2" --data "$3" --seq 32 --batch 4 --micro-batch 4 --steps 2 --lr 1e-3 \
        --schedule constant --dtype fp32 --device "$1" --device-memory 64M --threads 2 --quiet \
        --out "$work/out-$1" --overwrite
    grep -o '"loss": [0-9.]*' "$work/out-$1/metrics.jsonl" | cut -d ' ' -f 2
}

for model in "${models[@]%/}"; do
    data=$model/tokens.npy
    [ -f "$data" ] || data=gemma3/tokens.npy # with fewer ids than any vocabulary
    losses cpu "$model" "$data" >"$work/cpu"
    losses cuda "$model" "$data" >"$work/cuda"
    [ "$(wc -l <"$work/cuda")" = 2 ] || die "$model: $(cat "$work/err")"
    paste "$work/cpu" "$work/cuda" | awk '{ d = $1 - $2; if (d > 1e-5 || d < -1e-5) exit 1 }' ||
        die "$model: $(paste "$work/cpu" "$work/cuda")"
    for device in cpu cuda; do
        run 0 eval --model "$work/out-$device" --data "$data" --seq 24 --dtype fp32 --device "$device" \
            --device-memory 64M --json
        number loss >"$work/$device"
    done
    paste "$work/cpu" "$work/cuda" | awk '{ d = $1 - $2; if (d > 1e-4 || d < -1e-4) exit 1 }' ||
        die "$model, eval: $(paste "$work/cpu" "$work/cuda")"
    echo "$model: ok"
done
