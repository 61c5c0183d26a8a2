# hilbert plan for GPUs that are not here: which activations are offloaded, and what stays on the GPU.
set -u
. "$TESTS/cli/lib.sh"
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
plan_begin

# With one micro-batch at a time host memory has room for its activations, so that a GPU whose bus has
# time for them recomputes hardly any; all micro-batches together would have to.
cat >"$work/config.json" <<'END'
{"model_type": "llama", "vocab_size": 128256, "hidden_size": 8192, "intermediate_size": 28672,
 "num_hidden_layers": 16, "num_attention_heads": 64, "num_key_value_heads": 8,
 "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "tie_word_embeddings": false}
END
run 0 plan --model "$work/config.json" --adapter lora --base-dtype nf4 --seq 1024 --batch 32 \
    --micro-batch 2 --gpu "RTX 4090" --device-memory 10G --host-memory 40G --json
[ "$(number group)" = 1 ] || die "$(number group) micro-batches pass a layer together"
[ "$(number segments 8 tapes)" = host ] || die "activations are not offloaded"
[ "$(number segments 8 thin)" = False ] || die "attention is recomputed though all may be kept"

# Where host memory has no room for all of them, attention is recomputed if that saves less time per byte
# than the products do: of short sequences.
# A described machine has the same speeds in every test.
echo '{"gpu": "H200", "ram_gib": 64, "ram_gb_s": 100}' >"$work/h200.json"
offloaded="--model $work/config.json --adapter lora --base-dtype nf4 --cluster $work/h200.json --device-memory 20G
    --host-memory 16G --json"
thin()
{
    python3 - "$work/out" <<'END'
import json, sys
print({s["thin"] for s in json.load(open(sys.argv[1]))["segments"] if s["tapes"] == "host"})
END
}
run 0 plan $offloaded --seq 1024 --batch 32 --micro-batch 8
[ "$(thin)" = "{True}" ] || die "attention of short sequences is kept: $(thin)"
run 0 plan $offloaded --seq 8192 --batch 4 --micro-batch 1
[ "$(thin)" = "{False}" ] || die "attention of long sequences is recomputed: $(thin)"

# All states stay on a GPU that has room for them, and activations that do not fit beside them are offloaded.
. "$TESTS/llama_config.sh"
llama_config 32000 1536 4096 20 12 12 1024 '"tie_word_embeddings": false' >"$work/resident.json"
run 0 plan --model "$work/resident.json" --seq 1024 --batch 32 --micro-batch 8 --cluster "$work/h200.json" \
    --device-memory 13800M --host-memory 48G
for state in weights 'first moments' 'second moments'; do
    grep -q "^$state  *[0-9.]* GiB  *-  *-$" "$work/out" || die "$state leave the GPU: $(cat "$work/out")"
done
grep -q '^activations and work buffers  *[0-9.]* GiB  *[0-9.]* GiB' "$work/out" || die "nothing is offloaded"

# Micro-batches one at a time: 200 million parameters with 12 bytes of states and 4 of sums fit into 3600 MiB of a
# GPU, but not with 2 more for rounded gradients.
sed 's/128256/32000/; s/8192/1024/; s/28672/4096/; s/: 16/: 8/; s/: 64/: 8/' "$work/config.json" >"$work/200m.json"
run 0 plan --model "$work/200m.json" --cluster "$work/h200.json" --seq 512 --batch 16 --micro-batch 1 \
    --device-memory 3600M --host-memory 8G --json
[ "$(number keeps_sums)" = True ] || die "gradients have memory beside their sums"
[ "$(number bytes_per_step to_host)" = 0 ] || die "states or gradients leave the GPU"
less "$(number peak device)" $((3600 << 20)) "device"

# The CPU updates moments after all weights where a step waits for its update and then leaves it time: not in
# a step of few tokens, which waits for all of it, nor in one of many, which hides it.
late() # TOKENS
{
    run 0 plan --model "$work/200m.json" --cluster "$work/h200.json" --seq 512 --batch $(($1 / 512)) \
        --micro-batch 8 --device-memory 1600M --host-memory 8G --json ${2-}
    grep -q '"late_moments": true' "$work/out"
}
late 4096 && die "late moments in a short step"
late 16384 || die "no late moments in a step of 16k tokens"
seconds=$(number step_seconds)
grep -v '"late_moments"' "$work/out" >"$work/at_once.json"
late 16384 "--plan $work/at_once.json" && die "late moments in a plan without them"
awk "BEGIN { exit !($seconds < 0.97 * $(number step_seconds)) }" || die "late moments do not save 3%"
late 262144 && die "late moments in a long step"

# A GPU that is described computes as fast beside one thread of this machine as beside many.
beside() { run 0 plan --model "$work/200m.json" --gpu H200 --seq 512 --batch 8 --micro-batch 1 --threads "$1" --json; }
beside 1
one=$(number compute_seconds)
beside 16
[ "$(number compute_seconds)" = "$one" ] || die "computing takes $(number compute_seconds) s beside 16 threads, $one s beside one"

# Both gradients of a tied embedding are squared on the GPU where they are there: in no time beside the step's.
sed 's/"tie_word_embeddings": false/"tie_word_embeddings": true/' "$work/200m.json" >"$work/tied.json"
for name in 200m tied; do
    run 0 plan --model "$work/$name.json" --gpu H200 --seq 512 --batch 8 --json
    number compute_seconds >"$work/$name.seconds"
done
awk 'FNR == NR { apart = $1; next } { d = $1 / apart - 1; exit !(d < 0.02 && d > -0.02) }' "$work/200m.seconds" \
    "$work/tied.seconds" || die "computing takes $(cat "$work/200m.seconds") s, with a tied embedding $(cat "$work/tied.seconds") s"
