# Text through a tokenizer: the folder keeps its files and unknown keys, text equals its token ids,
# and what was trained can be evaluated and continued.
set -u
. "$TESTS/cli/lib.sh"
tokenizer=$TESTS/golden/tokenizers/gpt2/tokenizer.json
cat "$SOURCE"/src/cli/*.c >"$work/data.txt"

# vocabulary: all ids of the tokenizer are below this
vocab=$(grep -o '": *[0-9]*' "$tokenizer" | grep -o '[0-9]*$' | sort -n | tail -n 1)
vocab=$((vocab + 1))
cat >"$work/config.json" <<END
{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": $vocab,
 "n_positions": 32, "n_embd": 16, "n_layer": 1, "n_head": 2, "bos_token_id": 0, "eos_token_id": 0,
 "made_up": {"kept": [1, 2.5, null]}}
END

# ids: a JSON array on stdin to a .npy file of 16-bit numbers on stdout.
ids()
{
    local list header
    list=$(tr -d '[]\n' | tr ',' ' ')
    # shellcheck disable=SC2086
    set -- $list
    header=$(printf "{'descr': '<u2', 'fortran_order': False, 'shape': (%d,), }" $#)
    printf '\223NUMPY\001\000\166\000%-117s\n' "$header"
    for id; do printf "\\$(printf '%03o' $((id & 255)))\\$(printf '%03o' $((id >> 8)))"; done
}

run 0 tokenize --model "$tokenizer" --file "$SOURCE/src/cli/main.c"
ids <"$work/out" >"$work/main.npy"
run 0 train --model "$work/config.json" --data "$work/main.npy" --seq 32 --batch 4 --steps 2 \
    --threads 1 --out "$work/base"
cp "$tokenizer" "$work/base/"
echo '{"model_max_length": 32}' >"$work/base/tokenizer_config.json"
echo '{}' >"$work/base/special_tokens_map.json"

run 0 train --model "$work/base" --data "$work/data.txt" --seq 32 --batch 8 --steps 40 --lr 1e-2 \
    --threads 2 --eval-fraction 0.1 --out "$work/tuned"
for file in tokenizer.json tokenizer_config.json special_tokens_map.json; do
    cmp "$work/base/$file" "$work/tuned/$file" || die "$file is not kept"
done
tr -d ' \n' <"$work/tuned/config.json" | grep -qF '"made_up":{"kept":[1,2.5,null]}' ||
    die "a key of the config is gone: $(cat "$work/tuned/config.json")"

# loss ARGUMENTS...: the loss that eval prints
loss()
{
    run 0 eval --seq 32 --threads 1 --json "$@"
    sed 's/^{"loss": \([0-9.e+-]*\),.*/\1/' "$work/out"
}
text=$(loss --model "$work/tuned" --data "$SOURCE/src/cli/main.c")
[ "$text" = "$(loss --model "$work/tuned" --data "$work/main.npy")" ] || die "text is not its ids"
before=$(loss --model "$work/base" --data "$work/data.txt")
after=$(loss --model "$work/tuned" --data "$work/data.txt")
awk "BEGIN { exit !($after < $before - 1) }" || die "nothing was learned: $before -> $after"

# One document in .jsonl is that text.
{ printf '{"text": "'; head -c 4000 "$work/data.txt" | sed 's/\\/\\\\/g; s/"/\\"/g; s/$/\\n/' |
    tr -d '\n'; printf '"}\n'; } >"$work/one.jsonl"
head -c 4000 "$work/data.txt" >"$work/one.txt"
[ "$(tail -c 1 "$work/one.txt")" = "" ] || printf '\n' >>"$work/one.txt"
[ "$(loss --model "$work/tuned" --data "$work/one.jsonl")" = \
    "$(loss --model "$work/tuned" --data "$work/one.txt")" ] || die "one.jsonl is not one.txt"

# A greedy continuation is the same text for any number of threads.
run 0 generate --model "$work/tuned" --prompt "static int " --max-tokens 8 --temperature 0
cp "$work/out" "$work/greedy"
run 0 generate --model "$work/tuned" --prompt "static int " --max-tokens 8 --temperature 0 --threads 1
cmp -s "$work/out" "$work/greedy" || die "greedy is not one text"
[ -s "$work/greedy" ] || die "nothing was generated"
