# A folder of GPTQ or AWQ weights does all that a folder with the numbers that they are does, with the same bits.
set -u
. "$TESTS/cli/lib.sh"
golden=$TESTS/golden/coded
for i in 1 2 3 4 5 6 7 8; do printf '\001\002\003\004\005\006\007\010\011\013\014\016\017'; done >"$work/a.txt"
common=(--tokenizer bytes --seq 16 --threads 1 --data "$work/a.txt")

for form in gptq gptq_order awq; do
    for kind in "" .plain; do
        model=$golden/$form$kind
        run 0 eval --model "$model" "${common[@]}" --json
        sed -n 's/.*"loss": \([0-9.]*\),.*/\1/p' "$work/out" >"$work/loss$kind"
        run 0 train --model "$model" "${common[@]}" --steps 2 --adapter lora --base-dtype nf4 --quiet --out "$work/$form$kind"
        run 0 quantize "$model" "$work/nf4$kind" --overwrite
    done
    [ -s "$work/loss" ] || die "no loss"
    cmp "$work/loss" "$work/loss.plain" || die "$form: another loss"
    cmp "$work/$form/adapter_model.safetensors" "$work/$form.plain/adapter_model.safetensors" || die "$form: adapters"
    cmp "$work/nf4/model.safetensors" "$work/nf4.plain/model.safetensors" || die "$form: in nf4"
done

# Folders of old tools say what the codes are in a file of its own.
mkdir "$work/old"
cp "$golden/gptq"/*.safetensors "$work/old"
sed '/"quantization_config": {/,/}/d; s/"float16",/"float16"/' "$golden/gptq/config.json" >"$work/old/config.json"
echo '{"bits": 4, "group_size": 8}' >"$work/old/quantize_config.json"
fails 1 'add the contents of quantize_config.json to it' eval --model "$work/old" "${common[@]}"
mv "$work/old/model.safetensors" "$work/old/gptq_model-4bit-8g.safetensors"
fails 1 "rename them to model.safetensors, and add" eval --model "$work/old" "${common[@]}"
mkdir "$work/older"
cp "$golden/awq"/*.safetensors "$work/older"
sed '/"quantization_config": {/,/}/d; s/"float16",/"float16"/' "$golden/awq/config.json" >"$work/older/config.json"
fails 1 'of AWQ "quant_method": "awq", "bits" and "group_size"' eval --model "$work/older" "${common[@]}"

# All parameters are trained as numbers, and the result is a folder of numbers.
run 0 train --model "$golden/gptq" "${common[@]}" --steps 1 --quiet --out "$work/all"
! grep -q quantization_config "$work/all/config.json" || die "$(cat "$work/all/config.json")"
run 0 eval --model "$work/all" "${common[@]}"
fails 2 "nothing is merged" merge "$golden/gptq" "$work/gptq" "$work/merged"
fails 1 "of GPTQ or AWQ" export "$golden/awq" "$work/a.gguf" --gguf
sed 's/"bits": 4/"bits": 3/' "$golden/gptq/config.json" >"$work/all/config.json"
fails 1 "other than 2, 4 or 8 bits" eval --model "$work/all" "${common[@]}"
