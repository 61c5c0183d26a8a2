# A run of DeepSpeed on three ranks goes on with one, two and three ranks of hilbert, with settings of a
# ds_config.json: the same losses; the batch is checked against the number of ranks.
set -u
. "$TESTS/mpi.sh"
. "$TESTS/cli/lib.sh"
golden=$TESTS/golden/deepspeed
cat >"$work/ds.json" <<'END'
{"train_batch_size": 6, "train_micro_batch_size_per_gpu": 1, "gradient_clipping": 1.0,
 "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "torch_adam": true, "weight_decay": 0}},
 "zero_optimization": {"stage": 2, "overlap_comm": true}}
END
options=(--model "$golden/config.json" --data "$golden/data.npy" --seq 12 --no-shuffle --threads 1 --device cpu
    --deepspeed "$work/ds.json" --resume-deepspeed "$golden/stage2-3")

losses() { grep -o '"loss": [0-9.e-]*' "$work/$1/metrics.jsonl" | cut -d' ' -f2; }

for ranks in 1 2 3; do
    mpi $ranks "$HILBERT" train "${options[@]}" --steps 5 --out "$work/$ranks" 2>"$work/err" ||
        die "$ranks ranks: $(cat "$work/err")"
    [ "$(grep -c 'without effect here: zero_optimization.overlap_comm' "$work/err")" = 1 ] || die "$(cat "$work/err")"
    grep -q 'continuing after step 3 of DeepSpeed (ZeRO stage 2, 3 ranks)' "$work/err" || die "$(cat "$work/err")"
    paste <(losses 1) <(losses $ranks) | awk '
        { d = $1 - $2; if (d < 0) d = -d; if (NF != 2 || d > 1e-6) bad = 1 } END { exit bad || NR != 2 }' ||
        die "$ranks ranks: $(losses $ranks), one rank: $(losses 1)"
done

sed -i 's/"train_micro_batch_size_per_gpu": 1/"train_micro_batch_size_per_gpu": 2/' "$work/ds.json"
mpi 2 "$HILBERT" train "${options[@]}" --steps 5 --out "$work/no" 2>"$work/err" && die "an inconsistent batch is accepted"
[ "$(grep -c 'train_batch_size 6 is not train_micro_batch_size_per_gpu 2 x' "$work/err")" = 1 ] || die "$(cat "$work/err")"
exit 0
