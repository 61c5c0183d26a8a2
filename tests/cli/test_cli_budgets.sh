# Budgets at the command line: a run that fits by plan works; one that does not is refused with advice.
set -u
. "$TESTS/cli/lib.sh"

plan_begin
drive="--disk $work/drive"
head -c 3000 "$TESTS/cli/lib.sh" >"$work/text"
small="--model $model --tokenizer bytes --seq 32 --batch 8 --micro-batch 2"
train="train $small --data $work/text --steps 2 --overwrite --quiet --device-memory 700K"

# One state moved to disk in a plan without disk: states are loaded, saved and restored.
run 0 plan $small --json --device-memory 700K --host-memory 1M
sed '0,/"moment1": "[a-z]*"/s//"moment1": "disk"/' "$work/out" >"$work/edited.json"
run 0 $train --host-memory 1M --out "$work/free"
run 0 $train --host-memory 1M $drive --plan "$work/edited.json" --out "$work/edited"
cmp "$work/free/model.safetensors" "$work/edited/model.safetensors" || die "other weights"

# The key/value cache is part of the plan: the least that the refusal names is enough.
least()
{
    sed 's/.*at least \([0-9.]*\) KiB of device.*/\1/; s/[.].*//' "$work/err"
}
generate="generate --model $work/free --tokenizer bytes --prompt Once --max-tokens 25 --temperature 0"
run 0 $generate
cp "$work/out" "$work/expected"
run 1 $generate --device-memory 8K --host-memory 64K $drive
run 0 $generate --device-memory "$(($(least) + 1))K" --host-memory 64K $drive
cmp "$work/out" "$work/expected" || die "another text"

# An evaluation computes as many windows at once as fit into the budget.
eval="eval --model $work/free --tokenizer bytes --data $work/text --seq 32"
run 0 $eval
sed 's/, first.*//' "$work/out" >"$work/expected"
run 1 $eval --device-memory 8K --host-memory 64K $drive
run 0 $eval --device-memory "$(($(least) + 1))K" --host-memory 64K $drive
sed 's/, first.*//' "$work/out" | cmp - "$work/expected" || die "another loss"

# If a plan fits, it also fits with more memory.
fits=no
for k in $(seq 140 6 230); do
    if "$HILBERT" plan $small --device-memory ${k}K --host-memory 1M >"$work/out" 2>"$work/err"; then
        fits=yes
    elif [ $fits = yes ]; then
        die "${k}K: $(cat "$work/err")"
    else
        grep -q "give more --device-memory" "$work/err" || die "${k}K: $(cat "$work/err")"
    fi
done
[ $fits = yes ] || die "nothing fits: $(cat "$work/err")"

# The message names the budget that is too small.
fails 1 "of host memory, but it may use 8.0 KiB: give more --host-memory" \
    $generate --device-memory 70K --host-memory 8K $drive
fails 2 "it is not a folder" $train --disk "$work/text" --out "$work/x"
