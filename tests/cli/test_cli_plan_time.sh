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
