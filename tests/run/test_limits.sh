# The plan respects limits on a process's memory (ulimit -v), or one line says what to do; a run that
# cannot begin leaves nothing behind.
set -u
. "$TESTS/cli/lib.sh"
if grep -qaE '__(asan|tsan)_init' "$HILBERT"; then
    echo "skipped: sanitizers take more address space than there is"
    exit 77
fi
model=$TESTS/golden/models/qwen3
train=(train --model "$model" --data "$model/tokens.npy" --seq 16 --batch 4 --steps 2 --threads 2
    --out "$work/run")

# Room is left: the run is planned into it.
room=$(((400 + 10 * $(nproc)) << 10))
(ulimit -v $room && run 0 "${train[@]}") || exit 1
[ -s "$work/run/model.safetensors" ] || die "no model"
rm -rf "$work/run"

# More is asked for than the limit allows.
(ulimit -v $room && fails 1 "give less --device-memory" "${train[@]}" --device-memory 2G) || exit 1
[ ! -e "$work/run" ] || die "left: $(ls "$work/run")"

# Nothing fits.
for limit in 60000 30000; do
    (ulimit -v $limit && run 1 "${train[@]}") || exit 1
    [ "$(wc -l <"$work/err")" = 1 ] || die "not one line: $(cat "$work/err")"
    grep -q '^hilbert: ' "$work/err" || die "limit $limit: $(cat "$work/err")"
    [ ! -e "$work/run" ] || die "left: $(ls "$work/run")"
done
