# A folder of pytorch_model.bin does all that the same folder of safetensors does, with the same bits.
set -u
. "$TESTS/cli/lib.sh"
golden=$TESTS/golden
plain=$golden/formats/sharded torch=$golden/torch/model
cp -r "$golden/models/llama" "$work/llama"
common=(--tokenizer bytes --seq 16 --threads 1)
for i in 1 2 3 4 5 6 7 8; do printf '\001\002\003\004\005\006\007\010\011\013\014\016\017'; done >"$work/a.txt"

both() # both COMMAND...: says the same of both folders, given as MODEL
{
    run 0 "${@//MODEL/$plain}"
    sed "s#$plain##g; s/[0-9.]* s\b//g; s/\"seconds[^,}]*//g" "$work/out" >"$work/wanted"
    run 0 "${@//MODEL/$torch}"
    sed "s#$torch##g; s/[0-9.]* s\b//g; s/\"seconds[^,}]*//g" "$work/out" | cmp -s - "$work/wanted" ||
        die "another result of $*: $(cat "$work/out")"
}
both eval --model MODEL "${common[@]}" --data "$work/a.txt" --json
both generate --model MODEL --tokenizer bytes --prompt $'\005' --max-tokens 4 --temperature 0
both inspect MODEL --json
run 0 plan --model "$torch" --seq 16
run 0 inspect "$torch/pytorch_model-00001-of-00003.bin"
grep -q 'embed_tokens.weight' "$work/out" || die "a file: $(cat "$work/out")"

for form in plain torch; do
    run 0 train --model "${!form}" "${common[@]}" --data "$work/a.txt" --out "$work/$form" --steps 2 --quiet
    run 0 quantize "${!form}" "$work/$form.nf4" --base-dtype nf4
done
cmp "$work/plain/model.safetensors" "$work/torch/model.safetensors" || die "trained weights"
cmp "$work/plain.nf4/model.safetensors" "$work/torch.nf4/model.safetensors" || die "quantized weights"

# an adapter
run 0 merge "$work/llama" "$golden/adapters/llama_lora" "$work/merged"
run 0 merge "$work/llama" "$golden/torch/adapter" "$work/merged.bin"
cmp "$work/merged/model.safetensors" "$work/merged.bin/model.safetensors" || die "merged weights"

# safetensors win where both are there, and the result of a run does not lie beside others' files
cp "$golden/torch/refused-call.bin" "$work/llama/pytorch_model.bin"
run 0 inspect "$work/llama"
rm "$work/llama/model.safetensors"
fails 1 "holds no tensors with names" inspect "$work/llama"
cp "$golden/torch/refused-legacy.bin" "$work/llama/pytorch_model.bin"
fails 1 "PyTorch before 1.6" eval --model "$work/llama" "${common[@]}" --data "$work/a.txt"
