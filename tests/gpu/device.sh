# shellcheck disable=SC2086,SC2154
# device.sh - for tests of a device: whole runs on it, compared with runs on the CPU. Needs
# cli/lib.sh, `device` (the value of --device), `exact` (1: the same bits as on the CPU), `steps`,
# `parts` (percent of the memory that a run would use), `kills` (seconds after the start) and
# `limit` (options of runs without a small budget).

cat "$SOURCE"/src/cli/*.c >"$work/data.txt"
mkdir -p "$work/swap"
. "$TESTS/llama_config.sh"
llama_config 300 128 344 3 2 1 128 '"tie_word_embeddings": false, "bos_token_id": 0, "eos_token_id": 0' \
    >"$work/llama.json"
llama_config 300 128 16384 3 2 1 128 '"tie_word_embeddings": false, "bos_token_id": 0, "eos_token_id": 0' \
    >"$work/wide.json" # gates large enough for adapters that are computed with SwiGLU
cat >"$work/gpt2.json" <<END
{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 300, "n_positions": 128,
 "n_embd": 128, "n_layer": 3, "n_head": 2, "resid_pdrop": 0.1, "attn_pdrop": 0.0,
 "embd_pdrop": 0.1, "bos_token_id": 0, "eos_token_id": 0}
END
# norms_config TYPE CLASS MORE: a model whose norms of q and k have weights for each head.
norms_config()
{
    cat <<END
{"model_type": "$1", "architectures": ["$2"], "vocab_size": 300, "hidden_size": 128, "intermediate_size": 344,
 "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128,
 "layer_norm_eps": 1e-5, "bos_token_id": 0, "eos_token_id": 0, $3}
END
}
norms_config cohere CohereForCausalLM '"use_qk_norm": true' >"$work/cohere.json" # in one matrix
norms_config stablelm StableLmForCausalLM '"qk_layernorm": true' >"$work/stablelm.json" # in vectors
# mixture_config TYPE CLASS MORE: a model whose experts do not all get tokens.
mixture_config()
{
    cat <<END
{"model_type": "$1", "architectures": ["$2"], "vocab_size": 300, "hidden_size": 128, "intermediate_size": 96,
 "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 128,
 "rms_norm_eps": 1e-6, "bos_token_id": 0, "eos_token_id": 0, "tie_word_embeddings": false, $3}
END
}
mixture_config mixtral MixtralForCausalLM '"num_local_experts": 6, "num_experts_per_tok": 2,
 "output_router_logits": true, "router_aux_loss_coef": 0.02' >"$work/mixtral.json"
mixture_config qwen3_moe Qwen3MoeForCausalLM '"num_experts": 24, "num_experts_per_tok": 4, "head_dim": 64,
 "moe_intermediate_size": 72, "norm_topk_prob": true, "initializer_range": 0.2' >"$work/qwen3_moe.json"
mixture_config gpt_oss GptOssForCausalLM '"num_local_experts": 8, "num_experts_per_tok": 2, "head_dim": 64,
 "sliding_window": 48, "layer_types": ["sliding_attention", "full_attention"], "attention_bias": true,
 "hidden_act": "silu"' >"$work/gpt_oss.json"

# train MODEL OUT OPTIONS...
train()
{
    local model=$1 out=$2
    shift 2
    run 0 train --model "$work/$model.json" --data "$work/data.txt" --out "$work/$out" \
        --overwrite --seq 128 --batch 4 --micro-batch 2 --steps "$steps" --schedule constant \
        --lr 5e-4 --threads 2 "$@"
}

# values OUT KEY: that number of every step.
values()
{
    grep -o "\"$2\": [0-9.e+-]*" "$work/$1/metrics.jsonl" | cut -d ' ' -f 2
}

# near OUT OUT LIMIT: the losses of two runs differ by no more.
near()
{
    paste <(values "$1" loss) <(values "$2" loss) | awk -v most="$3" '
        { d = $1 - $2; if (d < 0) d = -d; if (d > worst) worst = d; ++n }
        END { printf "%d losses, %g apart at most\n", n, worst; exit !(n > 0 && worst <= most) }' ||
        die "no nearer: $(values "$1" loss | tr '\n' ' ')and $(values "$2" loss | tr '\n' ' ')"
}

# same OUT OUT: two runs have the same bits.
same()
{
    cmp "$work/$1/model.safetensors" "$work/$2/model.safetensors" || die "$1 is not $2"
    [ "$(values "$1" loss)" = "$(values "$2" loss)" ] || die "the losses of $1 are not those of $2"
}

# Runs with smaller and smaller device budgets stay within them and give the same bits; `more`:
# options of all of them.
check_placements()
{
    local model=$1 dtype=$2 room peak part moved=0
    train "$model" roomy --dtype "$dtype" --device "$device" ${more-} $limit
    peak=$(values roomy device_peak | sort -n | tail -n 1)
    for part in $parts; do
        for room in "--host-memory 64M" "--host-memory 3M --disk $work/swap"; do
            "$HILBERT" plan --model "$work/$model.json" --seq 128 --batch 4 --micro-batch 2 \
                --dtype "$dtype" --device "$device" --device-memory $((peak * part / 100)) $room ${more-} \
                >"$work/plan" 2>&1 || { tail -n 1 "$work/plan"; continue; }
            train "$model" tight --dtype "$dtype" --device "$device" \
                --device-memory $((peak * part / 100)) $room ${more-}
            same roomy tight
            [ "$(values tight device_peak | sort -n | tail -n 1)" -le $((peak * part / 100)) ] ||
                die "$model: more device memory than allowed"
            moved=$((moved + $(values tight to_device_bytes | tail -n 1)))
        done
    done
    [ "$moved" -gt 0 ] || die "$model $dtype: nothing was ever moved"
}

# A run that was killed at any time resumes with the same bits; also one that had just finished.
check_resume()
{
    local model=$1 dtype=$2 seconds
    for seconds in $kills; do
        rm -rf "$work/killed"
        "$HILBERT" train --model "$work/$model.json" --data "$work/data.txt" --out "$work/killed" \
            --seq 128 --batch 4 --micro-batch 2 --steps "$steps" --schedule constant \
            --lr 5e-4 --threads 2 --dtype "$dtype" --device "$device" $limit --save-every 3 --quiet &
        local pid=$!
        sleep "$seconds"
        kill -9 "$pid" 2>/dev/null
        wait "$pid" 2>/dev/null
        [ -d "$work/killed" ] || continue
        run 0 train --model "$work/$model.json" --data "$work/data.txt" --out "$work/killed" \
            --resume --seq 128 --batch 4 --micro-batch 2 --steps "$steps" --schedule constant \
            --lr 5e-4 --threads 2 --dtype "$dtype" --device "$device" $limit --save-every 3
        same roomy killed
    done
}

# loss OUT OPTIONS...: the loss that eval prints
loss()
{
    local out=$1
    shift
    run 0 eval --model "$work/$out" --tokenizer bytes --data "$SOURCE/src/cli/main.c" --seq 128 --json "$@"
    sed 's/^{"loss": \([0-9.e+-]*\),.*/\1/' "$work/out"
}

check_use()
{
    local a b
    a=$(loss roomy --device cpu) b=$(loss roomy --device "$device" $limit)
    awk "BEGIN { d = $a - $b; exit !(d * d < 1e-8) }" || die "eval: $a on the CPU, $b on $device"
    run 0 generate --model "$work/roomy" --tokenizer bytes --prompt "static int " --max-tokens 40 --temperature 0 \
        --device cpu
    cp "$work/out" "$work/greedy"
    run 0 generate --model "$work/roomy" --tokenizer bytes --prompt "static int " --max-tokens 40 --temperature 0 \
        --device "$device" $limit
    cmp "$work/out" "$work/greedy" || die "generate: another text on $device"
}

# prefer MODEL OUT OPTIONS...: trains an adapter on pairs of answers.
prefer()
{
    local model=$1 out=$2
    shift 2
    run 0 train --model "$work/$model.json" --data "$work/pairs.jsonl" --tokenizer bytes --out "$work/$out" \
        --overwrite --adapter lora --rank 8 --loss dpo --seq 128 --batch 4 --micro-batch 2 --steps "$steps" \
        --schedule constant --lr 1e-3 --threads 2 "$@"
}

# check_pairs MODEL DTYPE LIMIT: losses as on the CPU, and the same bits in less memory.
check_pairs()
{
    local model=$1 dtype=$2 peak
    for i in $(seq 1 60); do
        printf '{"prompt": "static ", "chosen": "int f%d(void)", "rejected": "void %*d"}\n' "$i" $((i % 20)) "$i"
    done >"$work/pairs.jsonl"
    prefer "$model" pairs-cpu --dtype "$dtype" --device cpu
    prefer "$model" pairs --dtype "$dtype" --device "$device" $limit
    near pairs-cpu pairs "$3"
    peak=$(values pairs device_peak | sort -n | tail -n 1)
    prefer "$model" pairs-tight --dtype "$dtype" --device "$device" --device-memory $((peak * 60 / 100)) \
        --host-memory 64M
    cmp "$work/pairs/adapter_model.safetensors" "$work/pairs-tight/adapter_model.safetensors" ||
        die "pairs: another adapter in less memory"
    [ "$exact" = 0 ] || cmp "$work/pairs/adapter_model.safetensors" "$work/pairs-cpu/adapter_model.safetensors" ||
        die "pairs: another adapter on the CPU"
}

# planned MODEL OPTIONS...: the bytes of the device that a run is planned to hold: plan_peak.
planned()
{
    run 0 plan --model "$work/$1.json" --seq 128 --batch 4 --micro-batch 2 --threads 2 --device "$device" "${@:2}" --json
    plan_peak=$(sed -n '/"peak"/,/}/p' "$work/out" | grep -o '"device": *[0-9]*' | grep -o '[0-9]*$')
}

# check_quantized MODEL DTYPE: an adapter on a base in nf4, which the device draws and expands.
check_quantized()
{
    local model=$1 dtype=$2 peak
    set -- --dtype "$dtype" --adapter lora --base-dtype nf4
    train "$model" q_cpu "$@" --device cpu
    train "$model" q_roomy "$@" --device "$device" $limit
    peak=$(values q_roomy device_peak | sort -n | tail -n 1)
    planned "$model" "$@" $limit
    [ "$(values q_roomy device_peak | sort -u)" = "$plan_peak" ] ||
        die "q_roomy holds $(values q_roomy device_peak | sort -u | tr '\n' ' ')bytes, planned $plan_peak"
    train "$model" q_small "$@" --device "$device" --device-memory $((peak * 80 / 100)) --host-memory 64M
    cmp "$work/q_roomy/adapter_model.safetensors" "$work/q_small/adapter_model.safetensors" ||
        die "another adapter with less memory"
}

# check_adapter MODEL DTYPE LIMIT TARGETS: an adapter of these layers only: the CPU's losses, and the same bits in less
# memory. The first layers whose input wants no gradient compute otherwise than the later ones.
check_adapter()
{
    local model=$1 limits=$3 peak
    set -- --dtype "$2" --adapter lora --rank 16 --targets "$4"
    train "$model" a_cpu "$@" --device cpu
    train "$model" a_roomy "$@" --device "$device" $limit
    near a_cpu a_roomy "$limits"
    peak=$(values a_roomy device_peak | sort -n | tail -n 1)
    train "$model" a_small "$@" --device "$device" --device-memory $((peak * 80 / 100)) --host-memory 64M
    cmp "$work/a_roomy/adapter_model.safetensors" "$work/a_small/adapter_model.safetensors" ||
        die "$model: another adapter with less memory"
}

# check_lean MODEL DTYPE: the same bits if all layers make what is bulky or cheap again.
check_lean()
{
    "$HILBERT" plan --json --model "$work/$1.json" --seq 128 --batch 4 --micro-batch 2 --dtype "$2" \
        --device "$device" ${more-} $limit >"$work/plan.json" || die "no plan"
    awk '/"keep":/ { n = $2 + 0; sub(/[0-9]+/, "0") } /"lean":/ { sub(/[0-9]+/, n) } { print }' \
        "$work/plan.json" >"$work/lean.json"
    cmp -s "$work/plan.json" "$work/lean.json" && die "$1: nothing is kept"
    train "$1" lean --dtype "$2" --device "$device" ${more-} $limit --plan "$work/lean.json"
    same roomy lean
}

# check_late MODEL DTYPE: the same bits if the CPU updates moments after all weights, and if it does not.
check_late()
{
    local peak
    peak=$(values roomy device_peak | sort -n | tail -n 1)
    set -- "$1" --dtype "$2" --device "$device" --device-memory $((peak * 60 / 100)) --host-memory 64M
    "$HILBERT" plan --json --model "$work/$1.json" --seq 128 --batch 4 --micro-batch 2 "${@:2}" >"$work/plan.json" ||
        die "no plan"
    grep -v '"late_moments"' "$work/plan.json" >"$work/at_once.json"
    sed 's/^\( *\)"spill":/\1"late_moments": true,\n&/' "$work/at_once.json" >"$work/late.json"
    grep -q '"late_moments": true' "$work/late.json" || die "$(cat "$work/late.json")"
    for plan in at_once late; do
        train "$1" $plan "${@:2}" --plan "$work/$plan.json" --trace "$work/$plan.trace"
        same roomy $plan
    done
    grep -q '"moments"' "$work/late.trace" || die "no moments were updated late"
    grep -q '"moments"' "$work/at_once.trace" && die "moments were updated late"
}

# check_mixture MODEL DTYPE LIMIT: the CPU's losses, the same bits for any placement, evaluation and generation; `more`:
# options of all trainings.
check_mixture()
{
    train "$1" cpu --dtype "$2" --device cpu ${more-}
    check_placements "$1" "$2"
    near cpu roomy "$3"
    [ "$exact" = 0 ] || same cpu roomy
    check_lean "$1" "$2"
    check_late "$1" "$2"
    check_use
    echo "$1 $2: ok"
}

# check_model MODEL DTYPE LIMIT
check_model()
{
    train "$1" cpu --dtype "$2" --device cpu
    check_placements "$1" "$2"
    near cpu roomy "$3"
    [ "$exact" = 0 ] || same cpu roomy
    check_late "$1" "$2"
    check_resume "$1" "$2"
    check_use
    check_quantized "$1" "$2"
    near q_cpu q_roomy "$3"
    echo "$1 $2: ok"
}
