# An adapter is trained to the same bytes wherever things are kept and after a resume; checkpoints
# hold no base, and another base, rank or kind of run is refused.
set -u
. "$TESTS/cli/lib.sh"
models=$TESTS/golden/models

options() # options MODEL: of every run
{
    echo --model "$models/$1" --data "$models/$1/tokens.npy" --seq 32 --batch 4 --micro-batch 1 \
        --lr 1e-2 --threads 1 --schedule constant --adapter lora --rank 3 --quiet
}

same() # same OTHER: as the run "plain"
{
    cmp "$work/plain/adapter_model.safetensors" "$work/$1/adapter_model.safetensors" ||
        die "$model $kind: $1 gives other bytes"
}

check() # check MODEL OPTIONS...
{
    model=$1 kind="${*:2}"
    local all
    read -ra all <<< "$(options "$1") ${*:2}"
    rm -rf "$work"/{plain,tight,recomputed,resumed}
    "$HILBERT" train "${all[@]}" --steps 6 --out "$work/plain" || die "$model $kind"
    "$HILBERT" train "${all[@]}" --steps 6 --out "$work/tight" --device-memory 600K \
        --host-memory 800K --disk "$work" || die "$model $kind with little memory"
    same tight
    "$HILBERT" train "${all[@]}" --steps 6 --out "$work/recomputed" --recompute all || die recompute
    same recomputed
    "$HILBERT" train "${all[@]}" --steps 3 --out "$work/resumed" || die "half a run"
    "$HILBERT" train "${all[@]}" --steps 6 --out "$work/resumed" --resume || die "resume"
    same resumed
}

check llama --dtype bf16
check gpt2 --dtype fp32 --adapter-dropout 0.1
check qwen2 --dtype bf16 --dora
check qwen3 --dtype fp16 --rslora --targets q_proj,down_proj
check gpt2_untied --dtype bf16 --dora --adapter-dropout 0.2 --modules-to-save lm_head
check gemma3 --dtype bf16 --base-dtype nf4
check mixtral --dtype bf16 --targets 'q_proj,*experts*'
check qwen3_moe --dtype fp16 --base-dtype nf4 --rslora --targets experts.down_proj
check deepseek_v3 --dtype bf16 --base-dtype nf4 --targets 'kv_a_proj_with_mqa,q_b_proj,*experts*'
check phi3 --dtype bf16 --base-dtype int8 --targets qkv_proj,down_proj

read -ra all <<< "$(options llama)"
"$HILBERT" train "${all[@]}" --steps 2 --out "$work/run" || die "a run"
for file in master moment1 moment2; do
    "$HILBERT" inspect "$work/run/checkpoints/step-2/$file.safetensors" | tail -n +2 |
        grep -v '^base_model\.model\..*lora_[AB]\|tensor\|^$' && die "$file holds more than the adapter"
done
refuses() # refuses WORDS OPTIONS...
{
    "$HILBERT" train "${all[@]}" --steps 3 --out "$work/run" --resume "${@:2}" 2>"$work/err" &&
        die "$1: not refused"
    grep -q -- "$1" "$work/err" || die "$1: $(cat "$work/err")"
}
cp -r "$models/llama" "$work/base"
dd if=/dev/zero of="$work/base/model.safetensors" bs=1000 seek=40 count=40 conv=notrunc status=none
refuses 'a base model of checksum' --model "$work/base"
refuses '--rank 3, not 4' --rank 4
"$HILBERT" train --model "$models/llama" --data "$models/llama/tokens.npy" --seq 32 --batch 4 \
    --micro-batch 1 --lr 1e-2 --threads 1 --schedule constant --quiet --steps 3 --out "$work/run" \
    --resume 2>"$work/err" && die "resumed without an adapter"
grep -q 'adapter' "$work/err" || die "$(cat "$work/err")"
exit 0
