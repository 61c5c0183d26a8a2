# Files that are truncated during a run, and files that may not grow: one line, exit code 1, no lock
# or temporary files are left, and the run can be resumed.
set -u
. "$TESTS/cli/lib.sh"
model=$TESTS/golden/models/llama3
out=$work/a/b/run
options=(--model "$model" --data "$model/tokens.npy" --seq 32 --batch 2 --lr 1e-3 --threads 1
    --schedule constant)

clean() # clean WHAT: nothing of a run that ended is left
{
    left=$(find "$work" -name '*.tmp-*' -o -name .lock)
    [ -z "$left" ] || die "$1 left: $left"
}

# The cache of tokens.
"$HILBERT" train "${options[@]}" --out "$out" --steps 1000000 --save-every 2 2>"$work/background" &
pid=$!
until [ -e "$out/checkpoints/latest" ]; do
    kill -0 $pid || die "the run ended: $(cat "$work/background")"
    sleep 0.02
done
truncate -s 4096 "$out"/cache/tokens-*.bin
for _ in $(seq 300); do
    kill -0 $pid 2>/dev/null || break
    sleep 0.1
done
kill -KILL $pid 2>/dev/null && die "a cache that was cut short is not noticed"
code=0
wait $pid || code=$?
[ $code = 1 ] || die "a cache that was cut short: exit code $code"
[ "$(grep -c '^hilbert: ' "$work/background")" = 1 ] || die "$(cat "$work/background")"
grep -q '^hilbert: token cache .* was damaged' "$work/background" ||
    die "$(cat "$work/background")"
clean "a cache that was cut short"
step=$(head -n 1 "$out/checkpoints/latest")
run 0 train "${options[@]}" --out "$out" --steps $((${step#step-} + 4)) --resume

# small LIMIT ARGUMENTS...: files may have at most LIMIT blocks of 1024 bytes.
small()
{
    local limit=$1
    shift
    code=0
    (ulimit -f "$limit"; exec "$HILBERT" "$@" >"$work/out" 2>"$work/err" </dev/null) || code=$?
    [ $code = 1 ] || die "ulimit -f $limit: $1: exit code $code: $(cat "$work/err")"
    [ "$(grep -c '^hilbert: ' "$work/err")" = 1 ] || die "ulimit -f $limit: $1: $(cat "$work/err")"
    grep -q '^hilbert: .*: File too large$' "$work/err" || die "ulimit -f $limit: $1: $(cat "$work/err")"
    clean "ulimit -f $limit: $1"
}
mkdir "$work/new"
seq 20000 >"$work/numbers.txt"
text=(train --model "$model" --tokenizer bytes --data "$work/numbers.txt" --seq 32 --batch 2 --threads 1)
small 16 "${text[@]}" --out "$work/new/a/run" --steps 2 # the cache
[ -z "$(ls -A "$work/new")" ] || die "left: $(find "$work/new")"
small 16 export "$out" "$work/new/a/model"
[ -z "$(ls -A "$work/new")" ] || die "left: $(find "$work/new")"
small 64 train "${options[@]}" --out "$work/new/run" --steps 2 # the checkpoint
[ "$(ls -A "$work/new/run")" = "cache
checkpoints
metrics.jsonl
report.html
run.json" ] || die "left: $(ls -A "$work/new/run")"
run 0 train "${options[@]}" --out "$work/new/run" --steps 2 --resume
small 64 export "$out" "$work/new/run" --overwrite # the old model stays
run 0 eval --model "$work/new/run" --data "$model/tokens.npy" --seq 32
