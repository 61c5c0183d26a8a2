# tokenize --messages: the bytes that the chat template renders, its errors, and ids of them.
. "$TESTS/cli/lib.sh"

model=$work/model
mkdir "$model"
cp "$TESTS/golden/tokenizers/gpt2/tokenizer.json" "$model"
printf '%s' '{"bos_token": "<s>", "chat_template": "{{ bos_token }}{% for m in messages %}{% if m.role == '\
"'system'"' %}{{ raise_exception('"'System role not supported'"') }}{% endif %}[{{ m.role }}] {{ m.content }}\r\n{% endfor %}'\
'{% if tools %}{{ tools|tojson }}{% endif %}{% if add_generation_prompt %}[assistant]{% endif %}"}' \
    > "$model/tokenizer_config.json"
printf '{"messages": [{"role": "user", "content": "caf\\u00e9\\r\\n<b>"}], "add_generation_prompt": true}' \
    > "$work/chat.json"

run 0 tokenize --model "$model" --messages "$work/chat.json" --render
printf '<s>[user] caf\303\251\r\n<b>\n' | cmp - "$work/out" || die "rendered text"
run 0 tokenize --model "$model" --messages "$work/chat.json" --render --generation-prompt
printf '<s>[user] caf\303\251\r\n<b>\n[assistant]' | cmp - "$work/out" || die "generation prompt"

# The ids are those of the rendered text.
"$HILBERT" tokenize --model "$model" --messages "$work/chat.json" --render > "$work/text"
run 0 tokenize --model "$model" --file "$work/text"
cp "$work/out" "$work/ids"
run 0 tokenize --model "$model" --messages "$work/chat.json"
cmp "$work/ids" "$work/out" || die "ids of a conversation"

# A chat template in a file of its own wins, and needs no tokenizer.
mkdir "$work/bare"
printf '{{ messages|length }}{{ x }}\n' > "$work/bare/chat_template.jinja"
printf '{"messages": [1, 2], "x": "y"}' > "$work/two.json"
run 0 tokenize --model "$work/bare" --messages "$work/two.json" --render
printf '2y' | cmp - "$work/out" || die "chat_template.jinja"

printf '{"messages": [{"role": "system", "content": ""}]}' > "$work/system.json"
fails 1 "System role not supported" tokenize --model "$model" --messages "$work/system.json" --render
[ ! -s "$work/out" ] || die "text before an error"
printf '[]' > "$work/list.json"
fails 1 'must be a JSON object with a list "messages"' tokenize --model "$model" \
    --messages "$work/list.json" --render
fails 1 "has no chat template" tokenize --model "$TESTS/golden/tokenizers/gpt2" \
    --messages "$work/chat.json" --render
# which tokens are learned: of a record of any format
printf '{"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Ho"}]}' > "$work/share.json"
printf '{%% for m in messages %%}[{{ m.role }}]{{ m.content }}<|end|>{%% endfor %%}{%% if add_generation_prompt %%}[assistant]{%% endif %%}' \
    > "$model/chat_template.jinja"
run 0 tokenize --model "$model" --messages "$work/share.json" --show-mask
[ "$(sed -n 's/.*  learned  //p' "$work/out" | tr -d '\n')" = '"H""o""<|end|>"' ] || die "mask: $(cat "$work/out")"
grep -q '^3 of [0-9]* tokens are learned$' "$work/out" || die "count: $(cat "$work/out")"
run 0 tokenize --model "$model" --messages "$work/share.json" --show-mask --train-on all
[ "$(grep -c '  -  ' "$work/out")" = 1 ] || die "all but the first token: $(cat "$work/out")"
fails 1 'expected "messages"' tokenize --model "$model" --messages "$work/share.json" --show-mask --format messages
# a pair of answers: the last message of each
printf '{"prompt": [{"role": "user", "content": "Hi"}], "chosen": [{"role": "assistant", "content": "Ho"}], '\
'"rejected": [{"role": "assistant", "content": "No"}]}' > "$work/pair.json"
for format in auto preference; do
    run 0 tokenize --model "$model" --messages "$work/pair.json" --show-mask --format $format
    [ "$(sed -n 's/.*  learned  //p; /^[a-z]*:$/p' "$work/out" | tr -d '\n')" = \
        'chosen:"H""o""<|end|>"rejected:"N""o""<|end|>"' ] || die "pair: $(cat "$work/out")"
done
# a pair of plain texts, and an example: what training makes of them, without the template
printf '{"prompt": "Hi ", "chosen": "Ho", "rejected": "No"}' > "$work/plain.json"
fails 1 "config.json" tokenize --model "$model" --messages "$work/plain.json" --show-mask
. "$TESTS/llama_config.sh"
printf '<|end|>' > "$work/end"
end=$("$HILBERT" tokenize --model "$model" --file "$work/end" | tr -d '[] \n')
llama_config 2000 64 64 1 2 1 64 "\"bos_token_id\": null, \"eos_token_id\": $end" > "$model/config.json"
run 0 tokenize --model "$model" --messages "$work/plain.json" --show-mask
[ "$(sed -n 's/.*  learned  //p; /^[a-z]*:$/p' "$work/out" | tr -d '\n')" = \
    'chosen:"H""o""<|end|>"rejected:"N""o""<|end|>"' ] || die "plain pair: $(cat "$work/out")"
printf '{"prompt": "Hi ", "completion": "Ho", "label": false}' > "$work/plain.json" # as for --loss kto
run 0 tokenize --model "$model" --messages "$work/plain.json" --show-mask
[ "$(sed -n 's/.*  learned  //p' "$work/out" | tr -d '\n')" = '"H""o""<|end|>"' ] || die "example: $(cat "$work/out")"
# token ids with labels
printf '{"input_ids": [1, 2, 3, 4], "labels": [-100, -100, 3, 4]}' > "$work/ids.json"
run 0 tokenize --model "$model" --messages "$work/ids.json" --show-mask
[ "$(sed -n 's/ *[0-9]*  *\([0-9]*\)  learned .*/\1/p' "$work/out" | tr '\n' ' ')" = '3 4 ' ] ||
    die "token ids: $(cat "$work/out")"
printf '{"input_ids": [1, 2000]}' > "$work/ids.json"
fails 1 "token id 2000 is outside the vocabulary of 2000" tokenize --model "$model" --messages "$work/ids.json" --show-mask
# from a pipe
run 0 tokenize --model "$model" --messages "$work/chat.json" --render
cp "$work/out" "$work/text"
"$HILBERT" tokenize --model "$model" --messages <(sleep 0.1; cat "$work/chat.json") --render > "$work/piped" ||
    die "messages from a pipe"
cmp -s "$work/text" "$work/piped" || die "a pipe gives other text"
run 0 tokenize --model "$model" --messages "$work/pair.json" --show-mask
"$HILBERT" tokenize --model "$model" --messages /dev/stdin --show-mask < <(cat "$work/pair.json") > "$work/piped" ||
    die "a pair from a pipe"
cmp -s "$work/out" "$work/piped" || die "a pipe gives another mask"
fails 1 "cannot read $work: Is a directory" tokenize --model "$model" --messages "$work" --render
printf '{"text": "a"}' > "$work/text.json"
fails 1 "holds no conversation" tokenize --model "$model" --messages "$work/text.json" --show-mask
fails 2 "does not go together" tokenize --model "$model" --messages "$work/share.json" --show-mask --render
fails 2 "need --messages" tokenize --model "$model" --show-mask
fails 2 "need --messages" tokenize --model "$model" --render
fails 2 "does not go together" tokenize --model "$model" --messages "$work/chat.json" --decode

# A file of training data holds several records, of which one is wanted.
for i in 1 2; do echo '{"messages": [{"role": "user", "content": "a"}]}'; done > "$work/two.jsonl"
fails 1 "two.jsonl holds several records; give one of them: <(head -n 1 " \
    tokenize --model "$model" --messages "$work/two.jsonl" --show-mask
