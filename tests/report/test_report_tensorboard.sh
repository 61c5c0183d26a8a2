# Event files, read with the package tensorboard: every number of metrics.jsonl under its tag, and after a run
# was resumed from an earlier step each step once. Skipped where the package is not installed.
set -u
. "$TESTS/cli/lib.sh"
python=${HIL_PYTHON:-python3}
"$python" -c 'import tensorboard' 2>/dev/null || exit 77
cat "$SOURCE"/src/cli/*.c >"$work/data.txt"
mkdir "$work/drive"
options=(--model "$TESTS/golden/models/llama" --data "$work/data.txt" --tokenizer bytes --seq 16 --batch 2 --threads 1
    --device-memory 400K --host-memory 200K --disk "$work/drive:64M" --eval-fraction 0.1 --eval-every 2
    --sample-every 3 --sample-prompt a)

# check METRICS STEPS: the events of $work/events are those of METRICS, which has STEPS steps.
check()
{
    "$python" - "$work/events" "$@" <<'END' 2>"$work/err" || die "the events are not as $1: $(tail -n 3 "$work/err")"
import json, struct, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

def tag(key):
    for start, group in (("eval_losses.", "eval"), ("eval_", "eval"), ("wait_seconds.", "waiting")):
        if key.startswith(start):
            return f"{group}/{key[len(start):]}"
    for end, group in (("_peak", "memory"), ("_bytes", "moved")):
        if key.endswith(end):
            return f"{group}/{key}"
    return f"train/{key}"

expected = {}
for line in open(sys.argv[2]):
    entry = json.loads(line)
    step = entry.pop("step")
    for key, value in entry.items():
        for name, one in ((f"{key}.{k}", v) for k, v in value.items()) if isinstance(value, dict) else [(key, value)]:
            if isinstance(one, (int, float)):
                expected.setdefault(tag(name), []).append((step, struct.unpack("f", struct.pack("f", one))[0]))
events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
events.Reload()
assert set(events.Tags()["scalars"]) == set(expected), set(events.Tags()["scalars"]) ^ set(expected)
assert {"train/loss", "eval/loss", "memory/disk_peak", "moved/to_device_bytes", "waiting/weights"} <= set(expected)
for name, points in expected.items():
    assert [(e.step, e.value) for e in events.Scalars(name)] == points, name
assert [s for s, _ in expected["train/loss"]] == list(range(1, int(sys.argv[3]) + 1))
END
}

run 0 train "${options[@]}" --out "$work/a" --steps 4 --tensorboard "$work/events"
check "$work/a/metrics.jsonl" 4
cp -r "$work/a" "$work/b"
sleep 1 # files are read in the order of their seconds
run 0 train "${options[@]}" --out "$work/a" --steps 6 --tensorboard "$work/events" --resume
check "$work/a/metrics.jsonl" 6
sleep 1
run 0 train "${options[@]}" --out "$work/b" --steps 9 --tensorboard "$work/events" --resume # steps 5 and 6 again
check "$work/b/metrics.jsonl" 9
