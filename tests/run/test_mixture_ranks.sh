# For each of one, two and three ranks, every placement of a mixture's experts gives the same bits: the
# losses and the saved model of a run with everything on the device. So does a model without experts, and one whose
# products are in 8 bits; so do experts beside state spaces, the delta rule and attention in chunks. Two mixtures
# also have weights of experts on disk.
# Without --full each model has one of the placements for each number of ranks, the last three for one number.
# soak: --full
# shellcheck disable=SC2086
. "$TESTS/mpi.sh"
set -eu
. "$TESTS/work.sh"

full=${1:-}
common="--seq 16 --threads 1 --lr 1e-3 --schedule constant --batch 6 --micro-batch 2 --steps 3
    --dtype bf16 --device cpu"
mkdir "$work/drive"
places=("--device-memory 450K --host-memory 64M"
    "--device-memory 640K --host-memory 500K --disk $work/drive:64M"
    "--device-memory 450K --host-memory 500K --disk $work/drive:64M")

# train RANKS MODEL OUT OPTIONS...
train() {
    local ranks=$1 model=$TESTS/golden/models/$2 out=$3
    shift 3
    rm -rf "${work:?}/$out"
    mpi "$ranks" env -u HOME -u XDG_CACHE_HOME "$HILBERT" train $common --model "$model" \
        --data "$model/tokens.npy" --out "$work/$out" "$@" 2> "$work/log" ||
        die "$model with $ranks ranks, $*: $(cat "$work/log")"
}

# Budgets of each rank in KiB: device and host, with weights of experts in RAM and on disk.
declare -A tight=([mixtral]="280 180" [deepseek_v3]="330 180")

# The options for these budgets; fails unless the plan has weights of experts on disk.
tight() { # tight RANKS MODEL
    local budget options
    read -ra budget <<< "${tight[$2]}"
    options="--device-memory ${budget[0]}K --host-memory $((budget[1] * $1))K --disk $work/drive:64M"
    "$HILBERT" plan $common --model "$TESTS/golden/models/$2" --ranks "$1" $options --json > "$work/plan" 2> "$work/log" ||
        die "no plan for $2 with $1 ranks, $options: $(cat "$work/log")"
    tr -d '\n' < "$work/plan" | tr '{' '\n' | grep 'experts' | grep -q '"weight": *"disk"' ||
        die "$2 with $1 ranks, $options: no weight of an expert is on disk"
    echo "$options"
}

losses() { grep -oE '"(loss|aux_loss|grad_norm)": [0-9.e+-]*' "$work/$1/metrics.jsonl"; }

number=0
for ranks in 1 2 3; do
    recent=(granitemoehybrid qwen3_next llama4)
    [ "$full" = --full ] || recent=("${recent[ranks - 1]}")
    for case in llama mixtral granitemoe deepseek_v3 "mixtral --dtype fp8" "${recent[@]}"; do
        read -r model more <<< "$case"
        train $ranks $model all $more
        chosen=("${places[@]}")
        [ "$full" = --full ] || chosen=("${places[(number + ranks) % 3]}")
        if [ -n "${tight[$case]:-}" ]; then
            disk=$(tight $ranks $model) || exit 1
            chosen+=("$disk")
        fi
        for place in "${chosen[@]}"; do
            train $ranks $model placed $place $more
            cmp "$work/all/model.safetensors" "$work/placed/model.safetensors" ||
                die "$case with $ranks ranks, $place: other weights"
            [ "$(losses all)" = "$(losses placed)" ] ||
                die "$case with $ranks ranks, $place: other losses"
        done
        number=$((number + 1))
    done
done
exit 0
