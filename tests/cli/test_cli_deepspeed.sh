# train --deepspeed: the file's numbers are the run's; flags fill "auto"; contradictions name both.
set -u
. "$TESTS/cli/lib.sh"
model=$TESTS/golden/models/llama
yes 'the quick brown fox jumps over the lazy dog' | head -c 4000 >"$work/a.txt"

# trained NAME OPTIONS...: a run of 6 steps; its metrics are in $work/NAME/metrics.jsonl.
trained()
{
    local name=$1
    shift
    run 0 train --model "$model" --tokenizer bytes --data "$work/a.txt" --out "$work/$name" --seq 16 --steps 6 \
        --device cpu --threads 1 "$@"
}
# values NAME KEY: of every step.
values() { sed -n 's/.*"'"$2"'": *\([^,}]*\).*/\1/p' "$work/$1/metrics.jsonl" | tr '\n' ' '; }

cat >"$work/ds.json" <<'END'
{"train_batch_size": "auto", "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2, "gradient_clipping": 0.5,
 "optimizer": {"type": "Adam", "params": {"lr": "auto", "betas": [0.8, 0.9], "eps": 1e-6, "weight_decay": 0.2}},
 "bf16": {"enabled": true}, "wall_clock_breakdown": true, "zero_optimization": {"stage": 2, "overlap_comm": true}}
END
# The same numbers as flags give the same losses, bit for bit.
trained flags --batch 4 --micro-batch 2 --clip 0.5 --lr 2e-3 --beta1 0.8 --beta2 0.9 --eps 1e-6 --weight-decay 0.2 \
    --dtype bf16 --schedule constant
trained file --deepspeed "$work/ds.json" --lr 2e-3
[ "$(values flags loss)" = "$(values file loss)" ] || die "--deepspeed: $(values file loss), flags: $(values flags loss)"
grep -q 'without effect here: wall_clock_breakdown, zero_optimization.overlap_comm' "$work/err" || die "$(cat "$work/err")"
[ "$(grep -c 'without effect' "$work/err")" = 1 ] || die "said more than once"
grep -q 'weight decay leaves out norms and biases' "$work/err" || die "$(cat "$work/err")"

# A scheduler, as DeepSpeed counts: the first two updates have the lowest rate.
scheduler='"scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 0, "warmup_max_lr": 0.004,'
scheduler+=' "warmup_num_steps": "auto", "warmup_type": "linear"}}'
sed "s/\"bf16\"/$scheduler, &/" "$work/ds.json" >"$work/warm.json"
trained warm --deepspeed "$work/warm.json" --warmup 4
rates=$(for rate in $(values warm lr); do printf '%.6g ' "$rate"; done)
[ "$rates" = "0 0 0.001 0.002 0.003 0.004 " ] || die "rates $rates"
# Resuming with another scheduler is refused.
sed 's/0.004/0.005/' "$work/warm.json" >"$work/warmer.json"
fails 2 'the run was started with a scheduler of' train --model "$model" --tokenizer bytes --data "$work/a.txt" \
    --out "$work/warm" --seq 16 --steps 8 --device cpu --threads 1 --deepspeed "$work/warmer.json" --warmup 4 --resume --quiet

# fp16: a scale far too large is halved at every second overflow.
echo '{"train_batch_size": 4, "fp16": {"enabled": true, "initial_scale_power": 40, "hysteresis": 2},
 "optimizer": {"type": "AdamW"}}' >"$work/fp16.json"
trained fp16 --deepspeed "$work/fp16.json"
[ "$(values fp16 loss_scale)" = "1099511627776 1099511627776 549755813888 274877906944 137438953472 68719476736 " ] ||
    die "loss scales $(values fp16 loss_scale)"

common=(train --model "$model" --tokenizer bytes --data "$work/a.txt" --out "$work/no" --quiet --deepspeed "$work/ds.json")
fails 2 '--clip contradicts gradient_clipping in' "${common[@]}" --clip 1
fails 2 '--dtype contradicts fp16.enabled or bf16.enabled in' "${common[@]}" --dtype fp32
fails 2 '--optimizer contradicts optimizer.type in' "${common[@]}" --optimizer lion
fails 2 '--batch contradicts train_batch_size in' "${common[@]}" --batch 8 --deepspeed "$work/fp16.json"
fails 2 'train_batch_size 6 is not train_micro_batch_size_per_gpu 2 x gradient_accumulation_steps 2 x 1 rank' \
    "${common[@]}" --batch 6
fails 2 '--schedule contradicts scheduler.type in' "${common[@]}" --deepspeed "$work/warm.json" --schedule linear
fails 1 'nowhere.json' "${common[@]}" --deepspeed "$work/nowhere.json"

# The plan takes the file too, and a path of nvme becomes a disk.
echo '{"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3,
 "offload_param": {"device": "nvme", "nvme_path": "'"$work"'"}}}' >"$work/nvme.json"
run 0 plan --model "$model" --seq 16 --ranks 2 --deepspeed "$work/nvme.json" --device-memory 8M --host-memory 2M
fails 2 '--disk contradicts the nvme_path' plan --model "$model" --deepspeed "$work/nvme.json" --disk /tmp --quiet
