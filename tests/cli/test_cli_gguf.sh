# export --gguf: what it prints and refuses; the `gguf` package of Python, where there is one, reads the same tensors.
. "$TESTS/cli/lib.sh"

model=$work/model
mkdir "$model"
cp "$TESTS"/golden/gguf/llama3_q8_0/*.* "$TESTS/golden/tokenizers/llama3/tokenizer.json" "$model"
rm "$model/model.gguf"
python=${PYTHON:-python3}
"$python" -c 'import gguf, safetensors, ml_dtypes' 2> /dev/null || python=
for dtype in fp32 fp16 f16 bf16 q8_0; do
    run 0 export "$model" "$work/$dtype.gguf" --gguf --dtype $dtype
    grep -qx "$work/$dtype.gguf: 22 tensors in ${dtype/#f16/fp16}, [0-9.]* KiB" "$work/out" || die "$(cat "$work/out")"
    [ -z "$python" ] || "$python" "$SOURCE/tools/check_gguf.py" "$model" "$work/$dtype.gguf" || die "$dtype is not read back"
done
cmp "$work/fp16.gguf" "$work/f16.gguf" || die "f16 is not fp16"
# without --dtype, that of config.json, which says none here
run 0 export "$model" "$work/own.gguf" --gguf
cmp "$work/fp32.gguf" "$work/own.gguf" || die "another default"

fails 2 "exists: choose another name or use --overwrite" export "$model" "$work/own.gguf" --gguf
run 0 export --gguf "$model" "$work/own.gguf" --overwrite
for name in gemma llama_yarn; do
    run 1 export "$TESTS/golden/models/$name" "$work/none.gguf" --gguf
    grep -q "cannot be exported to GGUF; convert_hf_to_gguf.py" "$work/err" || die "$name: $(cat "$work/err")"
    [ ! -e "$work/none.gguf" ] || die "$name: a file is left"
done
fails 1 "holds neither a checkpoint nor a model" export "$work" "$work/none.gguf" --gguf
fails 1 "holds no checkpoint" export "$model" "$work/folder"
fails 1 "cannot" export "$model" "$work/missing/none.gguf" --gguf
mkdir "$work/adapter"
echo '{}' > "$work/adapter/adapter_config.json"
fails 2 "is an adapter: make a model of it first" export "$work/adapter" "$work/none.gguf" --gguf
rm "$model/tokenizer.json"
run 0 export "$model" "$work/bare.gguf" --gguf
grep -q 'the file holds no vocabulary' "$work/err" || die "$(cat "$work/err")"
[ -z "$(find "$work" -name '*.tmp-*' -o -name 'none*')" ] || die "left behind: $(ls "$work")"
exit 0
