# hilbert plan --trace: the planned step as a timeline, whose sums are the plan's numbers, with the operations that
# a run has.
set -u
. "$TESTS/cli/lib.sh"
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
plan_begin

# check CALLS LINKS: seconds of computing, of waiting and of each link, and the end of the planned step are those of the plan
# in $work/out; CALLS is the file for the operations and how often they are called,
# LINKS the least number of busy links.
check()
{
    python3 - "$work/out" "$work/trace" "$1" "$2" <<'END' || die "the timeline is not the plan's"
import collections, json, sys
plan, trace = (json.load(open(path)) for path in sys.argv[1:3])
tracks = {s["tid"]: s["args"]["name"] for s in trace if s["name"] == "thread_name"}
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
moved = 0
for tid, name in tracks.items(): # "update: read states" is the link "read"
    key = name.split(": ")[1].split()[0] if name.startswith("update: ") else name.split(":")[0]
    busy = plan["busy_seconds"].get("update" if key == "arithmetic" else key, 0) * micros
    if ":" not in name: continue
    near(name, sum(s["dur"] for s in track(name)), busy, 1e-2 * len(spans) + 1e-2 * step)
    moved += busy > 0
if moved < int(sys.argv[4]): sys.exit(f"only {moved} links were busy")
json.dump(calls, open(sys.argv[3], "w"), sort_keys=True)
END
}

two_cores
small="--model $model --seq 32 --batch 8 --micro-batch 2 --trace $work/trace"
run 0 plan $small --cluster "$work/two_cores.json" --json
check "$work/all" 1
run 0 plan $small --cluster "$work/two_cores.json" --device-memory 190K --host-memory 200K --json
check "$work/tight" 3
run 0 plan $small --gpu H200 --device-memory 200K --host-memory 300K --disk "$work/drive:16M" --json
check "$work/gpu" 6
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
check "$work/again" 1
cmp "$work/all" "$work/again" || die "another plan's timeline"
sed 's/"name": "two cores", "cpu".*/"name": "V", "gpu": "H100", "layout": {}, "ram_gib": 64, "ram_gb_s": 60,/; /memory_gb_s/d' \
    "$work/two_cores.json" >"$work/layout.json"
fails 2 'a plan with "layout" has no timeline' plan $small --cluster "$work/layout.json"
fails 1 "cannot write $work/none/trace" plan --model "$model" --seq 32 --cluster "$work/two_cores.json" --trace "$work/none/trace"

# The file is emptied first: no older timeline is taken for that of a plan that was refused. Many micro-batches are
# rehearsed in part, and one span stands for the others.
echo old >"$work/trace"
run 1 plan $small --cluster "$work/two_cores.json" --device-memory 20K --host-memory 300K
[ "$(tail -n 1 "$work/trace")" = "]" ] || die "an older timeline: $(tail -n 1 "$work/trace")"
grep -q '"X"' "$work/trace" && die "a timeline of a refused plan"
run 0 plan --model "$model" --seq 32 --batch 4096 --micro-batch 1 --trace "$work/trace" --cluster "$work/two_cores.json" --json
python3 - "$work/out" "$work/trace" <<'END' || die "the timeline is not as long as the step"
import json, sys
plan, trace = (json.load(open(path)) for path in sys.argv[1:3])
spans = [s for s in trace if s["ph"] == "X"]
ends = max(s["ts"] + s["dur"] for s in spans) / 1e6
if abs(ends - plan["step_seconds"]) > 0.02 * plan["step_seconds"]: sys.exit(f"{ends} s, the step {plan['step_seconds']} s")
if sum("more like these, left out" in s["name"] for s in spans) != 1: sys.exit("what was left out")
END
