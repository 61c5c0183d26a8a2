# shellcheck disable=SC2154
# models.sh - for tests of every golden model on a GPU: losses of two steps in fp32 are the CPU's within
# rounding, and so is the loss that eval computes then. Needs cli/lib.sh. `jobs` models at a time.

# compare LIMIT: the numbers in the files cpu and cuda, line by line, are losses that differ by at most LIMIT.
compare()
{
    paste "$work/cpu" "$work/cuda" | awk -v limit="$1" '
        { d = $1 - $2; if (NF != 2 || !($1 > 0) || !($2 > 0) || d > limit || d < -limit) exit 1 }
        END { if (NR == 0) exit 1 }'
}

# losses DEVICE MODEL DATA
losses()
{
    run 0 train --model "$2" --data "$3" --seq 32 --batch 4 --micro-batch 4 --steps 2 --lr 1e-3 \
        --schedule constant --dtype fp32 --device "$1" --device-memory 64M --threads 2 --quiet \
        --out "$work/out-$1" --overwrite
    grep -o '"loss": [0-9.]*' "$work/out-$1/metrics.jsonl" | cut -d ' ' -f 2
}

# check_golden MODEL: in a folder of its own
check_golden()
{
    local model=$1 data=$1/tokens.npy device
    work=$work/$1
    mkdir "$work"
    [ -f "$data" ] || data=gemma3/tokens.npy # with fewer ids than any vocabulary
    losses cpu "$model" "$data" >"$work/cpu"
    losses cuda "$model" "$data" >"$work/cuda"
    [ "$(wc -l <"$work/cuda")" = 2 ] || die "$model: $(cat "$work/err")"
    compare 1e-5 ||
        die "$model: $(paste "$work/cpu" "$work/cuda")"
    for device in cpu cuda; do
        run 0 eval --model "$work/out-$device" --data "$data" --seq 24 --dtype fp32 --device "$device" \
            --device-memory 64M --json
        number loss >"$work/$device"
    done
    compare 1e-4 ||
        die "$model, eval: $(paste "$work/cpu" "$work/cuda")"
    rm -r "$work"
    echo "$model: ok"
}

# check_goldens FOLDER...: all of them, by their last names; fails after the last one if one failed.
check_goldens()
{
    local failed=0 running=0
    cd "$TESTS/golden/models" || exit 1
    for model; do
        model=${model%/}
        (check_golden "${model##*/}") &
        running=$((running + 1))
        [ "$running" -lt "$jobs" ] || { wait -n || failed=1; running=$((running - 1)); }
    done
    while [ "$running" -gt 0 ]; do
        wait -n || failed=1
        running=$((running - 1))
    done
    return "$failed"
}
