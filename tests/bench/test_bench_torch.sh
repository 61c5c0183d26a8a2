# bench/gpu.py and finetune.py beside PyTorch, on any processor: rows with a competitor or a measured limit.
. "$TESTS/bench/gpu_rows.sh"
python3 -c 'import torch.nn' 2> "$work/err" || { echo "no PyTorch"; exit 77; }
bench --only disk-3b,ceiling,memory-3b,fp8-3b || die "it failed"
row "fp8: 3B, 64k tokens, against PyTorch" '\| [0-9]+ PyTorch float8 \(eager\) \| [0-9.]+ \|'
row "in memory: 3B" '\| [0-9]+ PyTorch \(eager\) \| [0-9.]+ \|'
row "optimizer state on disk" '\| [0-9.]+ s: [0-9.]+ GB at [0-9.]+ GB/s \| [0-9.]+ \|'
timeout 300 python3 "$SOURCE/bench/finetune.py" --tiny --only 405b --hilbert "$HILBERT" --work "$work/finetune" \
    > "$work/table.md" 2> "$work/err" || die "finetune.py failed"
row "405b | library kernels alone" 'micro-batch 4 \| 256 \| [0-9.]+ \| [0-9]+ \|'
