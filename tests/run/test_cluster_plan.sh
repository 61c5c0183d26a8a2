# hilbert plan --cluster: ranks, budgets and speeds of the described machine; what one change brings; the
# largest model, which fits while twice as many layers do not.
set -u
. "$TESTS/cli/lib.sh"
command -v python3 >/dev/null || exit 77
export XDG_CACHE_HOME=$work/cache
cat >"$work/small.json" <<'END'
{"name": "two small nodes", "nodes": 2, "gpus": 2, "ram_gib": 0.5, "ram_gb_s": 50, "bus_gb_s": 10,
 "gpu": {"name": "G", "memory_gib": 2, "tensor_tflops": 50, "fp32_tflops": 10, "memory_gb_s": 500, "bus_gb_s": 10},
 "drives": {"count": 1, "gb": 4, "read_gb_s": 3, "write_gb_s": 2},
 "network": {"inside_gb_s": 20, "between_gb_s": 5}}
END
cat >"$work/m.json" <<'END'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "rms_norm_eps": 1e-5,
 "max_position_embeddings": 2048, "vocab_size": 1024, "hidden_size": 1024, "num_hidden_layers": 8,
 "num_attention_heads": 8, "num_key_value_heads": 8, "intermediate_size": 4096, "tie_word_embeddings": false}
END
options=(--model "$work/m.json" --cluster "$work/small.json" --seq 256 --batch 16)
run 0 plan "${options[@]}"
grep -q '^cluster: two small nodes, 2 nodes with 2 x G$' "$work/out" || die "$(cat "$work/out")"
grep -q '^speed: .* tokens/s, .* TFLOP/s on each GPU' "$work/out" || die "$(cat "$work/out")"
grep -q '^a step with twice the GPU memory: .*, network: .*; most helps: ' "$work/out" || die "$(cat "$work/out")"
grep -q '^ranks: 4; each holds 1/4 of every state' "$work/out" || die "$(cat "$work/out")"
run 0 plan "${options[@]}" --largest --json
python3 - "$work/out" <<'END' || die "the JSON is not as it should be"
import json, sys
plan = json.load(open(sys.argv[1]))
c = plan["cluster"]
assert c["nodes"] == 2 and c["gpus"] == 2 and len(c["changes"]) == 6
assert abs(c["tokens_per_second"] * plan["step_seconds"] - 16 * 256) < 1, c
base = plan["step_seconds"]
assert all(x["step_seconds"] <= base * 1.001 for x in c["changes"]), (base, c)
END
largest=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["cluster"]["largest_layers"])' "$work/out")
sed "s/\"num_hidden_layers\": 8/\"num_hidden_layers\": $largest/" "$work/m.json" >"$work/most.json"
sed "s/\"num_hidden_layers\": 8/\"num_hidden_layers\": $((largest * 2))/" "$work/m.json" >"$work/more.json"
run 0 plan --model "$work/most.json" --cluster "$work/small.json" --seq 256 --batch 16
run 1 plan --model "$work/more.json" --cluster "$work/small.json" --seq 256 --batch 16 --largest
grep -q "^largest model of such layers: $largest layers, " "$work/out" || die "no largest: $(cat "$work/out")"
fails 2 "leave out --ranks" plan "${options[@]}" --gpu H100
fails 2 "needs --cluster" plan --model "$work/m.json" --largest
fails 2 "does not divide over 4 ranks" plan --model "$work/m.json" --cluster "$work/small.json" --batch 6
