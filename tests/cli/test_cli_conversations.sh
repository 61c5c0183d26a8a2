# train and eval on conversations: formats, shares, errors with file and line, evaluation sets, the best.
set -u
. "$TESTS/cli/lib.sh"
model=$work/model
mkdir "$model"
ln -s "$TESTS"/golden/models/llama/{config.json,model.safetensors} "$model"
echo '{% for m in messages %}{{ m.role[0] }}:{{ m.content }};{% endfor %}{% if add_generation_prompt %}a:{% endif %}' \
    > "$model/chat_template.jinja"
common=(--model "$model" --tokenizer bytes --seq 32 --threads 1)
fast=(--batch 1 --steps 2 --dtype fp32)
turns() { printf '{"messages": [{"role": "user", "content": "%s"}, {"role": "assistant", "content": "%s"}]}\n' "$1" "$2"; }
{ turns hi ho; turns "a long question" "an answer longer than it"; turns x y; turns "$(printf '%040d' 1)" z; } > "$work/a.jsonl"

run 0 train "${common[@]}" "${fast[@]}" --data "$work/a.jsonl" --out "$work/out.d"
for line in '^data: 4 examples in 2 windows' \
    '^data: 1 of 4 examples are longer than a window of 32 tokens: their ends are cut off, 13 tokens lost' \
    '^data: 1 of 4 examples are left out, with nothing to learn: '; do
    grep -q "$line" "$work/err" || die "no line $line: $(cat "$work/err")"
done
cmp "$model/chat_template.jinja" "$work/out.d/chat_template.jinja" || die "the template is not in the result"

# The same conversation gives the same loss in every format; --train-on counts other tokens.
loss() { run 0 eval "${common[@]}" --data "$1" --json "${@:2}"; sed 's/.*"loss": \([^,]*\),.*"tokens": \([0-9]*\),.*/\1 \2/' "$work/out"; }
turns hi ho > "$work/m.jsonl"
echo '{"conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "ho"}]}' > "$work/s.jsonl"
echo '{"instruction": "hi", "input": "", "output": "ho"}' > "$work/i.jsonl"
m=$(loss "$work/m.jsonl")
[ "${m#* }" = 3 ] || die "learned: $m" # h, o and the end of the turn
[ "$(loss "$work/s.jsonl")" = "$m" ] || die "ShareGPT: $(loss "$work/s.jsonl"), not $m"
[ "$(loss "$work/i.jsonl")" = "$m" ] || die "Alpaca: $(loss "$work/i.jsonl"), not $m"
all=$(loss "$work/m.jsonl" --train-on all)
[ "${all#* }" = 9 ] || die "all: $all"

# Mixed and malformed records.
{ turns a b; echo '{"text": "c"}'; } > "$work/mixed.jsonl"
fails 1 'mixed.jsonl line 2: expected "messages", found "text"' \
    train "${common[@]}" "${fast[@]}" --data "$work/mixed.jsonl" --out "$work/no.d"
fails 1 'line 1: expected "conversations", found "messages"' \
    eval "${common[@]}" --data "$work/a.jsonl" --format sharegpt
fails 2 "format must be one of auto|text|prompt" \
    eval "${common[@]}" --data "$work/a.jsonl" --format chat
rm "$model/chat_template.jinja"
fails 1 "a.jsonl line 1: $model has no chat template" \
    train "${common[@]}" "${fast[@]}" --data "$work/a.jsonl" --out "$work/no.d"
echo '{% for m in messages %}{{ m.content }}{% endfor %}{{ raise_exception("no") if messages|length > 2 }}' > "$model/chat_template.jinja"
echo '{"messages": [{"role": "user", "content": "1"}, {"role": "user", "content": "2"}, {"role": "user", "content": "3"}]}' >> "$work/m.jsonl"
fails 1 "m.jsonl line 2: $model/chat_template.jinja, line 1: no" \
    train "${common[@]}" "${fast[@]}" --data "$work/m.jsonl" --out "$work/no.d"
[ ! -e "$work/no.d" ] || die "a failed start left $work/no.d"

# Shares: two names without a colon's number, then with it.
fails 2 "give all files a weight" train "${common[@]}" "${fast[@]}" --data "$work/a.jsonl:2,$work/m.jsonl" --out "$work/no.d"
fails 2 "must be greater than 0" train "${common[@]}" "${fast[@]}" --data "$work/a.jsonl:0" --out "$work/no.d"
yes '{"prompt": "0123456789", "completion": "0123456789012345678"}' | head -n 10 > "$work/p.jsonl"
run 0 train "${common[@]}" --batch 1 --dtype fp32 --data "$work/p.jsonl:0.5,$work/s.jsonl:0.25" --out "$work/shares.d"
grep -q "^data: 66.7% of the examples from $work/p.jsonl, 1 times in an epoch" "$work/err" || die "$(cat "$work/err")"
grep -q "^data: 33.3% of the examples from $work/s.jsonl, 5 times in an epoch" "$work/err" || die "$(cat "$work/err")"
grep -q '15 steps of 1 x 32 tokens' "$work/err" || die "an epoch is not 10 + 5 windows: $(cat "$work/err")"

# Two evaluation sets, the best step, and an early end.
run 0 train "${common[@]}" --batch 2 --dtype fp32 --data "$work/p.jsonl" --eval-data "$work/s.jsonl,$work/i.jsonl" --lr 0.5 \
    --steps 100 --eval-every 1 --keep-best --patience 3 --out "$work/best.d"
grep -q "^step 1: eval loss of $work/s.jsonl [0-9.]*, $work/i.jsonl [0-9.]*$" "$work/err" || die "$(cat "$work/err")"
grep -q 'lowest [0-9.]* after step [0-9]*, stopped by --patience' "$work/err" || die "$(cat "$work/err")"
fails 2 "needs --eval-every" train "${common[@]}" "${fast[@]}" --data "$work/p.jsonl" --patience 2 --out "$work/no.d"
