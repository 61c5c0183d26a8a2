# hilbert chat with lines from a file, and generate --messages: the same replies; what is refused.
. "$TESTS/cli/lib.sh"

printf '%s' '{"model_type": "gpt2", "vocab_size": 421, "n_positions": 128, "n_embd": 32, "n_layer": 1, '\
'"n_head": 2, "initializer_range": 0.5}' > "$work/config.json"
model=$work/model
run 0 train --model "$work/config.json" --tokenizer bytes --data "$TESTS/cli/lib.sh" --steps 1 --seq 16 --batch 1 \
    --threads 1 --quiet --out "$model"
cp "$TESTS/golden/tokenizers/gpt2/tokenizer.json" "$model"
fails 1 "has no chat template" chat --model "$model"
printf '{%% for m in messages %%}[{{ m.role }}]{{ m.content }}\n{%% endfor %%}{%% if add_generation_prompt %%}[assistant]{%% endif %%}' \
    > "$model/chat_template.jinja"
common=(--model "$model" --threads 1 --temperature 0 --dtype fp32 --max-tokens 8)

# chat LINES...: what the program writes for these lines, in $work/out
chat()
{
    printf '%s\n' "$@" | "$HILBERT" chat "${common[@]}" >"$work/out" 2>"$work/err" ||
        die "chat exited with $?: $(cat "$work/err")"
}

# reply FILE MESSAGES: what generate writes for this conversation
reply()
{
    printf '{"messages": [%s]}' "$2" > "$work/chat.json"
    "$HILBERT" generate "${common[@]}" --messages "$work/chat.json" > "$1" || die "generate --messages"
}

user='{"role": "user", "content": "hello"}'
reply "$work/first" "$user"
chat hello
cmp "$work/first" "$work/out" || die "a reply"

# one conversation goes on; /reset forgets it; /system begins another; empty lines are no messages
reply "$work/system" '{"role": "system", "content": "be  brief"}, '"$user"
chat '' hello /reset hello '/system be  brief' hello /reset hello /system hello /quit hello
cat "$work"/{first,first,system,system,first} | cmp - "$work/out" || die "conversations"
grep -q . "$work/err" && die "said: $(cat "$work/err")"

# the second reply answers to both messages
chat hello again
text=$(head -c -1 "$work/first" | python3 -c 'import json, sys; print(json.dumps(sys.stdin.buffer.read().decode()))' 2>/dev/null) || text=
if [ -n "$text" ]; then
    reply "$work/second" "$user, {\"role\": \"assistant\", \"content\": $text}, {\"role\": \"user\", \"content\": \"again\"}"
    cat "$work"/{first,second} | cmp - "$work/out" || die "the second reply"
fi

# a full context ends a script, and says what to do
printf 'hello\n%0200d\nhello\n' 0 > "$work/lines"
code=0
"$HILBERT" chat "${common[@]}" < "$work/lines" > "$work/out" 2> "$work/err" || code=$?
[ $code = 1 ] || die "a full context: exit $code"
grep -q 'begin anew with /reset' "$work/err" || die "a full context: $(cat "$work/err")"
cmp "$work/first" "$work/out" || die "a full context: another reply"

printf '{"messages": [%s]}' "$user" > "$work/user.json"
# eval --messages: the loss that eval --data has on a file with this conversation alone
printf '{\n "messages": [{"role": "user", "content": "hello"},\n  {"role": "assistant", "content": "well, hello"}]\n}' \
    > "$work/one.json"
tr -d '\n' < "$work/one.json" > "$work/one.jsonl"
for on in assistant all; do
    run 0 eval --model "$model" --threads 1 --messages "$work/one.json" --train-on $on --json
    one=$(sed 's/, "learned_share.*//' "$work/out")
    run 0 eval --model "$model" --threads 1 --data "$work/one.jsonl" --train-on $on --seq 64 --json
    many=$(sed 's/, "learned_share.*//' "$work/out")
    a=$(sed 's/.*"loss": \([0-9.]*\).*/\1/' <<< "$one") b=$(sed 's/.*"loss": \([0-9.]*\).*/\1/' <<< "$many")
    awk -v a="$a" -v b="$b" 'BEGIN { exit !(a > 0 && (a - b) ^ 2 < 1e-10 * a * a) }' || die "eval --messages: $one, $many"
    [ "${one##*tokens}" = "${many##*tokens}" ] || die "eval --messages: $one, $many"
done
fails 1 "has nothing to predict" eval --model "$model" --messages "$work/user.json"
fails 2 "--data" eval --model "$model" --messages "$work/one.json" --data "$work/one.jsonl"
fails 2 "--data or --messages" eval --model "$model"

# plan --context counts keys and values (2 x 1 layer x 32 x 128 tokens x 4 bytes) inside the peak, which chat keeps to
export XDG_CACHE_HOME=$work/cache
plan=(--model "$model" --dtype fp32 --threads 1)
run 0 plan "${plan[@]}" --context 128
grep -q '^keys and values  *32\.0 KiB  *-  *-$' "$work/out" || die "plan --context: $(cat "$work/out")"
grep -q 'a chat of up to 128 tokens' "$work/out" || die "plan --context: $(cat "$work/out")"
grep -qi 'zero-infinity\|moments\|--batch' "$work/out" && die "plan --context speaks of training: $(cat "$work/out")"
fails 2 "128 positions" plan "${plan[@]}" --context 129
# less memory than keys and values take is refused; what holds them, a little more and one layer answers the same
run 1 plan "${plan[@]}" --context 128 --device-memory 30K --host-memory 1M
fails 1 "a smaller --context than 128" chat "${common[@]}" --device-memory 30K --host-memory 1M
printf 'hello\n' | "$HILBERT" chat "${common[@]}" --device-memory 120K --host-memory 1M > "$work/out" ||
    die "chat in 120K"
cmp "$work/first" "$work/out" || die "chat in 120K: another reply"

fails 2 "generate needs --prompt or --messages" generate --model "$model"
fails 2 "--prompt" generate --model "$model" --prompt a --messages "$work/chat.json"
fails 2 "128 positions" chat --model "$model" --context 129
printf '/nonsense\n' | "$HILBERT" chat "${common[@]}" > /dev/null 2> "$work/err" && die "an unknown command"
grep -q '^hilbert: /nonsense is no command' "$work/err" || die "$(cat "$work/err")"
exit 0
