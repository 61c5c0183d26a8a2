# kill -9 at any moment, then --resume: the same bits as a run that nobody disturbed.
# soak: --full
set -u
. "$TESTS/cli/lib.sh"
kills=10
[ "${1:-}" != --full ] || kills=200
RANDOM=20240607
model=$TESTS/golden/models/qwen3
options=(--model "$model" --data "$model/tokens.npy" --eval-fraction 0.3 --eval-every 4 --seq 16
    --batch 2 --steps 24 --save-every 1 --keep 1 --lr 1e-3 --threads 1)

# numbers FOLDER: metrics without times
numbers() { sed 's/, "seconds".*//' "$1/metrics.jsonl"; }

# same: $work/run is what nobody disturbed
same()
{
    cmp -s "$work/model.safetensors" "$work/run/model.safetensors" || die "other weights: $1"
    numbers "$work/run" | cmp -s - "$work/numbers" ||
        die "other metrics: $1: $(numbers "$work/run" | diff - "$work/numbers")"
    [ -z "$(find "$work/run" -name '*tmp*')" ] || die "left: $(find "$work/run" -name '*tmp*')"
    [ "$(ls "$work/run/checkpoints")" = "latest
step-24" ] || die "checkpoints: $(ls "$work/run/checkpoints")"
}

began=$(date +%s%N)
run 0 train "${options[@]}" --out "$work/run"
took=$((($(date +%s%N) - began) / 1000000))
cp "$work/run/model.safetensors" "$work/"
numbers "$work/run" >"$work/numbers"
rm -rf "$work/run"

finished=0
for ((kill = 0; kill < kills; ++kill)); do
    pause=$(((RANDOM * 32768 + RANDOM) % (took * 3 / 4 + 1)))
    "$HILBERT" train "${options[@]}" --out "$work/run" --resume 2>"$work/err" &
    pid=$!
    sleep "$(printf '%d.%03d' $((pause / 1000)) $((pause % 1000)))"
    kill -9 "$pid" 2>/dev/null
    code=0
    wait "$pid" 2>/dev/null || code=$?
    grep -q 'damaged\|hilbert:' "$work/err" && die "after a kill: $(cat "$work/err")"
    latest=$work/run/checkpoints/latest
    [ ! -e "$latest" ] || [ -s "$work/run/checkpoints/$(head -n 1 "$latest")/manifest.json" ] ||
        die "latest names $(head -n 1 "$latest"), but there is $(ls "$work/run/checkpoints")"
    [ "$code" = 0 ] || continue
    same "after $kill kills"
    finished=$((finished + 1))
    rm -rf "$work/run"
done
run 0 train "${options[@]}" --out "$work/run" --resume
same "at the end"
echo "$kills kills, $finished runs ended in between"
