# soak: --full
# Planning of large models and many micro-batches takes seconds of processor time; a signal ends it.
set -u
. "$TESTS/cli/lib.sh"

export XDG_CACHE_HOME=$work/cache
SECONDS_MOST=10 # under 5 on two idle cores
grep -qE '__(asan|tsan)_init' "$HILBERT" && SECONDS_MOST=150

# config NAME HIDDEN LAYERS HEADS INTERMEDIATE
config()
{
    cat >"$work/$1.json" <<END
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
 "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "max_position_embeddings": 131072,
 "tie_word_embeddings": false, "vocab_size": 128256, "torch_dtype": "bfloat16",
 "bos_token_id": 128000, "eos_token_id": 128001, "attention_bias": false, "mlp_bias": false,
 "initializer_range": 0.02, "num_key_value_heads": 8, "hidden_size": $2,
 "num_hidden_layers": $3, "num_attention_heads": $4, "intermediate_size": $5}
END
}

# timed CODE ARGUMENTS...: a plan in at most SECONDS_MOST of processor time.
timed()
{
    TIMEFORMAT='%U %S'
    local used code=$1
    shift
    used=$({ time run "$code" plan "$@" >/dev/null 2>&1; } 2>&1)
    echo "$used" | awk -v most="$SECONDS_MOST" '{ exit !($1 + $2 <= most) }' ||
        die "hilbert plan $* took $used s"
}

config 405b 16384 126 128 53248
config 8b 4096 32 32 14336
run 0 plan --model "$TESTS/golden/models/llama" # measures
timed 0 --model "$work/405b.json" --device-memory 80G --host-memory 500G --disk "$work:20T"
timed 0 --model "$work/8b.json" --seq 2048 --batch 1024 --micro-batch 1 --device-memory 24G \
    --host-memory 100G --disk "$work:20T"
timed 0 --model "$work/405b.json" --seq 4096 --batch 256 --micro-batch 1 --device-memory 80G \
    --host-memory 500G --disk "$work:8T"
timed 0 --model "$work/405b.json" --seq 4096 --batch 512 --gpu H100 --device-memory 80G \
    --host-memory 2T --disk "$work:8T"
# Sums of adapters that leave the window and come back before it is emptied.
timed 0 --model "$work/405b.json" --seq 4096 --batch 256 --micro-batch 1 --gpu H100 --adapter lora \
    --base-dtype nf4 --device-memory 24G --host-memory 100G --disk "$work:10T"

# A plan that does not fit is refused as soon, and names what is too small.
timed 1 --model "$work/405b.json" --seq 4096 --batch 512 --ranks 8 --device-memory 80G \
    --host-memory 2T --disk "$work:8T"
grep -q 'of disk are missing on each of 8 ranks' "$work/err" || die "$(cat "$work/err")"

# config of a GPT-2: NAME HIDDEN LAYERS HEADS
gpt2()
{
    echo "{\"model_type\": \"gpt2\", \"vocab_size\": 50257, \"n_positions\": 1024," \
        "\"n_embd\": $2, \"n_layer\": $3, \"n_head\": $4}" >"$work/$1.json"
}

# The largest models on clusters, with what twice of each part would bring: within a minute. Bytes of
# a rank: 2 for the weight and the gradient of a parameter in fp16, 4 for master and both moments,
# divided by the number of ranks.
# huge NAME CLUSTER NODES BATCH GIB: of states on a rank
huge()
{
    sed "s/\"nodes\": 1/\"nodes\": $3/" "$TESTS/../clusters/$2.json" >"$work/$2.json"
    timed 0 --model "$work/$1.json" --cluster "$work/$2.json" --batch "$4" --dtype fp16 --json
    python3 - "$work/out" "$5" <<'END' || die "the plan of $1"
import json, sys
plan = json.load(open(sys.argv[1]))
states = ("weights", "master weights (fp32)", "first moments", "second moments", "gradients")
rows = [r for r in plan["memory"] if r["name"] in states]
held = sum(r[t] for r in rows for t in ("device", "host", "disk")) / 2**30
assert plan["fits"] and plan["by_tile"] and len(rows) == 5, plan["limit"]
assert abs(held / float(sys.argv[2]) - 1) < 0.01, held
assert plan["layers_rehearsed"] >= 4
END
}
if [ $SECONDS_MOST = 10 ]; then
    SECONDS_MOST=60
    gpt2 32t 105472 240 1024
    huge 32t dgx-2 32 512 933  # 32.04T x 16 / 512
    # Experts of DeepSeek-V3's sizes, but for the first three layers: 45,000 matrices of 0.67T parameters.
    cat >"$work/experts.json" <<'END'
{"model_type": "deepseek_v3", "vocab_size": 129280, "hidden_size": 7168, "intermediate_size": 18432,
 "moe_intermediate_size": 2048, "num_hidden_layers": 61, "num_attention_heads": 128,
 "num_key_value_heads": 128, "n_shared_experts": 1, "n_routed_experts": 256, "kv_lora_rank": 512,
 "q_lora_rank": 1536, "qk_rope_head_dim": 64, "v_head_dim": 128, "qk_nope_head_dim": 128,
 "n_group": 8, "topk_group": 4, "num_experts_per_tok": 8, "first_k_dense_replace": 3,
 "norm_topk_prob": true, "max_position_embeddings": 4096, "tie_word_embeddings": false}
END
    timed 0 --model "$work/experts.json" --cluster "$TESTS/../clusters/dgx-h200.json" --batch 64 --seq 1024 --json
    python3 - "$work/out" <<'END' || die "the plan of a mixture"
import json, sys
plan = json.load(open(sys.argv[1]))
assert plan["fits"] and 4 <= plan["layers_rehearsed"] < 61, plan.get("layers_rehearsed")
weights = [r for r in plan["memory"] if r["name"] == "weights"][0]
held = sum(weights[t] for t in ("device", "host", "disk")) / 2**30
assert abs(held / 156.2 - 1) < 0.01, held  # 671B x 2 / 8
END
fi
if [ "${1:-}" = --full ]; then
    gpt2 100t 163840 310 1280
    huge 100t dgx-h200 256 2048 727 # 99.87T x 16 / 2048
    # ten thousand ranks
    sed "s/\"nodes\": 1/\"nodes\": 1250/" "$TESTS/../clusters/dgx-h200.json" >"$work/many.json"
    timed 0 --model "$work/8b.json" --cluster "$work/many.json" --batch 10000
    grep -q '^ranks: 10000; each holds 1/10000 of every state' "$work/out" || die "$(cat "$work/out")"
fi

# Long planning reports its progress, also without a terminal.
config deep 16384 1000 128 53248
"$HILBERT" plan --model "$work/deep.json" --seq 4096 --batch 256 --micro-batch 1 --gpu H100 \
    --adapter lora --base-dtype nf4 --device-memory 80G --host-memory 500G --disk "$work:20T" \
    >"$work/out" 2>"$work/err" &
pid=$!
for _ in $(seq 600); do
    grep -q '^planning' "$work/err" && break
    sleep 0.1
done
kill -TERM $pid
wait $pid
grep -q '^planning: [0-9]*%' "$work/err" || die "planning shows no progress: $(cat "$work/err")"

for signal in INT:130 TERM:143; do
    "$HILBERT" plan --model "$work/405b.json" --batch 64 --micro-batch 1 --device-memory 80G \
        --host-memory 500G --disk "$work:20T" >"$work/out" 2>"$work/err" &
    pid=$!
    sleep 0.5
    kill -"${signal%:*}" $pid
    wait $pid
    code=$?
    [ $code = "${signal#*:}" ] || die "SIG${signal%:*} ends planning with $code: $(cat "$work/err")"
    [ -s "$work/out" ] && die "a plan was printed after SIG${signal%:*}"
done
echo "planned in time"
