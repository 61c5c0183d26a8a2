# train and eval read Parquet files, by name, folder, pattern and share, with the bits of JSONL.
set -u
. "$TESTS/cli/lib.sh"
model=$TESTS/golden/models/gpt2
rows=$TESTS/golden/parquet
common=(--model "$model" --tokenizer bytes --threads 1 --seq 32)
mkdir "$work/folder" "$work/lines"
for part in text completion; do
    cp "$rows/records_$part.parquet" "$work/folder"
    cp "$rows/records_$part.jsonl" "$work/lines"
done

# trained NAME OPTIONS...: the losses of a run
trained()
{
    local out=$work/$1
    shift
    run 0 train "${common[@]}" --out "$out" --steps 3 --batch 2 "$@"
    sed -n 's/.*, "loss": \([^,]*\),.*/\1/p' "$out/metrics.jsonl" >"$out.losses"
    [ "$(wc -l <"$out.losses")" = 3 ] || die "no losses: $(cat "$out/metrics.jsonl")"
}
same() { cmp -s "$work/$1.losses" "$work/$2.losses" || die "$1 and $2: $(paste "$work/$1.losses" "$work/$2.losses")"; }

trained lines.out --data "$work/lines"
trained folder.out --data "$work/folder"
same lines.out folder.out
cmp -s "$work/lines.out/model.safetensors" "$work/folder.out/model.safetensors" || die "other weights"
trained pattern.out --data "$work/folder/rec*.parquet" --eval-data "$work/folder/records_text.parquet"
same lines.out pattern.out

# A second run takes the tokens from the cache; a changed file does not.
cp "$rows/records_text.parquet" "$work/a.parquet"
trained first.out --data "$work/a.parquet"
ls -i "$work/first.out/cache" >"$work/before"
trained first.out --data "$work/a.parquet" --overwrite
[ "$(ls -i "$work/first.out/cache")" = "$(cat "$work/before")" ] || die "the cache was built again"
cp "$rows/records_completion.parquet" "$work/a.parquet"
trained first.out --data "$work/a.parquet" --overwrite
[ "$(ls -i "$work/first.out/cache")" != "$(cat "$work/before")" ] || die "the cache of another file"

# Shares, and formats by name.
trained share.out --data "$work/folder/records_text.parquet:0.7,$work/folder/records_completion.parquet:0.3"
trained share_lines.out --data "$work/lines/records_text.jsonl:0.7,$work/lines/records_completion.jsonl:0.3"
same share.out share_lines.out
loss()
{
    run 0 eval "${common[@]}" --data "$@" --json
    sed -n 's/.*"loss": \([0-9.]*\),.*/\1/p' "$work/out"
}
for part in text completion; do
    [ "$part" = text ] && format=text || format=prompt
    [ "$(loss "$rows/records_$part.parquet" --format $format)" = "$(loss "$rows/records_$part.jsonl")" ] ||
        die "eval: $(cat "$work/out")"
done

# Refused in one line, before anything is made.
for command in "train --out $work/none --steps 1" eval; do
    fails 1 'expected "messages"' $command "${common[@]}" --data "$rows/records_text.parquet" --format messages
    fails 1 'column "text" is compressed with BROTLI' $command "${common[@]}" --data "$rows/bad_brotli.parquet"
    head -c 1000 "$rows/records_text.parquet" >"$work/cut.parquet"
    fails 1 'cut.parquet: damaged: the file is cut off' $command "${common[@]}" --data "$work/cut.parquet"
done
[ ! -e "$work/none" ] || die "a refused run left its folder"
fails 1 "is a table of records" tokenize --model "$TESTS/golden/tokenizers/gpt2" --file "$rows/records_text.parquet"
