# Refused, never silent: resuming with another model, writing into the model's own folder, training some
# experts or norms of heads alone, a loss over no tokens. An interrupted evaluation leaves no tokens.
set -u
[ -x "$HILBERT" ] || exit 77
. "$TESTS/work.sh"
model=$TESTS/golden/models/llama
train() { "$HILBERT" train --data "$model/tokens.npy" --seq 32 --batch 2 --threads 1 "$@" 2>"$work/err"; }

cp -r "$model" "$work/model"
train --model "$work/model" --out "$work/out" --steps 2 || die "$(cat "$work/err")"
sed -i 's/"rms_norm_eps": [0-9.e-]*/"rms_norm_eps": 0.25/' "$work/model/config.json"
cmp -s "$model/config.json" "$work/model/config.json" && die "the config did not change"
train --model "$work/model" --out "$work/out" --steps 4 --resume && die "went on with another model"
grep -q 'config.json' "$work/err" || die "said: $(cat "$work/err")"
# Spaces and the order of keys do not make another model.
sed 's/^  /      /' "$model/config.json" >"$work/model/config.json"
train --model "$work/model" --out "$work/out" --steps 4 --resume || die "$(cat "$work/err")"

before=$(cksum <"$work/model/model.safetensors")
train --model "$work/model/config.json" --out "$work/model" --steps 1 --overwrite && die "own folder"
[ "$before" = "$(cksum <"$work/model/model.safetensors")" ] || die "the model's weights are gone"

partly() # partly MODEL PATTERN WORDS: training some of what is one to an operation
{
    local folder=$TESTS/golden/models/$1
    "$HILBERT" train --model "$folder" --data "$folder/tokens.npy" --seq 32 --batch 2 --threads 1 --steps 1 \
        --out "$work/partly" --freeze "$2" 2>"$work/err" && die "$1 without $2"
    grep -q "train all $3 of a layer or none" "$work/err" || die "said: $(cat "$work/err")"
}
partly mixtral '*.experts.0.*' experts
partly stablelm_norms '*.norms.0.weight' 'norms of heads'

printf '{"prompt": "%s", "completion": ""}\n' aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa >"$work/empty.jsonl"
"$HILBERT" eval --model "$model" --tokenizer bytes --data "$work/empty.jsonl" --seq 8 >"$work/said" 2>"$work/err" &&
    die "a loss of nothing: $(cat "$work/said")"
grep -q 'has no token to learn' "$work/err" || die "$(cat "$work/err")"

mkdir "$work/tmp"
head -c 4000000 /dev/zero | tr '\0' 'a' >"$work/long.txt"
TMPDIR=$work/tmp "$HILBERT" eval --model "$model" --tokenizer bytes --data "$work/long.txt" --seq 32 --threads 1 \
    >"$work/said" 2>&1 &
pid=$!
until grep -q '%' "$work/said"; do kill -0 $pid || die "$(cat "$work/said")"; sleep 0.02; done
kill -INT $pid
wait $pid
[ $? = 130 ] || die "an interrupted evaluation does not end with 130"
[ -z "$(ls "$work/tmp")" ] || die "left behind: $(ls "$work/tmp")"
