# Swap files: a drive that is too small is found before step 1, runs on one path do not disturb each
# other, nothing is left behind after success, failure or kill -9, and no other user can read them.
set -u
. "$TESTS/cli/lib.sh"
model=$TESTS/golden/models/llama
mkdir "$work/swap"
options=(--model "$model" --data "$model/tokens.npy" --seq 32 --batch 4 --micro-batch 1 --lr 1e-3
    --dtype fp32 --threads 1 --device-memory 250K --host-memory 400K)

empty() { [ -z "$(ls -A "$work/swap")" ] || die "$1 left $(ls -A "$work/swap")"; }

fails 1 'of disk' train "${options[@]}" --steps 2 --disk "$work/swap:64K" --out "$work/small"
grep -q '64.0 KiB of disk' "$work/err" || die "does not say how much: $(cat "$work/err")"
grep -q 'missing' "$work/err" || die "does not say what is missing: $(cat "$work/err")"
[ ! -e "$work/small/metrics.jsonl" ] || die "a step was made"
fails 1 'there is no such folder' train "${options[@]}" --steps 2 --disk "$work/none" \
    --out "$work/small"
empty "a refused run"

run 0 train "${options[@]}" --steps 20 --disk "$work/swap" --out "$work/alone"
grep -q '"disk_read_bytes": [1-9]' "$work/alone/metrics.jsonl" || die "the disk was not used"
empty "a run"

# Three runs at once; the last one does not end by itself.
for run in a b; do
    "$HILBERT" train "${options[@]}" --steps 20 --disk "$work/swap" --out "$work/$run" \
        >"$work/out-$run" 2>&1 </dev/null &
    eval "$run=$!"
done
"$HILBERT" train "${options[@]}" --steps 1000000 --disk "$work/swap" --out "$work/endless" \
    >"$work/out-endless" 2>&1 </dev/null &
endless=$!
for ((tries = 0; tries < 600; ++tries)); do
    grep -q '"step": 3,' "$work/endless/metrics.jsonl" 2>/dev/null && break
    sleep 0.1
done
seen=0
for entry in "/proc/$endless/fd"/*; do
    case $(readlink "$entry") in
    "$work/swap/"*)
        seen=$((seen + 1))
        mode=$(stat -L -c '%a %h' "$entry")
        [ "$mode" = "600 0" ] || die "a swap file has mode and links $mode"
        ;;
    esac
done
[ "$seen" -ge 1 ] || die "no swap file is open: $(ls -l "/proc/$endless/fd")"
empty "while three run, the folder's listing"
kill -9 "$endless"
wait "$endless" 2>/dev/null
# shellcheck disable=SC2154
wait "$a" || die "one of two: $(cat "$work/out-a")"
# shellcheck disable=SC2154
wait "$b" || die "one of two: $(cat "$work/out-b")"
empty "kill -9"
for run in a b; do
    cmp "$work/alone/model.safetensors" "$work/$run/model.safetensors" || die "run $run differs"
done
