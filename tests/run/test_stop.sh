# Runs that end early or are refused: signals, a loss of NaN, a folder in use.
set -u
. "$TESTS/cli/lib.sh"
model=$TESTS/golden/models/llama3
out=$work/run
options=(--model "$model" --data "$model/tokens.npy" --seq 32 --batch 2 --lr 1e-3 --threads 1
    --schedule constant --out "$out")

# begin ARGUMENTS...: a run in the background that has done its first step.
begin()
{
    "$HILBERT" train "${options[@]}" "$@" 2>"$work/background" &
    pid=$!
    until grep -q '"step": 1,' "$out/metrics.jsonl" 2>/dev/null; do
        kill -0 "$pid" || die "the run ended: $(cat "$work/background")"
        sleep 0.02
    done
}

# A stopped run resumes with the same bits.
for signal in INT TERM; do
    rm -rf "$out"
    begin --steps 1000000
    kill "-$signal" "$pid"
    code=0
    wait "$pid" || code=$?
    [ "$code" = $((128 + $(kill -l "$signal"))) ] || die "SIG$signal: exit code $code"
    step=$(tail -n 1 "$out/metrics.jsonl" | sed 's/^{"step": \([0-9]*\),.*/\1/')
    [ "$(head -n 1 "$out/checkpoints/latest")" = "step-$step" ] || die "not saved at step $step"
    [ -z "$(find "$out" -name '*tmp*')" ] || die "left: $(find "$out" -name '*tmp*')"
    run 0 train "${options[@]}" --steps $((step + 3)) --resume
    cp "$out/model.safetensors" "$work/stopped"
    run 0 train "${options[@]}" --steps $((step + 3)) --overwrite
    cmp -s "$out/model.safetensors" "$work/stopped" || die "SIG$signal changed the numbers"
done

# One run at a time in a folder; a refused second one does not disturb the first.
rm -rf "$out"
begin --steps 1000000
fails 2 "in use by another run" train "${options[@]}" --steps 1000000 --resume
fails 2 "in use by another run" train "${options[@]}" --steps 3 --overwrite
fails 2 "holds a run" train "${options[@]}" --steps 3
kill -INT "$pid"
wait "$pid"
grep -q 'stopped after step' "$work/background" || die "$(cat "$work/background")"

# Neither a model's own folder nor another model is written to.
cp -r "$model" "$work/model"
ls -l --time-style=full-iso "$work/model" >"$work/before"
for how in "" --resume --overwrite; do
    # shellcheck disable=SC2086
    fails 2 "model's own folder" train --model "$work/model" --data "$model/tokens.npy" --seq 32 \
        --steps 1 --out "$work/model/" $how
done
fails 2 "holds a model" train "${options[@]}" --out "$work/model" --steps 1
fails 2 "holds a model" train "${options[@]}" --out "$work/model" --steps 1 --resume
ls -l --time-style=full-iso "$work/model" | cmp -s - "$work/before" || die "the model was touched"

# --overwrite replaces the run and keeps what is not the run's.
echo mine >"$out/notes.txt"
run 0 train "${options[@]}" --steps 2 --overwrite
[ "$(wc -l <"$out/metrics.jsonl")" = 2 ] || die "old metrics are still there"
[ "$(ls "$out/checkpoints")" = "latest
step-2" ] || die "old checkpoints are still there: $(ls "$out/checkpoints")"
[ "$(cat "$out/notes.txt")" = mine ] || die "a file of the user is gone"

# A disk that refuses a checkpoint: the previous one stays, and the run can be resumed.
limited() # limited ARGUMENTS...: train with files of at most 64 KiB
{
    code=0
    (ulimit -f 64; exec "$HILBERT" train "${options[@]}" "$@" 2>"$work/err") || code=$?
    [ "$code" = 1 ] || die "a refused write gave exit code $code: $(cat "$work/err")"
    grep -q '^hilbert: cannot write .*: File too large$' "$work/err" || die "$(cat "$work/err")"
    [ -z "$(find "$out" -name '*tmp*')" ] || die "left: $(find "$out" -name '*tmp*')"
}
limited --steps 4 --resume --save-every 1
[ "$(head -n 1 "$out/checkpoints/latest")" = step-2 ] || die "latest: $(head -n 1 "$out/checkpoints/latest")"
run 0 train "${options[@]}" --steps 4 --resume
cp "$out/model.safetensors" "$work/refused"
limited --steps 4 --resume # only the export is left
cmp -s "$out/model.safetensors" "$work/refused" || die "a refused export spoilt the model"
run 0 train "${options[@]}" --steps 4 --overwrite
cmp -s "$out/model.safetensors" "$work/refused" || die "a refused write changed the numbers"

# A loss that is no number: the step is named and the last good checkpoint stays.
rm -rf "$out"
run 1 train "${options[@]}" --lr 1e30 --steps 5 --save-every 1
grep -q '^hilbert: step 2: .*not a finite number.*step-1$' "$work/err" || die "$(cat "$work/err")"
[ "$(wc -l <"$out/metrics.jsonl")" = 1 ] || die "metrics: $(cat "$out/metrics.jsonl")"
[ "$(head -n 1 "$out/checkpoints/latest")" = step-1 ] || die "latest: $(head -n 1 "$out/checkpoints/latest")"
[ ! -e "$out/model.safetensors" ] || die "a broken model was exported"
rm -rf "$out"
run 1 train "${options[@]}" --lr 1e30 --steps 5
grep -q '^hilbert: step 2: .*no checkpoint' "$work/err" || die "$(cat "$work/err")"
