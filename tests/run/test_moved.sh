# A run whose folder is moved, removed or replaced ends with one line and writes nothing into a new
# folder of that name; the moved folder can be resumed. Folders that a refused run or export created
# are removed.
set -u
. "$TESTS/cli/lib.sh"
model=$TESTS/golden/models/llama3
out=$work/run
options=(--model "$model" --data "$model/tokens.npy" --seq 32 --batch 2 --lr 1e-3 --threads 1
    --schedule constant)

begin() # begin ARGUMENTS...: a run in the background that has done its first step
{
    rm -rf "$out" "$work/elsewhere"
    "$HILBERT" train "${options[@]}" --out "$out" --steps 1000000 "$@" 2>"$work/background" &
    pid=$!
    until grep -q '"step": 1,' "$out/metrics.jsonl" 2>/dev/null; do
        kill -0 "$pid" || die "the run ended: $(cat "$work/background")"
        sleep 0.02
    done
}

ends() # the run ends, with one line that says why
{
    code=0
    for _ in $(seq 300); do
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL "$pid" 2>/dev/null && die "$1: the run goes on"
    wait "$pid" || code=$?
    [ "$code" = 1 ] || die "$1: exit code $code: $(cat "$work/background")"
    [ "$(grep -c '^hilbert: ' "$work/background")" = 1 ] || die "$1: $(cat "$work/background")"
    grep -q "^hilbert: $out was moved, replaced or removed while it was being written to" \
        "$work/background" || die "$1: $(cat "$work/background")"
}

begin
mv "$out" "$work/elsewhere"
ends moved
[ ! -e "$out" ] || die "moved: made again: $(find "$out")"
step=$(tail -n 1 "$work/elsewhere/metrics.jsonl" | sed 's/^{"step": \([0-9]*\),.*/\1/')
[ "$(wc -l <"$work/elsewhere/metrics.jsonl")" = "$step" ] || die "moved: lines are missing"

begin --save-every 3
mv "$out" "$work/elsewhere"
ends "moved, saving"
[ ! -e "$out" ] || die "moved: made again: $(find "$out")"
if [ -e "$work/elsewhere/checkpoints/latest" ]; then
    run 0 verify "$work/elsewhere"
    step=$(head -n 1 "$work/elsewhere/checkpoints/latest")
    run 0 train "${options[@]}" --out "$work/elsewhere" --steps $((${step#step-} + 2)) --resume
    [ -z "$(find "$work/elsewhere" -name '*.tmp-*' -o -name .lock)" ] || die "resumed: something is left"
fi

begin
rm -rf "$out"
ends removed
[ ! -e "$out" ] || die "removed: made again: $(find "$out")"

# Another run takes the name: neither disturbs the other.
begin
kill -STOP "$pid"
first=$pid
mv "$out" "$work/elsewhere"
run 0 train "${options[@]}" --out "$out" --steps 4
cp -r "$out" "$work/whole"
kill -CONT "$first"
ends replaced
diff -r "$out" "$work/whole" || die "the second run's folder was written to"

# A refused run removes the folders that it created, parents too, but none that existed before.
mkdir "$work/there"
fails 1 "outside the vocabulary" train --model "$model" --data "$model/tokens.npy" --seq 64 \
    --out "$work/there/a/b/c/run" --steps 1 --eval-data "$TESTS/golden/formats/u2.npy"
[ -z "$(ls -A "$work/there")" ] || die "left: $(find "$work/there")"
fails 2 "micro-batch" train "${options[@]}" --micro-batch 7 --out "$work/there/a/b" --steps 1
[ -z "$(ls -A "$work/there")" ] || die "left: $(find "$work/there")"
(cd "$work/there" && fails 1 "outside the vocabulary" train --model "$model" --data \
    "$model/tokens.npy" --seq 64 --out x/y --steps 1 --eval-data "$TESTS/golden/formats/u2.npy") || exit 1
[ -z "$(ls -A "$work/there")" ] || die "left: $(find "$work/there")"
fails 1 "holds no checkpoint" export "$model" "$work/there/a/b/model"
[ -z "$(ls -A "$work/there")" ] || die "left: $(find "$work/there")"
