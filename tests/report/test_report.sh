# The page of a run: its numbers are those of metrics.jsonl, also after resuming; nothing in names ends its
# script; comparing, CSV, --no-report, and a page that cannot be written.
set -u
. "$TESTS/cli/lib.sh"
command -v python3 >/dev/null || exit 77
cat "$SOURCE"/src/cli/*.c >"$work/data.txt"
common=(--model "$TESTS/golden/models/llama" --data "$work/data.txt" --tokenizer bytes --seq 16 --batch 2 --threads 1)
mkdir "$work/drive"
budgets=(--device-memory 400K --host-memory 200K --disk "$work/drive:64M")
out="$work/<b>a</script>&\"'"
page() { python3 "$TESTS/report/report_page.py" "$@" >"$work/page" || die "the page $1 is not as its metrics"; }

run 0 train "${common[@]}" "${budgets[@]}" --out "$out" --steps 6 --eval-fraction 0.1 --eval-every 3
page "$out/report.html" "$out/metrics.jsonl"
grep -q ' finished 6$' "$work/page" || die "$(cat "$work/page")"
[ "$(grep -c '</script>' "$out/report.html")" = 2 ] || die "a name ended the script"
run 0 train "${common[@]}" "${budgets[@]}" --out "$out" --steps 9 --eval-fraction 0.1 --eval-every 3 --resume
page "$out/report.html" "$out/metrics.jsonl"
grep -q ' finished 9$' "$work/page" || die "resumed: $(cat "$work/page")"
for key in command options environment budget plan notes; do
    grep -q "^ \"$key\":" "$out/run.json" || die "run.json has no $key: $(cat "$out/run.json")"
done

# The same bytes from the folder's files.
cp "$out/report.html" "$work/first.html"
run 0 report "$out"
cmp -s "$out/report.html" "$work/first.html" || die "report made another page than train"

run 0 train "${common[@]}" --out "$work/b" --steps 4 --no-report --tensorboard "$work/tb"
[ ! -e "$work/b/report.html" ] || die "a page in spite of --no-report"
ls "$work"/tb/events.out.tfevents.* >/dev/null 2>&1 || die "no event file"
run 0 report "$out" "$work/b" --out "$work/both.html"
[ "$(cat "$work/out")" = "$work/both.html" ] || die "report printed: $(cat "$work/out")"
page "$work/both.html" "$out/metrics.jsonl" "$work/b/metrics.jsonl"

run 0 report "$out" --csv
[ "$(wc -l <"$work/out")" = 10 ] || die "rows: $(wc -l <"$work/out")"
head -1 "$work/out" | grep -q '^step,loss,grad_norm,lr,.*wait_seconds.weights.*,eval_loss' || die "$(head -1 "$work/out")"
awk -F, 'NR > 1 && NF != n { exit 1 } { n = NF }' "$work/out" || die "rows of several lengths"
fails 2 "one folder" report "$out" "$work/b" --csv
fails 1 "is not the output folder of a run" report "$work"
fails 2 "needs a run's output folder" report

# --overwrite removes the old page; one that cannot be written ends no run.
run 0 train "${common[@]}" --out "$work/b" --steps 2 --overwrite
[ -e "$work/b/report.html" ] || die "no page"
mkdir -p "$work/c/report.html/in/the/way"
run 0 train "${common[@]}" --out "$work/c" --steps 2
grep -q 'the report is not whole: ' "$work/err" || die "said nothing: $(cat "$work/err")"
[ -e "$work/c/model.safetensors" ] || die "no model"

# A run that fails says why, on the page and in run.json.
head -c 10000 "$work/data.txt" >"$work/little.txt"
(
    trap '' XFSZ # the write fails instead
    ulimit -f 100
    exec "$HILBERT" train "${common[@]/data.txt/little.txt}" --out "$work/d" --steps 9 --save-every 2
) >"$work/out" 2>"$work/err" </dev/null && die "it was saved"
python3 - "$work/d/run.json" "$work/d/report.html" "$(sed -n 's/^hilbert: //p' "$work/err")" <<'END' || die "why it failed is not there"
import json, re, sys
about = json.load(open(sys.argv[1]))
page = json.loads(re.search(r'id="data">(.*?)</script>', open(sys.argv[2]).read(), re.S).group(1))
assert about["state"] == "failed" and about["failure"] == sys.argv[3] and "File too large" in sys.argv[3], about
assert page["runs"][0]["about"] == about and about["environment"]["system"].startswith("Linux "), about
END
[ "$(python3 -c 'import json, sys; print("failure" in json.load(open(sys.argv[1])))' "$work/b/run.json")" = False ] || die "a failure of a run that finished"

# A line of metrics.jsonl that is being written is left out; a damaged one is named.
printf '{"step": 5, "lo' >>"$work/b/metrics.jsonl"
run 0 report "$work/b"
printf '\n{"step": 6}\n' >>"$work/b/metrics.jsonl"
fails 1 "line 3" report "$work/b"

# top, piped: a line of the last step of a run that is over.
run 0 top "$out"
grep -q '^step 9/9  loss [0-9.]*  [0-9,]* tokens/s  0.0 s left  finished$' "$work/out" || die "top: $(cat "$work/out")"
run 0 top "$out" --once
fails 1 "is this the --out of a run?" top "$work/nothing"
sed 's/"state": "finished"/"state": "running"/' "$out/run.json" >"$work/run.json"
cp -r "$out" "$work/killed" && cp "$work/run.json" "$work/killed/run.json"
run 0 top "$work/killed" --once
grep -q 'running$' "$work/out" || die "top of a run that goes on: $(cat "$work/out")"
touch -d '5 minutes ago' "$work/killed/metrics.jsonl"
run 0 top "$work/killed" --once
grep -q 'running, but no step for 5:0.: was it killed?$' "$work/out" || die "top of a killed run: $(cat "$work/out")"
