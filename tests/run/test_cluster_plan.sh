# hilbert plan --cluster: ranks, budgets and speeds of the described machine; what one change brings; the
# largest model, which fits while twice as many layers do not, and is wider where these are many; outputs of layers
# in RAM where the GPU's memory is worth more.
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
grep -q '^speed: .* tokens/s, .* TFLOP/s on each rank' "$work/out" || die "$(cat "$work/out")"
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
best = min(c["changes"], key=lambda x: x["step_seconds"])
assert c["most_helps"] == (best["twice the"] if best["step_seconds"] < 0.99 * base else None), c
END
largest=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["cluster"]["largest_layers"])' "$work/out")
[ "$largest" -gt 8 ] || die "the largest model has $largest layers, and 8 fit"
sed "s/\"num_hidden_layers\": 8/\"num_hidden_layers\": $largest/" "$work/m.json" >"$work/most.json"
sed "s/\"num_hidden_layers\": 8/\"num_hidden_layers\": $((largest * 2))/" "$work/m.json" >"$work/more.json"
run 0 plan --model "$work/most.json" --cluster "$work/small.json" --seq 256 --batch 16
run 1 plan --model "$work/more.json" --cluster "$work/small.json" --seq 256 --batch 16 --largest
grep -q "^largest model of such layers: $largest layers, " "$work/out" || die "no largest: $(cat "$work/out")"
# What does not fit: the changes that make room for it, and the one with the shortest step. A quarter more of the
# states, 3 GB, has room in 8 GB of GPU memory or of drives, not in 1 GiB of RAM.
sed "s/\"num_hidden_layers\": 8/\"num_hidden_layers\": $((largest * 5 / 4))/" "$work/m.json" >"$work/more.json"
run 1 plan --model "$work/more.json" --cluster "$work/small.json" --seq 256 --batch 16
grep -q '^a step with twice the GPU memory: [0-9].*, RAM: does not fit, drives: [0-9].*; most helps: GPU memory$' "$work/out" ||
    die "what would make it fit: $(cat "$work/out")"
run 1 plan --model "$work/more.json" --cluster "$work/small.json" --seq 256 --batch 16 --json
python3 - "$work/out" <<'END' || die "the JSON of what does not fit: $(cat "$work/out")"
import json, sys
plan = json.load(open(sys.argv[1]))
c = plan["cluster"]
assert plan["fits"] is False and len(c["changes"]) == 6 and c["most_helps"] == "GPU memory", c
assert {x["twice the"] for x in c["changes"] if x["step_seconds"]} == {"GPU memory", "drives"}, c
END
# A part whose budget is an option is doubled with it, so the comparison agrees with what the refusal says.
given=(--device-memory 200M --host-memory 200M --disk "$work:400M")
run 1 plan "${options[@]}" "${given[@]}"
grep -q '^hilbert: .* are missing on each of 4 ranks.*: give ' "$work/err" || die "$(cat "$work/err")"
grep -Eq '^a step with twice the GPU memory: [0-9].* computing speed: does not fit, .* RAM: [0-9].* drives: [0-9].*; most helps: (GPU memory|RAM|drives)$' "$work/out" ||
    die "budgets of options: $(cat "$work/out")"
cat >"$work/cpu.json" <<'END'
{"name": "a CPU", "ram_gib": 4, "cpu": {"fp32_tflops": 1, "bf16_tflops": 2, "attention_tflops": 0.5, "memory_gb_s": 50, "cores": 8}}
END
run 1 plan --model "$work/m.json" --cluster "$work/cpu.json" --seq 256 --batch 16 --device-memory 800M --host-memory 800M
grep -q '^a step with twice the computing speed: does not fit, RAM: [0-9].*; most helps: RAM$' "$work/out" ||
    die "budgets of options on a CPU: $(cat "$work/out")"
# Narrow layers: hundreds of them are no model, so wider ones are tried.
sed 's/"hidden_size": 1024/"hidden_size": 64/; s/"intermediate_size": 4096/"intermediate_size": 256/' "$work/m.json" >"$work/narrow.json"
run 0 plan --model "$work/narrow.json" --cluster "$work/small.json" --seq 64 --batch 4 --largest --json
python3 - "$work/out" "$work/narrow.json" "$work" <<'END' || die "the largest of narrow layers"
import json, sys
c, model = json.load(open(sys.argv[1]))["cluster"], json.load(open(sys.argv[2]))
layers, times = c["largest_layers"], c["largest_hidden"] // 64
assert 256 <= layers <= 1024 and times >= 4 and times & (times - 1) == 0, c
wide = {**model, **{k: times * model[k] for k in ("hidden_size", "intermediate_size", "num_attention_heads",
                                                  "num_key_value_heads")}}
# vocabulary in and out, then attention, MLP and norms of each layer, and the last norm
h, inner = wide["hidden_size"], wide["intermediate_size"]
assert c["largest_parameters"] == 2 * 1024 * h + layers * (4 * h * h + 3 * h * inner + 2 * h) + h, c
json.dump({**wide, "num_hidden_layers": layers + layers // 16}, open(sys.argv[3] + "/wider.json", "w"))
END
run 1 plan --model "$work/wider.json" --cluster "$work/small.json" --seq 64 --batch 4
# Much RAM beside eight GPUs: with more GPU memory a step is not slower, also where that holds all outputs of layers.
cat >"$work/eight.json" <<'END'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "rms_norm_eps": 1e-5,
 "max_position_embeddings": 2048, "vocab_size": 32000, "hidden_size": 4096, "num_hidden_layers": 6,
 "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 11008, "tie_word_embeddings": false}
END
for gib in 8 9; do
    cat >"$work/gpus.json" <<END
{"name": "eight GPUs", "gpus": 8, "ram_gib": 1024, "ram_gb_s": 200, "network": {"inside_gb_s": 2},
 "gpu": {"memory_gib": $gib, "tensor_tflops": 165, "fp32_tflops": 80, "memory_gb_s": 1000, "bus_gb_s": 32}}
END
    run 0 plan --model "$work/eight.json" --cluster "$work/gpus.json" --seq 2048 --batch 256 --json
    cp "$work/out" "$work/gpus-$gib.json"
done
python3 - "$work"/gpus-8.json "$work"/gpus-9.json <<'END' || die "outputs of layers in RAM"
import json, sys
small, large = (json.load(open(path)) for path in sys.argv[1:])
assert large["step_seconds"] <= small["step_seconds"], (small["step_seconds"], large["step_seconds"])
assert {s["activations"] for s in large["segments"]} == {"host"}
END
fails 2 "leave out --ranks" plan "${options[@]}" --gpu H100
fails 2 "needs --cluster" plan --model "$work/m.json" --largest
fails 2 "does not divide over 4 ranks" plan --model "$work/m.json" --cluster "$work/small.json" --batch 6
# What a description does not have, and what its layout is not for.
sed 's/"drives": {[^}]*},//' "$work/small.json" >"$work/bare.json"
run 2 plan --model "$work/m.json" --cluster "$work/bare.json" --seq 256 --batch 16 --disk "$work:1G"
grep -q 'two small nodes has no drives' "$work/err" || die "$(cat "$work/err")"
sed 's/"nodes": 2/"nodes": 2, "layout": {}/' "$work/small.json" >"$work/layout.json"
run 2 plan --model "$work/m.json" --cluster "$work/layout.json" --seq 256 --batch 16 --optimizer lion
grep -q 'is for dense models' "$work/err" || die "$(cat "$work/err")"
# What is left out of a folder with images is said once, not for each of the plans.
run 0 plan --model "$SOURCE/tests/golden/models/gemma3_images" --cluster "$SOURCE/clusters/laptop.json" --seq 32 \
    --batch 2 --largest
grep -q 'most helps' "$work/out" || die "no other plans: $(cat "$work/out")"
notes=$(grep -c 'only its text model' "$work/err")
[ "$notes" = 1 ] || die "$notes notes, not one: $(cat "$work/err")"
