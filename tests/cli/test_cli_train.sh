# Whole runs of a tiny model: what is printed where, exit codes, --config, signals.
set -u
. "$TESTS/cli/lib.sh"
out=$work/model
cat "$SOURCE"/src/cli/*.c >"$work/data.txt"
model=$TESTS/golden/models/gpt2
common=(--model "$model" --data "$work/data.txt" --tokenizer bytes --seq 16 --batch 2 --threads 1)

# Plain lines on stderr, nothing on stdout, a summary that says what to do next.
run 0 train "${common[@]}" --out "$out" --steps 4
[ ! -s "$work/out" ] || die "train wrote to stdout"
grep -q '^step 1/4  loss [0-9.]*  [0-9,]* tokens/s  ' "$work/err" || die "$(cat "$work/err")"
grep -q '^4 steps, loss [0-9.]* -> [0-9.]*$' "$work/err" || die "no summary: $(cat "$work/err")"
grep -q "^  $HILBERT generate --model $out --tokenizer bytes --prompt" "$work/err" || die "no hint"
grep -q $'[\r\033]' "$work/err" && die "control characters in a log"
[ "$(wc -l <"$out/metrics.jsonl")" = 4 ] || die "metrics: $(cat "$out/metrics.jsonl")"
fails 2 "holds a run" train "${common[@]}" --out "$out" --steps 4
run 0 train "${common[@]}" --out "$out" --steps 4 --resume
grep -q '^all 4 steps were done before$' "$work/err" || die "$(cat "$work/err")"
# The summary shows this process's steps, and those of the whole run.
run 0 train "${common[@]}" --out "$out" --steps 7 --resume
first=$(sed -n 's/^{"step": 5, "loss": \([0-9.]*\),.*/\1/p' "$out/metrics.jsonl")
grep -q "^3 steps (7 in all), loss $(printf %.4f "$first") -> [0-9.]*$" "$work/err" ||
    die "$(cat "$work/err")"
grep -q '^96 tokens in ' "$work/err" || die "tokens: $(cat "$work/err")"
run 0 train "${common[@]}" --out "$out" --steps 8 --resume
grep -q '^1 step (8 in all), loss ' "$work/err" || die "$(cat "$work/err")"
run 0 train "${common[@]}" --out "$out" --steps 2 --overwrite --quiet
[ ! -s "$work/err" ] || die "--quiet said: $(cat "$work/err")"

# --keep 0 saves nothing, so the run cannot be resumed.
run 0 train "${common[@]}" --out "$work/trial" --steps 3 --save-every 1 --keep 0
grep -q '^nothing is saved: --keep 0$' "$work/err" || die "$(cat "$work/err")"
[ "$(wc -l <"$work/trial/metrics.jsonl")" = 3 ] || die "metrics: $(cat "$work/trial/metrics.jsonl")"
[ ! -e "$work/trial/checkpoints" ] && [ ! -e "$work/trial/model.safetensors" ] ||
    die "saved in spite of --keep 0: $(ls "$work/trial")"
fails 2 "--resume and --keep 0" train "${common[@]}" --out "$work/trial" --resume --keep 0

# Options from a file; flags win. The rate of step 1 is in the metrics.
cat >"$work/c.json" <<END
{"model": "$model", "data": ["$work/data.txt"], "out": "$out", "steps": 9, "seq": 16, "batch": 2,
 "lr": 0.5, "tokenizer": "bytes", "schedule": "constant", "threads": 1, "overwrite": true}
END
run 0 train --config "$work/c.json" --lr 0.001953125 --steps=3
grep -q '^{"step": 3,.*"lr": 0.001953125,' "$out/metrics.jsonl" || die "$(cat "$out/metrics.jsonl")"
[ "$(wc -l <"$out/metrics.jsonl")" = 3 ] || die "--steps did not win over the file"

# With closed standard descriptors, files of the run do not get their numbers.
rm -rf "$out"
"$HILBERT" train "${common[@]}" --out "$out" --steps 3 <&- >&- 2>&- || die "closed descriptors"
[ "$(grep -c '^{"step": .*}$' "$out/metrics.jsonl")" = "$(wc -l <"$out/metrics.jsonl")" ] ||
    die "messages in the metrics: $(cat "$out/metrics.jsonl")"

# eval and generate: data on stdout only.
run 0 eval --model "$out" --tokenizer bytes --data "$work/data.txt" --seq 16 --threads 1 --json
for key in loss perplexity tokens learned_share examples seconds_to_first_batch; do
    grep -q "^{.*\"$key\": [0-9.e+-]*[,}]" "$work/out" || die "eval --json: $(cat "$work/out")"
done
run 0 eval --model "$out" --tokenizer bytes --data "$work/data.txt" --seq 16 --threads 1
grep -q '^loss [0-9.]*, perplexity [0-9.]*, [0-9]* tokens (93.[0-9]% of the data), ' "$work/out" || die "$(cat "$work/out")"
run 0 generate --model "$out" --tokenizer bytes --prompt "static int" --max-tokens 5 --temperature 0 --threads 1
[ "$(tail -c 1 "$work/out" | od -An -tx1)" = " 0a" ] || die "generate ends without a newline"
[ ! -s "$work/err" ] || die "generate said: $(cat "$work/err")"
run 0 generate --model "$out" --tokenizer bytes --prompt "x" --max-tokens 0
[ "$(wc -c <"$work/out")" = 1 ] || die "no tokens, but $(wc -c <"$work/out") bytes"

# Examples: the shares of learned tokens and padding, and what did not fit, at the start and the end.
cat >"$work/examples.jsonl" <<END
{"prompt": "2+2=", "completion": "4"}
{"prompt": "a prompt that is longer than sixteen bytes", "completion": "lost"}
{"prompt": "say ", "completion": "something longer"}
END
pairs=(--model "$model" --tokenizer bytes --seq 16 --threads 1)
run 0 train "${pairs[@]}" --data "$work/examples.jsonl" --out "$work/pairs" --batch 1 --no-shuffle --steps 2
for line in '^data: 3 examples in 2 windows, 43.8% learned, 31% padding$' \
    '^data: 1 of 3 examples are longer than a window of 16 tokens: their ends are cut off, 5 tokens lost' \
    '^data: 1 of 3 examples are left out, with nothing to learn: ' \
    '^32 tokens (43.8% learned) in ' '^1 of 3 examples were longer than a window: ' \
    '^1 of 3 examples were left out, with nothing to learn$'; do
    grep -q "$line" "$work/err" || die "no line $line: $(cat "$work/err")"
done
[ "$(sed 's/.*"learned": \([0-9]*\),.*/\1/' "$work/pairs/metrics.jsonl" | tr '\n' ' ')" = "12 2 " ] ||
    die "learned: $(cat "$work/pairs/metrics.jsonl")"
run 0 eval "${pairs[@]}" --data "$work/examples.jsonl" --json
grep -q '"tokens": 14, "learned_share": 0.636364, "examples": 3, "examples_cut": 1, "examples_left_out": 1,' \
    "$work/out" || die "eval --json: $(cat "$work/out")"
grep '"completion": "lost"' "$work/examples.jsonl" >"$work/lost.jsonl"
fails 1 "has no token to learn" train "${pairs[@]}" --data "$work/lost.jsonl" --out "$work/lost" --steps 1
[ ! -e "$work/lost" ] || die "a failed start left $work/lost"

# stop SIGNAL CODE: a run that gets the signal ends with the code.
stop()
{
    local got=0 pid
    rm -rf "$out"
    : >"$work/err" # so that lines of the last run are not taken for this one's
    "$HILBERT" train "${common[@]}" --out "$out" --steps 1000000 2>"$work/err" &
    pid=$!
    until grep -q '^step 1/' "$work/err"; do
        kill -0 "$pid" || die "the run ended: $(cat "$work/err")"
        sleep 0.05
    done
    kill "-$1" "$pid"
    wait "$pid" || got=$?
    [ "$got" = "$2" ] || die "SIG$1 gave exit code $got, expected $2: $(cat "$work/err")"
    grep -q '^hilbert: stopped after step .*--resume' "$work/err" || die "$(cat "$work/err")"
    [ -s "$out/checkpoints/latest" ] || die "SIG$1 left no checkpoint"
}
stop INT 130
stop TERM 143
steps=$(tail -n 1 "$out/metrics.jsonl" | sed 's/^{"step": \([0-9]*\),.*/\1/')
[ "$(wc -l <"$out/metrics.jsonl")" = "$steps" ] || die "metrics do not end at the step"

# Answers with labels: rewards have a margin where there are both; without --loss kto labels count for nothing, which is said.
for label in true false; do
    for i in 1 2 3 4; do echo "{\"prompt\": \"$i\", \"completion\": \"$label\", \"label\": $label}"; done >"$work/$label.jsonl"
done
judged=(--model "$model" --tokenizer bytes --seq 16 --threads 1)
run 0 train "${judged[@]}" --data "$work/true.jsonl" --data "$work/false.jsonl" --loss kto --adapter lora --steps 1 --batch 1 --out "$work/kto"
run 0 eval "${judged[@]}" --data "$work/true.jsonl" --loss kto --adapter "$work/kto"
grep -q '^loss [0-9.]*, kl [0-9.]*, 4 answers, first' "$work/out" || die "$(cat "$work/out")"
run 0 eval "${judged[@]}" --data "$work/true.jsonl" --data "$work/false.jsonl" --loss kto --adapter "$work/kto"
grep -q '^loss [0-9.]*, margin -*[0-9.]*, kl [0-9.]*, 8 answers' "$work/out" || die "$(cat "$work/out")"
run 0 train "${judged[@]}" --data "$work/true.jsonl" --steps 1 --batch 1 --out "$work/plain"
grep -q 'true.jsonl: the "label" of a completion is ignored' "$work/err" || die "$(cat "$work/err")"
