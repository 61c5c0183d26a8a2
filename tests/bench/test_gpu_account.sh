# bench/gpu_account.py on a hand-made trace: kinds, gaps, and whole steps only.
set -u
command -v python3 > /dev/null || { echo "no python3"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Six steps of 10 us: a lookup of 1, a product of 4, a gap of 1, attention of 2 on one stream, and on
# another an update of 3 that begins with it. The last step is incomplete.
awk 'BEGIN { for (s = 0; s < 6; ++s) { t = 10000 * s
    print "kernel", t, t + 1000, 1, 0, "_Z9copy_rowsv"
    print "kernel", t + 1000, t + 5000, 1, 0, "nvjet_tst_128x256"
    print "kernel", t + 6000, t + 8000, 1, 0, "cudnn_generated_fort_native_sdpa"
    print "kernel", t + 6000, t + 9000, 2, 0, "_Z12update_plain9hil_block"
    print "copy", t + 9000, t + 9500, 3, 64, 1 } }' > "$work/trace"
cat > "$work/check.py" <<'P'
import sys
sys.path.insert(0, sys.argv[1])
import gpu_account
records = gpu_account.read(sys.argv[2])
assert len(records) == 30
kinds, gaps, names, launches, step = gpu_account.account(*gpu_account.whole_steps(records, 6))
near = lambda a, b: abs(a - b) < 1e-9
assert near(step, 0.01) and launches == 5, (step, launches)
assert near(gaps, 0.0015), gaps
want = {"embedding": 0.001, "products": 0.004, "attention": 0.002, "update": 0.003,
        "copies and zeros": 0.0005}
assert kinds.keys() == want.keys() and all(near(kinds[k], want[k]) for k in want), kinds
P
PYTHONDONTWRITEBYTECODE=1 python3 "$work/check.py" "$SOURCE/bench" "$work/trace" || exit 1
