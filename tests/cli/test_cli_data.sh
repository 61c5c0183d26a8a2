# train, eval, --eval-data and tokenize accept and refuse the same files.
set -u
. "$TESTS/cli/lib.sh"
model=$TESTS/golden/models/gpt2
common=(--model "$model" --tokenizer bytes --seq 16 --threads 1)
cat "$SOURCE"/src/cli/main.c >"$work/a.txt"
gzip -c "$work/a.txt" >"$work/a.txt.gz"
printf 'text\na\n' >"$work/a.xlsx"
mkdir "$work/in"
cp "$work/a.txt.gz" "$work/in"
touch "$work/in/README.md"

# loss DATA: the loss that eval prints
loss()
{
    run 0 eval "${common[@]}" --data "$1" --json
    sed -n 's/.*"loss": \([0-9.]*\),.*/\1/p' "$work/out"
}
plain=$(loss "$work/a.txt")
[ -n "$plain" ] || die "no loss: $(cat "$work/out")"
[ "$(loss "$work/a.txt.gz")" = "$plain" ] || die "compressed: $(cat "$work/out")"
[ "$(loss "$work/in")" = "$plain" ] || die "a folder: $(cat "$work/out")"
grep -q '1 file .*skipped.*README.md' "$work/err" || die "a skipped file: $(cat "$work/err")"
[ "$(loss "$work/*.gz")" = "$plain" ] || die "a pattern: $(cat "$work/out")"

# A .json file: an array of records, or one in each line, gives what JSONL gives.
for i in 1 2 3 4; do printf '{"prompt": "say %d", "completion": " %d"}\n' $i $i; done >"$work/r.jsonl"
{ echo '['; sed '$!s/$/,/; s/, /,\n  /' "$work/r.jsonl"; echo ']'; } >"$work/array.json"
cp "$work/r.jsonl" "$work/lines.json"
records=$(loss "$work/r.jsonl")
[ -n "$records" ] || die "no loss of records: $(cat "$work/out")"
[ "$(loss "$work/array.json")" = "$records" ] || die "an array: $(cat "$work/out")"
[ "$(loss "$work/lines.json")" = "$records" ] || die "lines of .json: $(cat "$work/out")"
# So do tables.
{ printf 'prompt,completion\r\n'; for i in 1 2 3 4; do printf '"say %d"," %d"\r\n' $i $i; done; } >"$work/r.csv"
{ printf 'prompt\tcompletion\n'; for i in 1 2 3 4; do printf 'say %d\t %d\n' $i $i; done; } | gzip >"$work/r.tsv.gz"
[ "$(loss "$work/r.csv")" = "$records" ] || die "a table: $(cat "$work/out")"
[ "$(loss "$work/r.tsv.gz")" = "$records" ] || die "a table with tabs: $(cat "$work/out")"

# Rows of token ids are what was tokenized: bytes, and end-of-text.
for i in 49 50 51 52; do
    printf '{"input_ids": [115, 97, 121, 32, %d, 32, %d, 256], "labels": [-100, -100, -100, -100, -100, 32, %d, 256]}\n' $i $i $i
done >"$work/ids.jsonl"
[ "$(loss "$work/ids.jsonl")" = "$records" ] || die "rows of ids: $(cat "$work/out")"
run 0 eval --model "$model" --seq 16 --threads 1 --data "$work/ids.jsonl" --format tokens
fails 1 "tokenizer.json" eval --model "$model" --seq 16 --threads 1 --data "$work/ids.jsonl"

# Refused before any file is created.
for path in "$work/a.xlsx" "$work/*.xlsx"; do
    fails 1 "pandas.read_excel" eval "${common[@]}" --data "$path"
    fails 1 "pandas.read_excel" train "${common[@]}" --data "$path" --out "$work/out.d" --steps 1
    fails 1 "pandas.read_excel" train "${common[@]}" --data "$work/a.txt" --eval-data "$path" \
        --out "$work/out.d" --steps 1
done
fails 1 "no file matches" train "${common[@]}" --data "$work/*.ndjson" --out "$work/out.d" --steps 1
cp "$work/a.txt.gz" "$work/b.txt"
fails 1 "must end with .gz" train "${common[@]}" --data "$work/b.txt" --out "$work/out.d" --steps 1
[ ! -e "$work/out.d" ] || die "left: $(ls -AR "$work/out.d")"
run 0 train "${common[@]}" --data "$work/in" --eval-data "$work/in" --out "$work/out.d" --steps 1 \
    --batch 1

# tokenize
bpe=$TESTS/golden/tokenizers/gpt2
run 0 tokenize --model "$bpe" --file "$work/a.txt"
cp "$work/out" "$work/ids"
run 0 tokenize --model "$bpe" --file "$work/a.txt.gz"
cmp -s "$work/out" "$work/ids" || die "tokenize of compressed text"
"$HILBERT" tokenize --model "$bpe" --file <(cat "$work/a.txt") | cmp -s - "$work/ids" ||
    die "tokenize of a pipe"
fails 1 "must end with .gz" tokenize --model "$bpe" --file "$work/b.txt"
fails 1 "pandas.read_excel" tokenize --model "$bpe" --file "$work/a.xlsx"
run 0 tokenize --model "$bpe" --decode --file "$work/ids"
cmp -s "$work/out" "$work/a.txt" || die "decoded text is another"
