# Bad input through the program: one clear line, exit code 1 or 2, nothing left behind.
set -u
. "$TESTS/cli/lib.sh"
models=$TESTS/golden/models
out=$work/result
tokens=$models/llama/tokens.npy

# refused CODE WORDS ARGUMENTS...: train fails with one line and leaves no folder.
refused()
{
    local code=$1 words=$2
    shift 2
    fails "$code" "$words" train --out "$out" --seq 16 --batch 2 --steps 1 --threads 1 "$@"
    [ ! -e "$out" ] || die "train $* left $(find "$out")"
    [ -z "$(find "$work" -name '*.tmp-*')" ] || die "train $* left $(find "$work" -name '*.tmp-*')"
}

# weights WORDS: train, eval and generate refuse the folder $work/model.
weights()
{
    refused 1 "$1" --model "$work/model" --data "$own"
    fails 1 "$1" eval --model "$work/model" --data "$own" --seq 16
    fails 1 "$1" generate --model "$work/model" --tokenizer bytes --prompt "!"
}

# little SIZE: an eight-byte number, lowest byte first.
little()
{
    local i n=$1
    for i in 1 2 3 4 5 6 7 8; do
        printf "\\$(printf '%03o' $((n & 255)))"
        n=$((n >> 8))
    done
}

# header JSON [BYTES]: model.safetensors with that header and so many zeros of data.
header()
{
    { little ${#1}; printf '%s' "$1"; head -c "${2:-0}" /dev/zero; } >"$work/model/model.safetensors"
}

fresh() # fresh MODEL: $work/model is a copy of a golden model
{
    rm -rf "$work/model"
    mkdir "$work/model"
    cp "$models/$1"/*.json "$models/$1"/*.safetensors "$work/model/"
    own=$models/${1%_sharded}/tokens.npy
}

fresh llama
rm "$work/model/model.safetensors"
weights model.safetensors
fresh llama
size=$(stat -c %s "$work/model/model.safetensors")
for keep in 0 4 7 8 100 $((size - 1)); do
    head -c "$keep" "$models/llama/model.safetensors" >"$work/model/model.safetensors"
    weights model.safetensors
done
fresh llama
printf 'rubbish' | dd of="$work/model/model.safetensors" bs=1 seek=20 conv=notrunc status=none
weights model.safetensors
little $((size * 2)) | dd of="$work/model/model.safetensors" bs=1 conv=notrunc status=none
weights model.safetensors
little -1 | dd of="$work/model/model.safetensors" bs=1 conv=notrunc status=none
weights model.safetensors

a='"dtype":"F32","shape":[2],"data_offsets"'
header "{\"a\":{$a:[0,8]},\"b\":{$a:[4,12]}}" 12
weights overlap
header "{\"a\":{$a:[0,8]},\"b\":{$a:[8,16]}}" 12
weights model.safetensors
header "{\"a\":{$a:[0,8]},\"a\":{$a:[8,16]}}" 16
weights '"a"'
header '{"a":{"dtype":"F32","shape":[4294967296,4294967296,4294967296],"data_offsets":[0,8]}}' 8
weights model.safetensors
header '{"a":{"dtype":"F32","shape":[-1,-2],"data_offsets":[0,8]}}' 8
weights model.safetensors
header "{\"a\":{$a:[0,8]}}" 8
weights model.embed_tokens.weight

fresh llama
cp "$models/llama3/model.safetensors" "$work/model/"
weights "model.embed_tokens.weight has shape [291, 40], but"

fresh qwen2_window_sharded
sed -i 's|: "model-00002-of|: "../model-00002-of|' "$work/model/model.safetensors.index.json"
weights "../model-00002-of"
fresh qwen2_window_sharded
rm "$work/model/model-00002-of-00003.safetensors"
weights model-00002-of-00003.safetensors

# config FROM TO: a config with that change, as a folder and alone.
config()
{
    fresh llama
    sed -i "s|$1|$2|" "$work/model/config.json"
    ! cmp -s "$work/model/config.json" "$models/llama/config.json" || die "$1 is not in the config"
    weights config.json
    refused 1 config.json --model "$work/model/config.json" --data "$tokens"
}
config '"hidden_size": 30,' ''
config '"hidden_size": 30' '"hidden_size": 0'
config '"hidden_size": 30' '"hidden_size": -30'
config '"hidden_size": 30' '"hidden_size": 1e9'
config '"hidden_size": 30' '"hidden_size": 9223372036854775807'
config '"hidden_size": 30' '"hidden_size": "30"'
config '"num_hidden_layers": 2' '"num_hidden_layers": 1000000000'
config '"num_attention_heads": 3' '"num_attention_heads": 0'
config '"num_key_value_heads": 3' '"num_key_value_heads": 2'
config '"vocab_size": 261' '"vocab_size": 99999999999'
config '"rms_norm_eps": 1e-05' '"rms_norm_eps": -1'
config '{' ''
config '"hidden_act": "silu"' '"hidden_act": "tanh"'
fresh llama
sed -i 's|"model_type": "llama"|"model_type": "bloom"|; s|LlamaFor|BloomFor|' \
    "$work/model/config.json"
weights bloom
for name in gpt2 llama mistral qwen2 qwen3; do
    grep -q "$name" "$work/err" || die "the line does not name $name: $(cat "$work/err")"
done
rm "$work/model/config.json"
weights config.json
refused 1 "$work/nothing" --model "$work/nothing" --data "$tokens"

# Data.
llama=(--model "$models/llama" --tokenizer bytes)
refused 1 "$work/none.txt" "${llama[@]}" --data "$work/none.txt"
: >"$work/empty.txt"
refused 1 empty.txt "${llama[@]}" --data "$work/empty.txt"
: >"$work/empty.jsonl"
refused 1 empty.jsonl "${llama[@]}" --data "$work/empty.jsonl"
printf 'short' >"$work/short.txt"
refused 1 short.txt "${llama[@]}" --data "$work/short.txt"
grep -q 16 "$work/err" || die "does not say how much is needed: $(cat "$work/err")"
good='{"text": "words and words and words and words"}'
while read -r line; do
    printf '%s\n%s\n%s\n' "$good" "$line" "$good" >"$work/bad.jsonl"
    refused 1 "bad.jsonl line 2" "${llama[@]}" --data "$work/bad.jsonl"
done <<'END'
{"text": "a"
["text"]
{"text": 5}
{"words": "a"}
{"prompt": "a"}
{"text": "\ud800"}
nonsense
END
refused 1 "67" --model "$models/llama_bias" --data "$tokens"
head -c 100 "$tokens" >"$work/cut.npy"
refused 1 cut.npy "${llama[@]}" --data "$work/cut.npy"
cp "$TESTS/golden/formats/float.npy" "$work/float.npy"
refused 1 float.npy "${llama[@]}" --data "$work/float.npy"
fails 1 none.txt eval "${llama[@]}" --data "$work/none.txt"
fails 1 empty.txt eval "${llama[@]}" --data "$work/empty.txt"
fails 1 67 eval --model "$models/llama_bias" --data "$tokens" --seq 16
refused 1 none.npy "${llama[@]}" --data "$tokens" --eval-data "$work/none.npy"
refused 2 "65" "${llama[@]}" --data "$tokens" --seq 65
fails 2 "65" eval "${llama[@]}" --data "$tokens" --seq 65

# A tokenizer for another vocabulary.
fresh llama_bias
{
    printf '{"version": "1.0", "added_tokens": [], "normalizer": null, "post_processor": null, '
    printf '"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}, '
    printf '"decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "merges": [], "vocab": {"a": 0'
    for i in $(seq 1 67); do printf ', "t%d": %d' "$i" "$i"; done
    printf '}}}\n'
} >"$work/model/tokenizer.json"
refused 1 tokenizer.json --model "$work/model" --data "$work/empty.txt"
grep -q '68.*67' "$work/err" || die "does not say both sizes: $(cat "$work/err")"
printf '{' >"$work/model/tokenizer.json"
refused 1 tokenizer.json --model "$work/model" --data "$tokens"

# The output folder.
: >"$work/file"
fails 1 "$work/file" train "${llama[@]}" --data "$tokens" --seq 16 --steps 1 --out "$work/file"
fails 1 "$work/file" train "${llama[@]}" --data "$tokens" --seq 16 --steps 1 --out "$work/file/x/y"
[ ! -s "$work/file" ] || die "the file was written to"
cat >"$work/large.json" <<'END'
{"model_type": "gpt2", "vocab_size": 60000, "n_positions": 16, "n_embd": 64, "n_layer": 1,
 "n_head": 1}
END
refused 1 free --model "$work/large.json" --data "$tokens" --keep 1000000

# An existing run is not changed by one that cannot start.
run 0 train "${llama[@]}" --data "$tokens" --seq 16 --batch 2 --steps 2 --threads 1 --out "$out"
(cd "$out" && find . -type f -exec md5sum {} +) | sort >"$work/before"
for words in none.txt empty.txt; do
    fails 1 "$words" train "${llama[@]}" --data "$work/$words" --seq 16 --out "$out" --overwrite
done
fails 2 "holds a run" train "${llama[@]}" --data "$tokens" --seq 16 --out "$out"
fails 2 "not both" train "${llama[@]}" --data "$tokens" --seq 16 --out "$out" --resume --overwrite
(cd "$out" && find . -type f -exec md5sum {} +) | sort >"$work/after"
cmp -s "$work/before" "$work/after" || die "changed: $(diff "$work/before" "$work/after")"
