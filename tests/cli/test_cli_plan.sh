# hilbert plan: the JSON object, the tables, an edited plan, and the message if nothing fits.
set -u
. "$TESTS/cli/lib.sh"

plan_begin
small="--model $model --seq 32 --batch 8 --micro-batch 2"

command -v python3 >/dev/null || { echo "no python3"; exit 77; }

# Everything fits: nothing moves.
run 0 plan $small --json
grep -q measuring "$work/err" || die "speeds were not measured: $(cat "$work/err")"
[ "$(number fits)" = True ] || die "a small model does not fit"
[ "$(number bytes_per_step disk_read)" = 0 ] || die "reads from a disk that is not there"
less 0.000001 "$(number step_seconds)" "a step takes no time"
for key in device host disk; do number peak $key >/dev/null; done
for key in disk_written to_device to_host; do number bytes_per_step $key >/dev/null; done
[ "$(number units 0 weight)" = device ] || die "a weight is not on the device"
[ -n "$(number limit)" ] || die "nothing is the limit"
device=$(number peak device)
run 0 plan $small
grep -q measuring "$work/err" && die "speeds were measured twice"
grep -q '^weights ' "$work/out" || die "no table: $(cat "$work/out")"
grep -q 'for 50%' "$work/out" || die "no analysis"
grep -q '^faster: ' "$work/out" || die "no advice"

# Descriptions that come with hilbert are found by name.
run 0 plan --model $model --seq 32 --batch 8 --cluster dgx-h200 --json
[ "$(number ranks)" = 8 ] || die "a DGX H200 has $(number ranks) ranks"
run 2 plan --model $model --cluster no-such-one
grep -q 'no-such-one: there is no such file, and no description of that name in .*clusters' "$work/err" ||
    die "the folder of descriptions is not named: $(cat "$work/err")"

# rows: the rows of each tier add up to its peak, up to the printed digits.
rows()
{
    python3 - "$work/out" <<'END' || die "rows do not add up: $(cat "$work/out")"
import re, sys
unit = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
sums, slack, peak = [0] * 3, [0] * 3, None
for line in open(sys.argv[1]):
    cells = re.findall(r" (-|[0-9.]+ [KMGT]?i?B)(?= |$)", line.rstrip()[32:])
    if len(cells) != 3:
        continue
    if line.startswith("budget"):
        break
    values = [0 if c == "-" else float(c.split()[0]) * unit[c.split()[1]] for c in cells]
    step = [0 if c == "-" else 0.051 * unit[c.split()[1]] for c in cells]
    slack = [a + b for a, b in zip(slack, step)]
    if line.startswith("peak"):
        peak = values
    else:
        sums = [a + b for a, b in zip(sums, values)]
sys.exit(not peak or any(abs(a - b) > c for a, b, c in zip(sums, peak, slack)))
END
}
one="--model $model --seq 32 --batch 8 --micro-batch 1"
for memory in "1G 1G" "700K 200K" "180K 1M" "180K 200K" "1M 120K"; do
    run 0 plan $one --device-memory ${memory% *} --host-memory ${memory#* } --disk "$work/drive:16M"
    rows
    run 0 plan $one --device-memory ${memory% *} --host-memory ${memory#* } --disk "$work/drive:16M" \
        --dtype fp16 --optimizer lion --device threads
    rows
done
# Where the sums are kept follows from speeds: those of a described machine are the same in every test.
two_cores
run 0 plan $one --device-memory 180K --host-memory 200K --disk "$work/drive:16M" --cluster "$work/two_cores.json"
grep -q '^fp32 gradient sums (offloaded) .* KiB$' "$work/out" || die "no sums: $(cat "$work/out")"
# A percentage is one of the described machine's RAM: half of 8 GiB, of which 90% are used.
run 0 plan $one --device-memory 50% --cluster "$work/two_cores.json"
grep -q '^budget  *3.6 GiB  *3.6 GiB' "$work/out" || die "half of the RAM: $(grep '^budget' "$work/out")"
run 0 plan $one --device-memory 180K --host-memory 200K --disk "$work/drive:16M" --cluster "$work/two_cores.json"
# Durations as people read them, and one verdict.
grep -qE '[0-9]e[+-]?[0-9]' "$work/out" && die "scientific notation: $(cat "$work/out")"
[ "$(grep -c 'limit' "$work/out")" = 1 ] || die "not one verdict: $(cat "$work/out")"

# Budgets hold.
run 0 plan $small --json --device-memory 700K --host-memory 1M --disk "$work/drive"
less "$(number peak device)" $((700 * 1024)) "device"
less "$(number peak host)" $((1024 * 1024)) "host"
less "$(number peak device)" "$device" "less memory needs more"
cp "$work/out" "$work/plan.json"

# The same plan, edited.
sed '0,/"moment1": "[a-z]*"/s//"moment1": "disk"/' "$work/plan.json" >"$work/edited.json"
run 0 plan $small --json --device-memory 700K --host-memory 1M --disk "$work/drive" \
    --plan "$work/edited.json"
[ "$(number units 0 moment1)" = disk ] || die "the edited plan was not followed"
sed 's/"name": "/"name": "x/' "$work/plan.json" >"$work/edited.json"
fails 1 'the model has no unit "x' plan $small --plan "$work/edited.json" \
    --disk "$work/drive"

# If nothing fits, the message and the JSON object say by how much.
fails 1 "no such model folder" plan $small --loss dpo --reference "$work/none"
fails 1 "of device memory" plan $small --device-memory 20K
fails 1 "--disk PATH" plan $small --device-memory 300K --host-memory 64K
run 1 plan $small --json --device-memory 20K
[ "$(number fits)" = False ] || die "20K are enough"
[ -n "$(number missing)" ] || die "nothing is missing"
[ -z "$(ls -A "$work/drive")" ] || die "a file was left behind"
