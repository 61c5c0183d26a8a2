# Runs on the test device (threads of this process) give the bits of the CPU for any placement, also
# after kill -9 and --resume.
# soak: --full
set -u
. "$TESTS/cli/lib.sh"
device=threads exact=1 steps=6 parts="60 35" kills=0.7 limit=
[ "${1:-}" = --full ] && steps=20 parts="80 60 45 35" kills="0.5 1 2"
. "$TESTS/gpu/device.sh"
check_model llama bf16 0
check_model gpt2 fp32 0
check_pairs llama bf16 0
check_mixture mixtral fp32 0
more="--optimizer muon" check_placements llama bf16
check_placements mixtral fp8
