# The first mistakes of a newcomer: each gives one line that says what to do next, and none gives a
# result that looks right but is wrong.
set -u
. "$TESTS/cli/lib.sh"
models=$TESTS/golden/models
mkdir "$work/here" && cd "$work/here" || exit 1
cat "$SOURCE"/src/cli/*.c >data.txt
head -c 400 data.txt >short.txt
printf '{"text": "one document"}\n' >data.jsonl
cp -r "$models/llama" model # weights, but no tokenizer.json
cp -r "$models/llama" spm && : >spm/tokenizer.model
cp -r "$models/gpt2" bpe && echo '{}' >bpe/vocab.json && : >bpe/merges.txt
mkdir bare spm-bare tekken
cp model/config.json tekken && echo '{}' >tekken/tekken.json
cp model/config.json bare
cp spm/config.json spm/tokenizer.model spm-bare
train=(--out tuned --seq 16 --batch 2 --steps 2 --threads 1)

# Without a tokenizer every command refuses text, and the message says how to get one.
make="AutoTokenizer.from_pretrained('spm').save_pretrained('spm')"
fails 1 "$make" train --model spm --data data.txt "${train[@]}"
fails 1 "$make" train --model spm --data data.jsonl "${train[@]}"
fails 1 "$make" train --model spm --data spm/tokens.npy --eval-data data.txt "${train[@]}"
fails 1 "$make" train --model spm --data spm/tokens.npy,data.txt "${train[@]}"
fails 1 "$make" eval --model spm --data data.txt --seq 16
fails 1 "$make" generate --model spm --prompt a
fails 1 "$make" tokenize --model spm
fails 1 "only Mistral's own tekken.json; copy the tokenizer.json" tokenize --model tekken
fails 1 "AutoTokenizer.from_pretrained('bpe').save_pretrained('bpe')" eval --model bpe --data data.txt
for command in "train --model model --data data.txt ${train[*]}" "eval --model model --data data.txt" \
    "generate --model model --prompt a"; do
    fails 1 "model has no tokenizer.json; copy that of the model it was made from" $command
    grep -q -- '--tokenizer bytes' "$work/err" || die "$command: $(cat "$work/err")"
done
fails 1 "AutoTokenizer" train --model spm-bare/config.json --data data.txt "${train[@]}"
fails 2 "--tokenizer must be bytes, not 'gpt2'" train --model model --data data.txt --tokenizer gpt2
[ ! -e tuned ] || die "a refused run left its folder"

# --tokenizer bytes works without one; so do token ids.
run 0 train --model model --data data.txt --tokenizer bytes "${train[@]}"
grep -q 'tokens of data (bytes); ' "$work/err" || die "$(cat "$work/err")"
grep -q 'hilbert generate --model tuned --tokenizer bytes --prompt' "$work/err" || die "$(cat "$work/err")"
run 0 eval --model tuned --data short.txt --tokenizer bytes --seq 16
run 0 generate --model tuned --tokenizer bytes --prompt a --max-tokens 2
fails 1 "--tokenizer bytes" generate --model tuned --prompt a
run 0 train --model spm --data data.txt --tokenizer bytes --overwrite "${train[@]}"
[ ! -e tuned/tokenizer.model ] || die "a model of bytes has a tokenizer"
run 0 train --model spm --data spm/tokens.npy --overwrite "${train[@]}"
[ -e tuned/tokenizer.model ] || die "the tokenizer's files are gone"
grep -q 'generate' "$work/err" && die "a hint that cannot work: $(cat "$work/err")"
run 0 eval --model tuned --data spm/tokens.npy --seq 16
cat >model/tokenizer.json <<'JSON'
{"version": "1.0", "added_tokens": [], "normalizer": null, "post_processor": null,
 "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
 "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "merges": [], "vocab": {"a": 0}}}
JSON
fails 2 "is for models without a tokenizer, but there is model/tokenizer.json" \
    generate --model model --tokenizer bytes --prompt a
rm model/tokenizer.json

# A config.json as --model starts from scratch, even next to weights: the first line says so.
run 0 train --model model/config.json --data data.txt --overwrite "${train[@]}"
head -n 1 "$work/err" | grep -q '^llama with .* parameters in bf16, random weights (from config.json alone); ' ||
    die "$(head -n 1 "$work/err")"
grep -qx 'the weights in model are not used; to start from them: --model model' "$work/err" || die "$(cat "$work/err")"
run 0 train --model bare/config.json --data data.txt --overwrite "${train[@]}"
head -n 1 "$work/err" | grep -q 'random weights' || die "$(head -n 1 "$work/err")"
grep -q 'not used' "$work/err" && die "$(cat "$work/err")"
run 0 train --model bare/config.json --data data.txt --resume "${train[@]}" --steps 3
grep -q 'random weights' "$work/err" && die "resumed with random weights: $(cat "$work/err")"
run 0 train --model model --data data.txt --tokenizer bytes --overwrite "${train[@]}"
grep -q 'random' "$work/err" && die "$(cat "$work/err")"
fails 2 "eval needs the folder: --model model" eval --model model/config.json --data data.txt
fails 2 "generate needs the folder: --model model" generate --model model/config.json --prompt a
fails 2 "eval needs a model folder" eval --model bare/config.json --data data.txt
fails 2 "generate needs a model folder" generate --model bare/config.json --prompt a

# A name on the Hub is not a folder.
fails 1 "hf download OWNER/gpt2 --local-dir gpt2, and give that folder, gpt2" plan --model gpt2
fails 1 "hf download Qwen/Qwen3-0.6B --local-dir Qwen3-0.6B, and give that folder, Qwen3-0.6B" \
    train --model Qwen/Qwen3-0.6B --data data.txt "${train[@]}"
for path in ./gpt2 /no/where a/b/c none/config.json config.json "two words"; do
    fails 1 "$path: no such model folder or config.json" plan --model "$path"
    grep -q 'hf download' "$work/err" && die "$path is no name on the Hub: $(cat "$work/err")"
done

# The path of the weights instead of their folder.
: >model.gguf
for path in model/model.safetensors model.gguf; do
    fails 2 "$path is a file of weights: give the folder" plan --model "$path"
done

# An unsupported architecture: the message lists the first supported ones, the document that it names all.
mkdir bloom && echo '{"model_type": "bloom"}' >bloom/config.json
fails 1 "supported are gpt2, llama, mistral, qwen2, qwen3, mixtral, qwen3_moe, gemma, " plan --model bloom
supported=$(sed -n 's/.*; supported are \(.*\) and [0-9]* more (docs.models.md).*/\1/p' "$work/err" | tr -d ,)
[ "$(wc -w <<<"$supported")" -ge 40 ] || die "the message lists only: $supported"
names=$(sed -n 's/^    \.name = "\(.*\)",.*/\1/p' "$SOURCE"/src/model/*.c)
[ "$(wc -w <<<"$names")" -ge 80 ] || die "src/model has only: $names"
for name in $supported $names; do
    grep -q "^|.*\`$name\`.*|" "$SOURCE/docs/models.md" || die "docs/models.md lacks $name"
done

# Sizes as people write them.
plan=(plan --model model --threads 1 --seq 16 --batch 2)
run 0 "${plan[@]}" --host-memory 64MB --device-memory 0.05GB
grep -q -- '^--host-memory 64MB is 61.0 MiB, --device-memory 0.05GB is 47.7 MiB$' "$work/err" ||
    die "$(cat "$work/err")"
run 0 "${plan[@]}" --device-memory 1.5g --host-memory 64MiB
grep -q ' is ' "$work/err" && die "$(cat "$work/err")"
fails 2 "--disk: '2TBs' is not a size" "${plan[@]}" --disk nvme:2TBs

# More memory than the machine has; a plan is for any machine.
ids=(--model model --data model/tokens.npy --seq 16)
much=(--device-memory 1000T --host-memory 100G --device cpu)
for command in "train --out new ${ids[*]}" "eval ${ids[*]}" "generate --model model --prompt a --tokenizer bytes"; do
    fails 1 "give less --device-memory or --host-memory, at most" $command "${much[@]}"
done
run 0 plan --model model --seq 16 "${much[@]}"

# Files that are not text: the message says how to convert them.
bytes=(train --model model --tokenizer bytes --out new --seq 16)
printf 'a,b\n1,2\n' >table.csv
printf '["a"]\n' >list.json
printf 'PAR1\0\0' >table.parquet
cp model/model.safetensors weights.txt
gzip -c data.txt >hidden.txt
printf 'a\0b\0' >utf16.txt
mkdir empty
head -c 10 data.txt >tiny.txt
fails 1 "table.csv: expected" "${bytes[@]}" --data table.csv
fails 1 "list.json line 1: expected an array" "${bytes[@]}" --data list.json
fails 1 "table.parquet: damaged: the file is cut off; download" "${bytes[@]}" --data table.parquet
cp table.parquet table.txt
fails 1 "table.txt holds Parquet, not text: its name must end with .parquet" "${bytes[@]}" --data table.txt
fails 1 "weights.txt holds safetensors, not text" "${bytes[@]}" --data weights.txt
fails 1 "hidden.txt holds" "${bytes[@]}" --data hidden.txt
fails 1 "iconv -f UTF-16" "${bytes[@]}" --data utf16.txt
fails 1 "no data in the folder empty" "${bytes[@]}" --data empty
fails 1 "no file matches none*.txt" "${bytes[@]}" --data 'none*.txt'
[ ! -e new ] || die "a refused run left its folder"

fails 1 "give more data, or a smaller --seq" "${bytes[@]}" --data tiny.txt
printf '{"question": "a", "answer": "b"}\n' >keys.jsonl
fails 1 "jq renames keys" "${bytes[@]}" --data keys.jsonl
fails 1 "or hilbert's examples/chat_template.jinja, into the folder" \
    tokenize --model "$TESTS/golden/tokenizers/gpt2" --messages keys.jsonl --render

# Names that other trainers have for the same thing.
fails 2 "did you mean --rank?" train --lora-r 8
fails 2 "of which --micro-batch are computed at once" train --gradient_accumulation_steps 8
fails 2 "did you mean --base-dtype?" train --load-in-4bit
fails 2 "did you mean --max-tokens?" generate --max-new-tokens 8
fails 2 "give --adapter lora --base-dtype nf4" "${bytes[@]}" --data data.txt --adapter qlora
fails 2 "give --adapter lora --dora" "${bytes[@]}" --data data.txt --adapter DoRA
fails 2 "there are q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, or all" \
    "${bytes[@]}" --data data.txt --adapter lora --targets all-linear
fails 2 "there are dgx-2, dgx-h100" plan --model model --cluster dgx

# Model and adapter swapped; a run that has not written its model; other data than before.
rm -rf tuned
run 0 train --model model --data data.txt --tokenizer bytes --adapter lora --base-dtype nf4 "${train[@]}"
try=$(sed -n "s|^  $HILBERT ||p" "$work/err") # with the base in as few bits as it was trained in
[ "$try" = 'generate --model model --adapter tuned --base-dtype nf4 --tokenizer bytes --prompt "Once upon a time"' ] ||
    die "a hint that needs more memory than training: $(cat "$work/err")"
eval "run 0 $try --max-tokens 2"
fails 2 "tuned is an adapter: the model comes first (hilbert merge model tuned merged)" merge tuned model merged
run 0 quantize model codes
fails 2 "codes has quantized weights, into which nothing is merged" merge codes tuned merged
run 0 train --model model --data data.txt --tokenizer bytes --overwrite "${train[@]}"
fails 2 "started with data of $(wc -c <data.txt) tokens; the data has 400" \
    train --model model --data short.txt --tokenizer bytes --resume "${train[@]}"
falling=(train --model model --data data.txt --tokenizer bytes "${train[@]}")
fails 2 "--min-lr is for rates that fall" "${falling[@]}" --overwrite --schedule constant --min-lr 1e-5
fails 2 "--min-lr 0.1: expected 0 to 0.01" "${falling[@]}" --overwrite --lr 0.01 --min-lr 0.1
run 0 "${falling[@]}" --overwrite --schedule linear --lr 1 --min-lr 0.5
grep -q '"lr": 0.75,' tuned/metrics.jsonl || die "no rate between --lr and --min-lr: $(cat tuned/metrics.jsonl)"
fails 2 "started with --min-lr 0.5, not none" "${falling[@]}" --resume --schedule linear --lr 1 --steps 3
rm tuned/config.json
fails 1 "hilbert export tuned MODEL" eval --model tuned --data data.txt --tokenizer bytes
rm -rf tuned

# plan and train refuse options that have no effect.
for command in "train --data data.txt --out new --tokenizer bytes" plan; do
    set -- $command
    fails 2 "--eval-every 5: there is nothing to evaluate on; give --eval-data PATH or --eval-fraction" \
        "$@" --model model --eval-every 5
    fails 2 "--epochs 1e+20: expected 0 to 1e+09" "$@" --model model --epochs 1e20
done
run 0 train --model model --data data.txt --tokenizer bytes --overwrite "${train[@]}" \
    --eval-fraction 0.1 --eval-every 1
