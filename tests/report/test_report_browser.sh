# The page in a headless browser: no error in its console, the values of the run on the page, and a run of
# 100,000 steps in two seconds. Skipped where there is no Chromium.
set -u
. "$TESTS/cli/lib.sh"
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || exit 77
command -v python3 >/dev/null || exit 77

# show PAGE: its elements after the scripts ran go to $work/dom, the console's lines to $work/console.
show()
{
    HOME=$work "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$work/profile" \
        --enable-logging=stderr --dump-dom "file://$1" >"$work/dom" 2>"$work/console" || exit 77
    ! grep -F 'CONSOLE' "$work/console" || die "the console of $1 has lines"
}

cat "$SOURCE"/src/cli/*.c >"$work/data.txt"
run 0 train --model "$TESTS/golden/models/llama" --data "$work/data.txt" --tokenizer bytes --seq 16 --batch 2 \
    --threads 1 --device-memory 400K --host-memory 200K --disk "$work:64M" --out "$work/<i>a" --steps 50 \
    --eval-fraction 0.1 --eval-every 10 --sample-every 5 --sample-prompt "<script>document.title='x'</script>"
show "$work/<i>a/report.html"
for words in '<b>50</b><span>step of 50</span>' '>Loss<' '>Gradient norm<' '>Memory: disk<' '>Bytes moved per step<' \
    'Where the time went' 'what lives where' '&lt;i&gt;a' '>Configuration<' '>Samples of text<' \
    "<b>&lt;script&gt;document.title='x'&lt;/script&gt;</b>" '<summary>5 earlier</summary>'; do
    grep -qF -- "$words" "$work/dom" || die "the page lacks $words"
done
loss=$(grep grad_norm "$work/<i>a/metrics.jsonl" | tail -n 1 | python3 -c 'import json, sys
print(float("%.5g" % json.loads(sys.stdin.readline())["loss"]))')
grep -qF "<b>$loss</b><span>loss</span>" "$work/dom" || die "the page does not show loss $loss"

# A run that failed, and one that was killed: it says so.
sed 's/"state":"finished"/"state":"failed","failure":"no room in <b>\/a<\/b>"/' "$work/<i>a/report.html" >"$work/failed.html"
show "$work/failed.html"
grep -qF 'failed: no room in &lt;b&gt;/a&lt;/b&gt;' "$work/dom" || die "the page does not say why the run failed"
sed 's/"state":"finished"/"state":"running"/' "$work/<i>a/report.html" >"$work/now.html"
show "$work/now.html"
grep -qF '<span>left</span>' "$work/dom" && ! grep -qF 'class="bad"' "$work/dom" || die "a run that goes on"
sed 's/"updated":"20[0-9][0-9]-/"updated":"2021-/' "$work/now.html" >"$work/killed.html"
show "$work/killed.html"
grep -q 'class="bad">not written for [0-9][0-9,]* h .*: was the run killed?' "$work/dom" || die "the page of a killed run"
grep -qF '<span>left</span>' "$work/dom" && die "time is left of a killed run"

mkdir "$work/long"
python3 - "$work/long/metrics.jsonl" <<'END'
import json, math, sys
wait = dict.fromkeys(["weights", "update", "activations", "gradients", "memory"], 0.01)
with open(sys.argv[1], "w") as out:
    for step in range(1, 100001):
        json.dump({"step": step, "loss": 2 + 8 / math.sqrt(step) + (step * 7919 % 100) / 500, "grad_norm": 1 + step % 7,
                   "lr": 1e-4, "tokens": step * 512, "seconds": 0.2 + step % 11 / 100, "tokens_per_second": 2000 + step % 97,
                   "device_peak": 1e9, "host_peak": 2e9, "disk_peak": 3e9, "to_device_bytes": 1e8 + step, "wait_seconds": wait}, out)
        out.write("\n")
END
run 0 report "$work/long"
cat >"$work/empty.html" <<'END'
<!doctype html><title>empty</title>
END
seconds() { local began=$EPOCHREALTIME; show "$1"; echo "$EPOCHREALTIME $began" | awk '{ print $1 - $2 }'; }
empty=$(seconds "$work/empty.html")
long=$(seconds "$work/long/report.html")
grep -qF '<b>100,000</b>' "$work/dom" || die "the long run is not shown"
awk -v a="$long" -v b="$empty" 'BEGIN { exit !(a - b < 2) }' || die "100,000 steps took $long s, an empty page $empty s"
