# A run whose state is 20 times the device budget and 5 times the host budget ends well in a memory
# cgroup of both budgets and 64 MiB, without swap and with its page cache counted.
set -u
. "$TESTS/cli/lib.sh"
. "$TESTS/llama_config.sh"
if grep -qaE '__(asan|tsan)_init' "$HILBERT"; then
    echo "skipped: sanitizers take more memory than the run"
    exit 77
fi
device=$((8 << 20)) host=$((32 << 20)) other=$((64 << 20))
limit=$((device + host + other))

# group: creates a cgroup with that limit, of version 2 or 1.
if [ -w /sys/fs/cgroup/cgroup.procs ] && grep -qw memory /sys/fs/cgroup/cgroup.subtree_control; then
    group=/sys/fs/cgroup/hilbert-$$
    settings="memory.max=$limit memory.swap.max=0"
elif [ -w /sys/fs/cgroup/memory/cgroup.procs ]; then
    group=/sys/fs/cgroup/memory/hilbert-$$
    settings="memory.limit_in_bytes=$limit memory.memsw.limit_in_bytes=$limit memory.swappiness=0"
else
    echo "skipped: no memory cgroup can be made here"
    exit 77
fi
mkdir "$group" 2>/dev/null || { echo "skipped: cannot make $group"; exit 77; }
trap 'rmdir "$group"; rm -rf "$work"' EXIT
for setting in $settings; do
    echo "${setting#*=}" 2>/dev/null >"$group/${setting%%=*}" ||
        case $setting in
        *swap* | *memsw*) ;; # a kernel without swap accounting
        *) echo "skipped: cannot set $setting" && exit 77 ;;
        esac
done

# confined ARGUMENTS...: the program in the group.
confined()
{
    (
        echo "$BASHPID" >"$group/cgroup.procs"
        exec "$HILBERT" "$@" >"$work/out" 2>"$work/err" </dev/null
    ) || die "hilbert $* in $limit bytes: $(tail -n 3 "$work/err")" \
        "$(grep . "$group/memory.oom_control" "$group/memory.events" 2>/dev/null)"
    within "$(sed -n 's/.*peak memory \([0-9]*\).*/\1/p' "$work/err")"
}

# within MIB: the process held no more, including mapped files.
within()
{
    echo "at most $1 of $((limit >> 20)) MiB"
    [ "$1" -le $((limit >> 20)) ] || die "held $1 MiB"
}

number() { grep -o "\"$2\": *[0-9]*" "$1" | head -n 1 | grep -o '[0-9]*$'; }

llama_config 2048 384 1024 6 6 6 256 '"tie_word_embeddings": false, "bos_token_id": 1, "eos_token_id": 2' \
    >"$work/config.json"
cat "$SOURCE"/src/*/*.c >"$work/data.txt"
budgets=(--device-memory "$device" --host-memory "$host" --disk "$work")
options=(--data "$work/data.txt" --tokenizer bytes --seq 64 --batch 4 --micro-batch 2 --steps 3 --save-every 2
    --eval-fraction 0.001 --threads 2)

run 0 probe --disk "$work" --threads 2 # a plan measures no drive, and assumed speeds may choose otherwise
run 0 plan --model "$work/config.json" "${options[@]}" "${budgets[@]}" --json
cp "$work/out" "$work/plan.json"
state=0
for elements in $(grep -o '"elements": *[0-9]*' "$work/plan.json" | grep -o '[0-9]*$'); do
    state=$((state + elements * 14))
done
echo "$((state >> 20)) MiB of state"
[ "$state" -ge $((20 * device)) ] || die "only $state bytes of state"
[ "$state" -ge $((5 * host)) ] || die "only $state bytes of state"

confined train --model "$work/config.json" "${options[@]}" "${budgets[@]}" --out "$work/first"
grep device_peak "$work/first/metrics.jsonl" >"$work/steps"
[ "$(wc -l <"$work/steps")" = 3 ] || die "not 3 steps: $(cat "$work/steps")"
while read -r line; do
    echo "$line" >"$work/line"
    for tier in device host; do
        held=$(number "$work/line" "${tier}_peak")
        [ "$held" -le "${!tier}" ] || die "$tier: $held of ${!tier} bytes"
        planned=$(sed -n '/"peak"/,/}/p' "$work/plan.json" | grep -o "\"$tier\": *[0-9]*")
        [ "$held" = "${planned##* }" ] || die "$tier: $held bytes, planned ${planned##* }"
    done
done <"$work/steps"

# Default budgets follow from the group's limit; larger ones are refused.
confined train --model "$work/config.json" "${options[@]}" --disk "$work" --steps 1 \
    --out "$work/unnamed"
code=0
(
    echo "$BASHPID" >"$group/cgroup.procs"
    exec "$HILBERT" train --model "$work/config.json" "${options[@]}" --device-memory 4G \
        --out "$work/refused" >"$work/out" 2>"$work/err" </dev/null
) || code=$?
[ "$code" = 1 ] && grep -q 'the limits on this process .* leave' "$work/err" ||
    die "budgets beyond the limit: exit $code: $(cat "$work/err")"

# Weights from a folder; a checkpoint to resume from.
confined train --model "$work/first" "${options[@]}" "${budgets[@]}" --steps 2 --out "$work/second"
confined train --model "$work/first" "${options[@]}" "${budgets[@]}" --steps 3 --out "$work/second" \
    --resume

# The page cache is bypassed: every read came from the drive, although the bytes had just been written.
# Moments are not read in the first step.
if grep -q 'O_DIRECT\|page cache' "$work/err"; then
    echo "this file system has no O_DIRECT"
    exit 0
fi
(
    "$HILBERT" train --model "$work/config.json" "${options[@]}" "${budgets[@]}" --out "$work/third" \
        >"$work/out" 2>"$work/err" </dev/null || exit 1
    cat "/proc/$BASHPID/io" >"$work/io"
) || die "a third run: $(cat "$work/err")"
read=0
for bytes in $(grep -o '"disk_read_bytes": *[0-9]*' "$work/third/metrics.jsonl" | grep -o '[0-9]*$' |
    tail -n +2); do
    read=$((read + bytes))
done
from=$(sed -n 's/^read_bytes: //p' "$work/io")
echo "read $read bytes of state, $from bytes from drives"
[ "$read" -gt "$state" ] || die "read only $read bytes"
[ "$from" -ge "$read" ] || die "$read bytes were read, $from of them from the drive"
