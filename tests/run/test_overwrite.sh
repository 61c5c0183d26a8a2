# With --overwrite the folder has the new run's files and none of the old model's; without it no
# model file is overwritten; the user's own files are never deleted.
set -u
. "$TESTS/cli/lib.sh"
model=$TESTS/golden/models/llama3
out=$work/run
train=(train --model "$model" --data "$model/tokens.npy" --seq 32 --batch 2 --threads 1 --out "$out")

# An old model with shards, another tokenizer and files of other programs; the user's own beside it.
old()
{
    rm -rf "$1"
    mkdir -p "$1"
    for file in config.json tokenizer.json tokenizer_config.json special_tokens_map.json vocab.json \
        merges.txt tokenizer.model chat_template.jinja added_tokens.json generation_config.json \
        model-00001-of-00002.safetensors model-00002-of-00002.safetensors \
        model.safetensors.index.json pytorch_model.bin adapter_config.json vocab.txt; do
        printf old >"$1/$file"
    done
    mkdir "$1/plots"
    for file in notes.txt lora.safetensors plots/a.tmp.1.2 data.tmp.20240101 tokens.npy; do
        printf mine >"$1/$file"
    done
}

# kept DIR: the user's files are still there.
kept()
{
    for file in notes.txt lora.safetensors plots/a.tmp.1.2 data.tmp.20240101 tokens.npy; do
        [ "$(cat "$1/$file")" = mine ] || die "$1/$file is gone"
    done
    rm -r "$1"/{notes.txt,lora.safetensors,plots,data.tmp.20240101,tokens.npy}
}

run 0 "${train[@]}" --steps 2
cp -r "$out" "$work/whole"
old "$out"
run 0 "${train[@]}" --steps 2 --overwrite
kept "$out"
diff -r --exclude=metrics.jsonl --exclude=run.json --exclude=report.html "$out" "$work/whole" || die "train --overwrite"
old "$work/exported"
run 0 export "$work/whole" "$work/exported" --overwrite
kept "$work/exported"
rm -rf "$work/alone"
run 0 export "$work/whole" "$work/alone"
diff -r "$work/exported" "$work/alone" || die "export --overwrite"
[ "$(ls -A "$work/alone")" = "config.json
generation_config.json
model.safetensors" ] || die "export: $(ls -A "$work/alone")"

# A .lock that holds something is not hilbert's.
printf mine >"$work/alone/.lock"
run 0 export "$work/whole" "$work/alone" --overwrite
[ "$(cat "$work/alone/.lock")" = mine ] || die "a file of the user is gone"

# Without --overwrite any file of a model is refused, and stays as it is.
for file in model.safetensors model-00001-of-00002.safetensors model.safetensors.index.json \
    config.json tokenizer.json vocab.json pytorch_model.bin pytorch_model-00001-of-00003.bin \
    adapter_config.json; do
    rm -rf "$out"
    mkdir "$out"
    printf mine >"$out/$file"
    fails 2 "holds a model: choose another folder or use --overwrite ($file is there)" \
        "${train[@]}" --steps 1
    fails 2 "holds a model or a run: choose another folder or use --overwrite ($file is there)" \
        export "$work/whole" "$out"
    [ "$(ls -A "$out")" = "$file" ] && [ "$(cat "$out/$file")" = mine ] || die "$file was touched"
done

# Temporary files of the user, whose names only look like it, stay.
rm -rf "$out"
mkdir -p "$out/a.tmp.1" "$out/cache"
printf mine >"$out/a.tmp.1/b"
printf mine >"$out/x.tmp.1.2"
printf mine >"$out/cache/x.tmp.3"
run 0 "${train[@]}" --steps 2
mkdir "$out/checkpoints/tmp-mine"
run 0 "${train[@]}" --steps 3 --resume
[ "$(cat "$out"/{a.tmp.1/b,x.tmp.1.2,cache/x.tmp.3})" = mineminemine ] || die "a temporary file is gone"
[ -d "$out/checkpoints/tmp-mine" ] || die "a folder beside the checkpoints is gone"

# Nor are folders with files of the user removed with the old run, or by --keep.
fails 2 "checkpoints/tmp-mine was not written by hilbert" "${train[@]}" --steps 1 --overwrite
rmdir "$out/checkpoints/tmp-mine"
printf mine >"$out/checkpoints/step-3/notes.txt"
fails 2 "checkpoints/step-3/notes.txt was not written by hilbert" "${train[@]}" --steps 1 --overwrite
run 0 "${train[@]}" --steps 8 --save-every 1 --keep 1 --resume
[ "$(ls "$out/checkpoints/step-3.rest")" = notes.txt ] &&
    [ "$(cat "$out/checkpoints/step-3.rest/notes.txt")" = mine ] || die "--keep removed a file of the user"
[ "$(ls "$out/checkpoints")" = "latest
step-3.rest
step-8" ] || die "kept: $(ls "$out/checkpoints")"
fails 2 "checkpoints/step-3.rest was not written by hilbert" "${train[@]}" --steps 1 --overwrite
rm -r "$out/checkpoints/step-3.rest"
run 0 "${train[@]}" --steps 2 --overwrite
[ "$(ls "$out/checkpoints")" = "latest
step-2" ] || die "kept: $(ls "$out/checkpoints")"

# A resumed run replaces its own model, but no other file.
printf mine >"$out/pytorch_model.bin"
fails 2 "pytorch_model.bin was not written by hilbert: move it away" "${train[@]}" --steps 4 --resume
rm "$out/pytorch_model.bin"
run 0 "${train[@]}" --steps 4 --resume

# The folder of an unfinished export does not load, and the message says what to do.
rm "$out/config.json"
fails 1 "no config.json is there: not a model, or one that was not written whole" \
    eval --model "$out" --data "$model/tokens.npy" --seq 32
run 0 "${train[@]}" --steps 4 --resume
run 0 eval --model "$out" --data "$model/tokens.npy" --seq 32
[ -z "$(find "$out" "$work/exported" -name '*.tmp-*' -o -name .lock)" ] || die "left: $(find "$out")"
