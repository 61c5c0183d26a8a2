# Adapters of a gated MLP that is large enough to be computed with them in one pass: the numbers of
# separate products within rounding, and the same bytes with less memory and after a resume.
set -u
. "$TESTS/cli/lib.sh"
. "$TESTS/llama_config.sh"
llama_config 300 64 4096 2 2 1 512 '"tie_word_embeddings": false, "bos_token_id": 0, "eos_token_id": 0' \
    >"$work/model.json"
cat "$SOURCE"/src/cli/*.c >"$work/data.txt"

train() # train OUT OPTIONS...
{
    run 0 train --model "$work/model.json" --data "$work/data.txt" --tokenizer bytes --seq 512 --batch 2 \
        --steps 3 --schedule constant --lr 1e-3 --dtype bf16 --adapter lora --rank 8 --out "$work/$1" "${@:2}"
}

same() # same OTHER: as the run "whole"
{
    cmp "$work/whole/adapter_model.safetensors" "$work/$1/adapter_model.safetensors" || die "$1: other bytes"
}

values() # values OUT KEY: that number of every step
{
    grep -o "\"$2\": [0-9.e+-]*" "$work/$1/metrics.jsonl" | cut -d ' ' -f 2
}

train whole --micro-batch 2
train parts --micro-batch 1 # too few rows
for key in loss grad_norm; do
    paste <(values whole $key) <(values parts $key) | awk '
        { d = $1 / $2 - 1; if (d < 0) d = -d; if (d > worst) worst = d; ++n }
        END { printf "%d numbers, %g apart at most\n", n, worst; exit !(n == 3 && worst <= 0.002) }' ||
        die "$key: $(values whole $key | tr '\n' ' ')and $(values parts $key | tr '\n' ' ')"
done
train again --micro-batch 2 --recompute all
same again
peak=$(values whole device_peak | sort -n | tail -n 1)
train tight --micro-batch 2 --device-memory $((peak * 80 / 100)) --host-memory 64M
same tight
exit 0
