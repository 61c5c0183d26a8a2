# Real ranks: mpirun -n N hilbert train, eval and resume. One rank under mpirun equals a
# run without mpirun; mistakes end with one message.
. "$TESTS/mpi.sh"
set -eu
. "$TESTS/work.sh"

model=$TESTS/golden/models/llama
common="--model $model --data $model/tokens.npy --seq 16 --dtype fp32 --threads 1 --lr 1e-3 --schedule constant"
export XDG_CACHE_HOME=$work/cache

# train RANKS OUT OPTIONS...; 0 ranks: without mpirun
train() {
    local ranks=$1 out=$2
    shift 2
    if [ "$ranks" = 0 ]; then
        "$HILBERT" train $common --out "$work/$out" "$@" 2> "$work/$out.log"
    else
        mpi "$ranks" "$HILBERT" train $common --out "$work/$out" "$@" 2> "$work/$out.log"
    fi || { cat "$work/$out.log"; die "train on $ranks ranks: $*"; }
}

losses() { sed -n 's/.*"loss": \([0-9.e+-]*\),.*/\1/p' "$1/metrics.jsonl"; }

# same A B STEPS TOLERANCE: losses of both runs
same() {
    paste <(losses "$work/$1") <(losses "$work/$2") | awk -v n="$3" -v most="$4" '
        { d = ($1 - $2) / $2; if (d < 0) d = -d; if (d > most) exit 1; ++lines }
        END { exit lines == n ? 0 : 1 }' || die "$1 and $2 differ: $(losses "$work/$1" | tr "\n" " ") / $(losses "$work/$2" | tr "\n" " ")"
}

# One rank under mpirun: the same files.
train 0 alone --batch 12 --steps 6 --micro-batch 1 --eval-fraction 0.2 --save-every 3 --keep 9
train 1 one --batch 12 --steps 6 --micro-batch 1 --eval-fraction 0.2 --save-every 3 --keep 9
cmp "$work/alone/model.safetensors" "$work/one/model.safetensors" || die "one rank differs"
for file in master moment1 moment2; do
    cmp "$work/alone/checkpoints/step-3/$file.safetensors" \
        "$work/one/checkpoints/step-3/$file.safetensors" || die "$file of one rank differs"
done

# 2 to 4 ranks agree with one.
for ranks in 2 3 4; do
    train $ranks r$ranks --batch 12 --steps 6 --micro-batch 1 --eval-fraction 0.2 --save-every 3 --keep 9
    same r$ranks alone 6 1e-5
    grep -q "on $ranks ranks" "$work/r$ranks.log" || die "the log does not say how many ranks"
    [ "$(grep -c "loss .* -> " "$work/r$ranks.log")" = 1 ] || die "several ranks talk"
    grep -q "\"ranks\": $ranks, " "$work/r$ranks/metrics.jsonl" || die "metrics do not say ranks"
    [ "$(grep -c eval_loss "$work/r$ranks/metrics.jsonl")" = 1 ] || die "evaluated more than once"
    a=$(sed -n 's/.*eval_loss": //p' "$work/r$ranks/metrics.jsonl")
    b=$(sed -n 's/.*eval_loss": //p' "$work/alone/metrics.jsonl")
    awk -v a="${a%?}" -v b="${b%?}" 'BEGIN { d = (a - b) / b; exit d < 1e-5 && d > -1e-5 ? 0 : 1 }' ||
        die "eval loss $a of $ranks ranks, $b of one"
done

# hilbert eval: the same loss for any division of the windows.
"$HILBERT" eval --model "$work/alone" --data "$model/tokens.npy" --seq 16 --batch 3 --json > "$work/eval0"
mpi 3 "$HILBERT" eval --model "$work/alone" --data "$model/tokens.npy" --seq 16 --batch 3 --json \
    --threads 1 > "$work/eval3"
[ "$(wc -l < "$work/eval3")" = 1 ] || die "eval on 3 ranks printed $(cat "$work/eval3")"
for key in loss tokens; do
    a=$(sed "s/.*\"$key\": \([0-9.e+-]*\),.*/\1/" "$work/eval3")
    b=$(sed "s/.*\"$key\": \([0-9.e+-]*\),.*/\1/" "$work/eval0")
    awk -v a="$a" -v b="$b" 'BEGIN { d = (a - b) / b; exit d < 1e-6 && d > -1e-6 ? 0 : 1 }' ||
        die "eval: $key $a on 3 ranks, $b on one"
done

# Examples and conversations in shares: windows with padding, and sequences with few learned tokens.
for ((i = 0; i < 40; ++i)); do
    printf '{"prompt": "%0*d", "completion": "%0*d"}\n' $((1 + i * 7 % 11)) $i $((i * 5 % 17)) $((i * i))
done > "$work/examples.jsonl"
for ((i = 0; i < 12; ++i)); do
    printf '{"messages": [{"role": "user", "content": "%d"}, {"role": "assistant", "content": "%0*d"}]}\n' \
        $i $((i * 3 % 7)) $((i * i))
done > "$work/chat.jsonl"
mkdir "$work/chat"
ln -s "$model/config.json" "$model/model.safetensors" "$work/chat"
echo '{% for m in messages %}{{ m.role[0] }}{{ m.content }};{% endfor %}{% if add_generation_prompt %}a{% endif %}' \
    > "$work/chat/chat_template.jinja"
pairs="--model $work/chat --data $work/examples.jsonl:3,$work/chat.jsonl:1 --tokenizer bytes --batch 6 --steps 4 --micro-batch 1 --eval-fraction 0.2"
common=${common/--data $model\/tokens.npy/}
train 0 pairs1 $pairs
train 2 pairs2 $pairs
train 3 pairs3 $pairs
same pairs2 pairs1 4 1e-5
same pairs3 pairs1 4 1e-5
learned() { sed -n 's/.*"learned": \([0-9]*\),.*/\1/p' "$work/$1/metrics.jsonl"; }
[ "$(learned pairs1)" = "$(learned pairs3)" ] || die "ranks learn other tokens"
common="$common --data $model/tokens.npy"

# Small budgets and drives of the machine are divided by its ranks; the bits do not change.
mkdir "$work/drive"
train 2 small --batch 12 --steps 6 --micro-batch 1 --eval-fraction 0.2 --save-every 3 --keep 9 \
    --device-memory 400K --host-memory 800K --disk "$work/drive:64M"
cmp "$work/r2/model.safetensors" "$work/small/model.safetensors" || die "budgets change the bits"
[ -z "$(ls -A "$work/drive")" ] || die "something is left on the drive"
train 2 zero1 --batch 12 --steps 6 --micro-batch 1 --eval-fraction 0.2 --zero 1
cmp "$work/r2/model.safetensors" "$work/zero1/model.safetensors" || die "stage 1 differs"

# Resuming with fewer: 4 -> 2 -> 1, then the same number bit for bit.
train 4 resumed --batch 12 --steps 6 --micro-batch 1 --eval-fraction 0.2 --save-every 3 --keep 9
train 2 resumed --batch 12 --steps 9 --eval-fraction 0.2 --save-every 3 --keep 9 --resume
grep -q "computed by 4 ranks before, by 2 now" "$work/resumed.log" || die "no note about ranks"
train 0 resumed --batch 12 --steps 12 --eval-fraction 0.2 --save-every 3 --keep 9 --resume
grep -q "computed by 2 ranks before, by 1 now" "$work/resumed.log" || die "no note about ranks"
train 0 straight --batch 12 --steps 12 --micro-batch 1 --eval-fraction 0.2
same resumed straight 12 2e-5
rm -r "$work/r2/checkpoints/step-6"
echo step-3 > "$work/r2/checkpoints/latest"
train 2 r2 --batch 12 --steps 6 --micro-batch 1 --eval-fraction 0.2 --save-every 3 --keep 9 --resume
cmp "$work/r2/model.safetensors" "$work/small/model.safetensors" || die "going on changed the bits"

# Mistakes: one message, on one line, and a failure.
# refused RANKS WORDS OPTIONS...
refused() {
    local ranks=$1 words=$2
    shift 2
    if mpi "$ranks" "$HILBERT" train $common --out "$work/refused" "$@" > "$work/said" 2>&1; then
        die "accepted: $*"
    fi
    [ "$(grep -c "^hilbert: " "$work/said")" = 1 ] || die "not one message: $(cat "$work/said")"
    grep -qF -- "$words" "$work/said" || die "said $(cat "$work/said"), expected: $words"
    [ ! -e "$work/refused" ] || die "left a folder behind: $*"
}
refused 4 "--batch 10 does not divide over 4 ranks: use 8 or 12" --batch 10 --steps 1
refused 2 "--micro-batch 3: of --batch 4 each of 2 ranks computes 2; use that or less" --batch 4 --micro-batch 3
refused 2 "/nowhere" --batch 4 --eval-data /nowhere/text
refused 2 "are missing on each of 2 ranks" --batch 4 --device-memory 200K --host-memory 40K
refused 2 "there is no such folder" --batch 4 --disk "$work/nodrive"
mkdir "$work/held" && touch "$work/held/config.json"
if mpi 2 "$HILBERT" train $common --out "$work/held" --batch 4 > "$work/said" 2>&1; then die "overwrote"; fi
[ "$(grep "^hilbert: " "$work/said")" = \
    "hilbert: $work/held holds a model: choose another folder or use --overwrite (config.json is there)" ] ||
    die "said $(cat "$work/said")"
