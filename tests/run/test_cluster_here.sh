# This machine as a description: probe --describe prints one that plan --cluster reads and that can be edited; with twice
# the RAM a model fits that did not. --cluster this is the same machine.
set -u
. "$TESTS/cli/lib.sh"
command -v python3 >/dev/null || exit 77
export XDG_CACHE_HOME=$work/cache
cat >"$work/m.json" <<'END'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "rms_norm_eps": 1e-5,
 "max_position_embeddings": 2048, "vocab_size": 1024, "hidden_size": 256, "num_hidden_layers": 4,
 "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 1024, "tie_word_embeddings": false}
END
run 0 probe --describe --device cpu --threads 1 --disk "$work"
cp "$work/out" "$work/here.json"
options=(--model "$work/m.json" --seq 64 --batch 2 --device cpu --threads 1)
run 0 plan "${options[@]}" --cluster "$work/here.json" --json
python3 - "$work/here.json" "$work/out" "$work" <<'END' || die "the description is not as it should be"
import json, sys
here, plan = (json.load(open(path)) for path in sys.argv[1:3])
assert here["nodes"] == here["gpus"] == 1 and here["drives"]["count"] == 1 and here["cpu"]["fp32_tflops"] > 0
assert abs(plan["speeds"]["gemm_fp32"] / (1e12 * here["cpu"]["fp32_tflops"]) - 1) < 1e-6
assert abs(sum(plan["budget"][t] for t in ("device", "host")) / (0.9 * 2**30 * here["ram_gib"]) - 1) < 0.01
del here["drives"]
for ram in (0.0625, 0.125):
    here["ram_gib"] = ram
    json.dump(here, open(f"{sys.argv[3]}/ram-{ram}.json", "w"))
END
run 1 plan "${options[@]}" --cluster "$work/ram-0.0625.json"
run 0 plan "${options[@]}" --cluster "$work/ram-0.125.json"
run 0 plan "${options[@]}" --cluster this
grep -q '^cluster: this machine, 1 node with 1 x ' "$work/out" || die "$(cat "$work/out")"
# The same speeds as a plan without a description, so the same time of a step.
both=("${options[@]}" --device-memory 30M --host-memory 20M --json)
for dtype in bf16 fp16; do
    run 0 plan "${both[@]}" --disk "$work:1G" --dtype $dtype
    cp "$work/out" "$work/plan.json"
    for cluster in "$work/here.json" this; do
        run 0 plan "${both[@]}" --disk "$work:1G" --dtype $dtype --cluster "$cluster"
        python3 - "$work/plan.json" "$work/out" <<'END' || die "in $dtype $cluster has other speeds than this machine"
import json, sys
plan, described = (json.load(open(path)) for path in sys.argv[1:3])
a, b = plan["speeds"], described["speeds"]
assert plan["bytes_per_step"]["disk_read"] > 0
differ = {k: (a[k], b.get(k)) for k in a if k not in ("network", "to_device", "to_host") and abs(b[k] - a[k]) > 1e-4 * a[k]}
assert not differ, differ
assert abs(described["step_seconds"] / plan["step_seconds"] - 1) < 0.01, (described["step_seconds"], plan["step_seconds"])
END
    done
done
run 0 plan "${options[@]}" --cluster this
# what it does not have is not doubled
grep '^a step with twice the' "$work/out" | grep -qE 'network|drives|bus|GPU memory' && die "$(cat "$work/out")"
exit 0
