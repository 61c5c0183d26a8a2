# shellcheck disable=SC2086
# --device: which devices are available, and why others are not.
set -u
. "$TESTS/cli/lib.sh"
export XDG_CACHE_HOME=$work/cache # other tests may measure this machine again
cat >"$work/config.json" <<END
{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 300, "n_positions": 32,
 "n_embd": 16, "n_layer": 1, "n_head": 2, "bos_token_id": 0, "eos_token_id": 0}
END
# With fixed budgets, because the free memory changes from call to call.
plan="plan --model $work/config.json --seq 32 --threads 1 --device-memory 64M --host-memory 64M"

# Tests hide GPUs, so auto is the CPU.
run 0 $plan
cp "$work/out" "$work/auto"
run 0 $plan --device cpu
cmp "$work/auto" "$work/out" || die "auto is not the CPU where there is no GPU"
for name in gpu cuda: cuda:x cuda:-1 cuda:4294967296 cuda1 CUDA; do
    fails 2 "--device $name: expected auto, cpu, cuda or cuda:N" $plan --device $name
done
for command in "$plan" "probe" "train --model $work/config.json --data $TESTS/cli/lib.sh --out $work/o"; do
    fails 1 "there is no GPU here" $command --device cuda
done
fails 1 "there is no GPU here" $plan --device cuda:3

# A device behind a limited bus, for benchmarks.
for name in threads@ threads@x threads@-1 threads@1x threads@0; do
    fails 2 "--device $name: expected GB/s after @" $plan --device $name
done
fails 2 "a CPU has no bus" $plan --device cpu@1
fails 2 "it cannot be limited to 1e+06 GB/s" $plan --device threads@1e6

# The instruction set can be limited from outside.
export HILBERT_INSTRUCTIONS
for HILBERT_INSTRUCTIONS in portable amx ""; do run 0 $plan --device cpu; done
for HILBERT_INSTRUCTIONS in AVX2 none; do
    fails 2 "expected portable, avx2, avx512, avx512bf16 or amx" $plan
done
HILBERT_INSTRUCTIONS=portable
run 0 $plan --json
grep -q '"machine": ".*, portable"' "$work/out" || die "not portable: $(cat "$work/out")"
unset HILBERT_INSTRUCTIONS

# A driver with a GPU, and a program without the module or with a file that is no module.
mkdir "$work/driver" "$work/bin"
echo 'int cuInit(unsigned f) { return f; } int cuDeviceGetCount(int *n) { *n = 1; return 0; }' |
    "$CC" -shared -fPIC -x c - -o "$work/driver/libcuda.so.1" || exit 77
cp "$HILBERT" "$work/bin/hilbert"
HILBERT=$work/bin/hilbert
export LD_LIBRARY_PATH="$work/driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
fails 1 "this hilbert was built without CUDA" $plan --device cuda
run 0 $plan
grep -q "the GPU is not used: this hilbert was built without CUDA" "$work/err" ||
    die "auto does not say why it takes the CPU: $(cat "$work/err")"
cmp "$work/auto" "$work/out" || die "a plan for a GPU that is not used"
make() { # make FILE CODE: a library
    echo "$2" | "$CC" -shared -fPIC -x c - -o "$1"
}
make "$work/bin/hilbert_cuda.so" 'int nothing;'
for library in libcublasLt.so.13 libcudnn.so.9; do make "$work/driver/$library" 'int nothing;'; done
fails 1 "is not hilbert's module for GPUs" $plan --device cuda
make "$work/bin/hilbert_cuda.so" 'int hil_cuda_open_device(void) { return 0; }'
fails 1 "was built from other sources than this program" $plan --device cuda
make "$work/bin/hilbert_cuda.so" 'int hil_cuda_open_device(void) { return 0; }
    const char hil_cuda_interface[] = "0123456789abcdef";'
fails 1 "was built from other sources than this program (interface 0123456789abcdef" $plan --device cuda
