# Training on the emulated GPU: the CPU's losses within rounding, and the same bits for any placement
# of states, whether streams do their work as late as they may or at once.
set -u
. "$TESTS/cli/lib.sh"
HILBERT=$BUILD/emulated/hilbert
[ -x "$HILBERT" ] || { echo "skipped: built without the emulated GPU"; exit 77; }
export LD_LIBRARY_PATH=$BUILD/emulated
device=cuda exact=0 steps=2 parts=60 kills='' limit='--device-memory 64M'
. "$TESTS/gpu/device.sh"

# check MODEL DTYPE LIMIT OPTIONS...
check()
{
    more=${*:4}
    train "$1" cpu --dtype "$2" --device cpu $more
    check_placements "$1" "$2"
    near cpu roomy "$3"
    HIL_EMULATED_STREAMS=early train "$1" early --dtype "$2" --device cuda $limit $more
    same roomy early
    echo "$1 $2: ok"
}

check llama bf16 0.01
check llama fp8 0.01
check gpt2 fp32 0.001
check cohere fp32 0.001
check llama fp32 0.001 --optimizer muon
check qwen3_moe bf16 0.05 # a token near a tie of two experts may go to the other one
check gpt_oss bf16 0.05 --router-z-loss 0.1
