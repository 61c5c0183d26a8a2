# Ranks on the test device (threads) give the bits of as many ranks on the CPU, for any placement:
# one device that ranks share, or one for each rank with connections that bypass the host.
# shellcheck disable=SC2086
. "$TESTS/mpi.sh"
set -eu
. "$TESTS/work.sh"

model=$TESTS/golden/models/llama
common="--model $model --data $model/tokens.npy --seq 16 --threads 1 --lr 1e-3 --schedule constant
    --batch 12 --micro-batch 2 --steps 4 --eval-fraction 0.2"
unset XDG_CACHE_HOME
measureless="env -u HOME $HILBERT" # speeds are assumed where they cannot be remembered
mkdir "$work/drive"

# train RANKS OUT OPTIONS...
train() {
    local ranks=$1 out=$2
    shift 2
    mpi "$ranks" $measureless train $common --out "$work/$out" "$@" 2> "$work/$out.log" ||
        die "train on $ranks ranks: $*: $(cat "$work/$out.log")"
}

# values OUT KEY
values() { grep -o "\"$2\": [0-9.e+-]*" "$work/$1/metrics.jsonl" | cut -d ' ' -f 2; }

# same RANKS DTYPE NAME OPTIONS...: on $device with these options, as on the CPU
device=threads
same() {
    local ranks=$1 dtype=$2 name=$3$1$2 cpu=cpu$1$2
    shift 3
    train "$ranks" "$name" --dtype "$dtype" --device $device "$@"
    cmp "$work/$cpu/model.safetensors" "$work/$name/model.safetensors" || die "$name is not $cpu"
    for key in loss grad_norm eval_loss; do
        [ "$(values "$cpu" $key)" = "$(values "$name" $key)" ] || die "$key of $name is not $cpu's"
    done
}

for ranks in 1 2 3; do
    train $ranks cpu${ranks}bf16 --dtype bf16 --device cpu
    [ $ranks = 1 ] || same $ranks bf16 roomy
    [ $ranks = 3 ] || same $ranks bf16 host --device-memory 550K --host-memory 64M
done
train 2 cpu2fp32 --dtype fp32 --device cpu
same 2 fp32 disk --device-memory 800K --host-memory 500K --disk "$work/drive:64M"
device=threads:each
same 3 bf16 direct
same 2 fp32 direct --device-memory 800K --host-memory 500K --disk "$work/drive:64M"
device=threads
[ "$(values host2bf16 to_device_bytes | tail -n 1)" -gt 0 ] || die "nothing was ever moved"
[ "$(values disk2fp32 disk_read_bytes | tail -n 1)" -gt 0 ] || die "nothing was ever read"
for run in host2bf16:563200 disk2fp32:819200 direct2fp32:819200; do
    [ "$(values ${run%:*} device_peak | sort -n | tail -n 1)" -le ${run#*:} ] ||
        die "${run%:*}: more device memory than allowed"
done
grep -q "threads with .* of it free, shared by 3 ranks; " "$work/roomy3bf16.log" ||
    die "nobody says that ranks share a device: $(cat "$work/roomy3bf16.log")"
grep -q "shared by" "$work/direct3bf16.log" && die "a device of its own is shared"

# Between connected devices an exchange takes no host memory.
peak() { sed -n 's/^plan for each of .* host \([0-9.]*\) KiB.*/\1/p' "$work/$1.log"; }
awk "BEGIN { exit !($(peak direct3bf16) < $(peak roomy3bf16)) }" ||
    die "host peaks: $(peak direct3bf16) KiB connected, $(peak roomy3bf16) KiB through the host"

# eval divides its windows among the ranks and prints the same loss.
for device in cpu threads; do
    mpi 2 $measureless eval --model "$work/cpu2fp32" --data "$model/tokens.npy" --seq 16 --batch 4 \
        --json --threads 1 --device $device > "$work/eval.$device"
done
a=$(sed 's/.*"loss": \([0-9.e+-]*\),.*/\1/' "$work/eval.cpu")
[ "$a" = "$(sed 's/.*"loss": \([0-9.e+-]*\),.*/\1/' "$work/eval.threads")" ] || die "eval differs"

# By default each rank gets its part of the device.
room() {
    $measureless plan --model "$model" --seq 16 --batch 12 --device threads --threads 1 --json "$@" |
        sed -n '/"budget"/,/}/s/.*"device": \([0-9]*\).*/\1/p'
}
one=$(room) four=$(room --ranks 4)
[ "$four" -gt $((one / 5)) ] && [ "$four" -lt $((one / 3)) ] ||
    die "four ranks get $four each, one gets $one"
