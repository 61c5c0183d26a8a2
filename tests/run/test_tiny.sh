# Tiny budgets: models of 0.16M parameters train in 700K of device memory and 1M of host memory; a
# matrix of four times the device memory trains in tiles to the same result as in one piece.
set -u
. "$TESTS/cli/lib.sh"
cat "$SOURCE"/src/cli/*.c >"$work/data.txt"
mkdir "$work/swap"

# llama NAME HIDDEN LAYERS VOCAB INNER TIED
llama()
{
    cat >"$work/$1.json" <<END
{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": $4, "hidden_size": $2,
 "intermediate_size": $5, "num_hidden_layers": $3, "num_attention_heads": 4,
 "num_key_value_heads": 4, "max_position_embeddings": 128, "rms_norm_eps": 1e-5,
 "hidden_act": "silu", "tie_word_embeddings": $6, "bos_token_id": 0, "eos_token_id": 0}
END
}

# gpt2 NAME HIDDEN LAYERS VOCAB
gpt2()
{
    cat >"$work/$1.json" <<END
{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": $4, "n_positions": 128,
 "n_embd": $2, "n_layer": $3, "n_head": 4, "bos_token_id": 0, "eos_token_id": 0}
END
}

# over OUT KEY BYTES: fails if a metric of that name is above BYTES.
over()
{
    local most
    most=$(grep -o "\"$2\": [0-9]*" "$1/metrics.jsonl" | sort -t ' ' -k 2 -n | tail -n 1)
    [ "${most##* }" -le "$3" ] || die "$1: $2 is ${most##* }, above $3"
}

gpt2 gpt2-a 64 2 512
gpt2 gpt2-b 48 4 512
llama llama-a 64 2 512 172 false
llama llama-b 64 2 512 256 true
for model in gpt2-a gpt2-b llama-a llama-b; do
    for kind in "bf16 --seq 128 --micro-batch 1" "bf16 --seq 64" "fp32 --seq 48 --micro-batch 1"; do
        # shellcheck disable=SC2086
        run 0 train --model "$work/$model.json" --data "$work/data.txt" --batch 4 --steps 3 \
            --dtype $kind --device-memory 700K --host-memory 1M --disk "$work/swap" --threads 2 \
            --out "$work/$model" --overwrite
        over "$work/$model" device_peak $((700 * 1024))
        over "$work/$model" host_peak $((1024 * 1024))
    done
done

# The table has 8192 x 64 numbers: 2 MiB in fp32.
llama wide 64 1 8192 128 false
for memory in 64M 512K; do
    run 0 train --model "$work/wide.json" --data "$work/data.txt" --batch 2 --seq 8 --steps 4 \
        --micro-batch 1 --dtype fp32 --tile-size 64K --device-memory $memory --host-memory 4M \
        --disk "$work/swap" --threads 2 --out "$work/wide-$memory"
    sed 's/, "seconds".*//' "$work/wide-$memory/metrics.jsonl" >"$work/numbers-$memory"
done
over "$work/wide-512K" device_peak $((512 * 1024))
cmp "$work/wide-64M/model.safetensors" "$work/wide-512K/model.safetensors" ||
    die "tiles that come and go make other weights"
cmp "$work/numbers-64M" "$work/numbers-512K" || die "tiles that come and go make other losses"
