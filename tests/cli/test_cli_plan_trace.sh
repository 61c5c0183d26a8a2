# hilbert plan --trace: the planned step as a timeline, whose sums are the plan's numbers, with the operations that
# a run has.
set -u
. "$TESTS/cli/lib.sh"
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
plan_begin

# check CALLS: seconds of computing and waiting, bytes to and from the drive and the end of the planned step are those
# of the plan in $work/out; CALLS is the file for the operations and how often they are called.
check()
{
    python3 - "$work/out" "$work/trace" "$1" <<'END' || die "the timeline is not the plan's"
import collections, json, sys
plan, trace = (json.load(open(path)) for path in sys.argv[1:3])
tracks = {s["tid"]: s["args"]["name"].split(":")[0] for s in trace if s["name"] == "thread_name"}
spans = [s for s in trace if s["ph"] == "X"]
def track(name): return [s for s in spans if tracks[s["tid"]] == name]
compute, operations = track("compute"), track("operations")
end, whole = max(s["ts"] + s["dur"] for s in compute), sum(s["dur"] for s in compute)
calls = collections.Counter(s["name"] for s in operations)
if not 0.5 * whole < sum(s["dur"] for s in operations) <= whole + 1e-2 * len(spans): sys.exit("operations")
waits = sum(s["dur"] for s in track("waiting"))
def near(what, got, wanted, slack):
    if abs(got - wanted) > slack: sys.exit(f"{what}: {got} in the timeline, {wanted} in the plan")
micros = 1e6
near("waiting", waits, sum(plan["wait_seconds"].values()) * micros, 1e-3 * len(spans) + 1)
step = plan["step_seconds"] * micros
if not min(s["ts"] for s in compute) >= 0 or not end <= step + 1: sys.exit(f"computing ends at {end}, the step at {step}")
inner = sum(s["dur"] for s in track("waiting") if any(c["ts"] <= s["ts"] and s["ts"] + s["dur"] <= c["ts"] + c["dur"] + 1e-3 for c in compute))
near("computing", whole - inner, plan["compute_seconds"] * micros, 1e-2 * len(spans) + 1e-2 * step)
for name, keys in (("fetch", ["fetch"]), ("stash", ["stash"])):
    got = sum(s["dur"] for s in track(name))
    near(name, got, sum(plan["busy_seconds"][k] for k in keys) * micros, 1e-2 * len(spans) + 1e-2 * step)
json.dump(calls, open(sys.argv[3], "w"), sort_keys=True)
END
}

cat >"$work/two_cores.json" <<'END'
{"name": "two cores", "cpu": {"fp32_tflops": 0.25, "bf16_tflops": 0.5, "attention_tflops": 0.1,
  "memory_gb_s": 40, "call_us": 2}, "ram_gib": 8, "ram_gb_s": 60,
 "drives": {"count": 1, "gb": 1, "read_gb_s": 2, "write_gb_s": 1}}
END
small="--model $model --seq 32 --batch 8 --micro-batch 2 --trace $work/trace"
run 0 plan $small --cluster "$work/two_cores.json" --json
check "$work/all"
run 0 plan $small --cluster "$work/two_cores.json" --device-memory 190K --host-memory 200K --json
check "$work/tight"
run 0 plan $small --gpu H200 --device-memory 2M --host-memory 8M --disk "$work/drive:16M" --json
check "$work/gpu"
cmp "$work/all" "$work/tight" >/dev/null && die "nothing is recomputed in little memory"

# A run has the operations that its plan has, as often in each step.
python3 - "$work/tokens.npy" <<'END'
import struct, sys
header = "{'descr': '<u2', 'fortran_order': False, 'shape': (4096,), }".ljust(117) + "\n"
open(sys.argv[1], "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() +
                              struct.pack("<4096H", *(i * i % 250 for i in range(4096))))
END
run 0 train $small --data "$work/tokens.npy" --out "$work/run" --steps 3 --device cpu --quiet
python3 - "$work/trace" "$work/all" <<'END' || die "the run's operations are not the plan's"
import collections, json, sys
trace = json.load(open(sys.argv[1]))
tid = next(s["tid"] for s in trace if s["ph"] == "M" and s["args"].get("name") == "operations")
calls = collections.Counter(s["name"] for s in trace if s["ph"] == "X" and s["tid"] == tid)
planned = json.load(open(sys.argv[2]))
if calls != {name: 3 * count for name, count in planned.items()}: sys.exit(f"{calls}, planned {planned}")
END

# Plans that are compared with the first one do not replace its file; a layout of another system has none.
run 0 plan $small --cluster "$work/two_cores.json" --largest --json
check "$work/again"
cmp "$work/all" "$work/again" || die "another plan's timeline"
sed 's/"name": "two cores", "cpu".*/"name": "V", "gpu": "H100", "layout": {}, "ram_gib": 64, "ram_gb_s": 60,/; /memory_gb_s/d' \
    "$work/two_cores.json" >"$work/layout.json"
fails 2 'a plan with "layout" has no timeline' plan $small --cluster "$work/layout.json"
fails 1 "cannot write $work/none/trace" plan --model "$model" --seq 32 --cluster "$work/two_cores.json" --trace "$work/none/trace"
