# Every checkpoint and the result contain the model files as read at the start of the run, whatever
# happens to that folder later; a resumed run keeps the files that the run started with.
set -u
. "$TESTS/cli/lib.sh"
model=$TESTS/golden/models/llama3
cp -r "$model" "$work/model"
printf '{"a": 1}' >"$work/model/special_tokens_map.json"
printf 'template' >"$work/model/chat_template.jinja"
: >"$work/model/merges.txt"
cp -r "$work/model" "$work/same"
options=(--data "$model/tokens.npy" --seq 32 --batch 2 --lr 1e-3 --threads 1 --schedule constant)

# compare DIR: its files are those of the undisturbed run, not more and not less.
compare()
{
    for file in config.json model.safetensors special_tokens_map.json chat_template.jinja merges.txt; do
        cmp "$work/whole/$file" "$1/$file" || die "$1/$file differs"
    done
    [ ! -e "$1/added_tokens.json" ] || die "$1 has a file that was not there at the start"
}

# The folder is emptied and filled with other things after the first step.
"$HILBERT" train "${options[@]}" --model "$work/model" --out "$work/run" --steps 1000000 \
    --save-every 5 2>"$work/background" &
pid=$!
until grep -q '"step": 1,' "$work/run/metrics.jsonl" 2>/dev/null; do
    kill -0 $pid || die "$(cat "$work/background")"
    sleep 0.02
done
kill -STOP $pid
rm "$work/model"/*
printf 'not json' >"$work/model/config.json"
printf 'other' >"$work/model/chat_template.jinja"
printf 'new' >"$work/model/added_tokens.json"
kill -CONT $pid
at=$(wc -l <"$work/run/metrics.jsonl")
until [ "$(wc -l <"$work/run/metrics.jsonl")" -gt $((at + 12)) ]; do
    kill -0 $pid || die "the run ended: $(cat "$work/background")"
    sleep 0.02
done
kill -INT $pid
wait $pid
[ $? = 130 ] || die "the run ended: $(cat "$work/background")"
step=$(head -n 1 "$work/run/checkpoints/latest")
run 0 train "${options[@]}" --model "$work/same" --out "$work/whole" --steps "${step#step-}"
run 0 export "$work/run" "$work/exported"
compare "$work/exported"
cmp "$work/same/config.json" "$work/run/checkpoints/$step/config.json" || die "config.json of $step"

# A run that ends while its model folder is gone.
cp -r "$work/same" "$work/short"
"$HILBERT" train "${options[@]}" --model "$work/short" --out "$work/gone" --steps 400 \
    2>"$work/background" &
pid=$!
until grep -q '"step": 1,' "$work/gone/metrics.jsonl" 2>/dev/null; do
    kill -0 $pid || die "$(cat "$work/background")"
    sleep 0.02
done
rm -r "$work/short"
wait $pid || die "a run without its model folder: $(cat "$work/background")"
cmp "$work/same/chat_template.jinja" "$work/gone/chat_template.jinja" || die "chat_template.jinja"

# Resumed: the run's own files, and a line for each that is another now.
cp -r "$work/same" "$work/changed"
printf 'other' >"$work/changed/chat_template.jinja"
rm "$work/changed/merges.txt"
run 0 train "${options[@]}" --model "$work/changed" --out "$work/run" --steps $((${step#step-} + 2)) --resume
grep -q 'chat_template.jinja is not as it was: the run keeps' "$work/err" || die "$(cat "$work/err")"
grep -q 'merges.txt is not as it was' "$work/err" || die "$(cat "$work/err")"
run 0 train "${options[@]}" --model "$work/same" --out "$work/whole" --steps $((${step#step-} + 2)) --resume
! grep -q 'not as it was' "$work/err" || die "$(cat "$work/err")"
compare "$work/run"
