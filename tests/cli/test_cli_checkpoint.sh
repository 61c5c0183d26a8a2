# hilbert export, verify and inspect on the checkpoints of a run.
set -u
. "$TESTS/cli/lib.sh"
out=$work/run

flip() # flip FILE OFFSET: changes the byte there
{
    local byte
    byte=$(od -An -tu1 -j "$2" -N 1 "$1")
    printf "\\$(printf %o $(((byte + 1) % 256)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

# GPT-2's files store matrices transposed, llama's do not.
for name in gpt2_untied llama; do
    model=$TESTS/golden/models/$name
    rm -rf "$out" "$work"/exported*
    run 0 train --model "$model" --data "$model/tokens.npy" --out "$out" --steps 4 --save-every 2 \
        --seq 8 --batch 2 --dtype bf16 --save-dtype bf16
    cp "$out/checkpoints/step-4/master.safetensors" "$work/master"
    # The export of the last checkpoint equals the folder at the end of the run.
    for checkpoint in "$out" "$out/checkpoints" "$out/checkpoints/step-4"; do
        rm -rf "$work/exported"
        run 0 export "$checkpoint" "$work/exported" --dtype bf16
        grep -q "^$work/exported: step 4, .* tensors in bf16, " "$work/out" || die "$(cat "$work/out")"
        for file in model.safetensors config.json generation_config.json; do
            cmp "$out/$file" "$work/exported/$file" || die "$name: $file of $checkpoint differs"
        done
    done
    run 0 export "$out" "$work/exported-own"
    run 0 export "$out/checkpoints/step-2" "$work/exported-2" --dtype bf16
    ! cmp -s "$work/exported-2/model.safetensors" "$out/model.safetensors" || die "step 2 is step 4"
    # fp32 shards hold the same tensors as one file.
    run 0 export "$out" "$work/exported-32" --dtype fp32
    run 0 export "$out" "$work/exported-shards" --dtype fp32 --shard-size 8K
    [ -e "$work/exported-shards/model-00002-of-"*.safetensors ] || die "no shards"
    run 0 inspect "$work/exported-32"
    sort "$work/out" >"$work/whole"
    run 0 inspect "$work/exported-shards"
    cmp <(sort "$work/out") "$work/whole" || die "$name: the shards hold other tensors"
    run 0 eval --model "$work/exported-32" --data "$model/tokens.npy" --seq 8
    cut -d, -f1 "$work/out" >"$work/whole"
    run 0 eval --model "$work/exported-shards" --data "$model/tokens.npy" --seq 8
    cmp <(cut -d, -f1 "$work/out") "$work/whole" || die "$name: the shards hold other weights"
    cmp "$work/master" "$out/checkpoints/step-4/master.safetensors" || die "an export changed it"
done

fails 2 "holds a model or a run: choose another folder or use --overwrite" export "$out" "$work/exported"
run 0 export "$out" "$work/exported" --overwrite --dtype fp16
fails 2 "is the checkpoint itself" export "$out" "$out/checkpoints/step-4" --overwrite
fails 1 "no such folder" export "$work/none" "$work/model"
fails 1 "holds no checkpoint" export "$model" "$work/model"
fails 1 "no such folder" verify "$work/none"
fails 2 "export needs a checkpoint and a folder or file for the model" export
fails 2 "export needs a folder or file for the model" export "$out"
[ ! -e "$work/model" ] || die "a failed export left a folder"

run 0 verify "$out"
[ "$(cut -d: -f1,2 "$work/out")" = "$out/checkpoints/step-4: whole
$out/checkpoints/step-2: whole" ] || die "verify says $(cat "$work/out")"
run 0 verify "$out/checkpoints/step-2"
[ "$(wc -l <"$work/out")" = 1 ] || die "verify says $(cat "$work/out")"
run 0 verify "$out" --json
grep -q '^{"checkpoints": \[{"path":"[^"]*","step":4,"files":6,' "$work/out" || die "$(cat "$work/out")"

run 0 inspect "$out/checkpoints"
cp "$work/out" "$work/newest"
run 0 inspect "$out/checkpoints/step-4"
cmp "$work/out" "$work/newest" || die "inspect of the folder is not of the newest"
mkdir "$work/begun" # a run that has no model yet
ln -s "$out/checkpoints" "$work/begun/checkpoints"
run 0 inspect "$work/begun"
cmp "$work/out" "$work/newest" || die "inspect of a run is not of the newest checkpoint"
grep -q '^step 4, 64 tokens, 1 rank' "$work/out" || die "$(cat "$work/out")"
grep -q '^  --optimizer "adamw"' "$work/out" || die "$(cat "$work/out")"
grep -q '^config.json: ' "$work/out" || die "$(cat "$work/out")"
run 0 inspect "$out/checkpoints/step-4" --json
grep -q '"step":4,"tokens":64,"ranks":1' "$work/out" || die "$(cat "$work/out")"

# Damage: the message names file and offset; the export uses the checkpoint before.
flip "$out/checkpoints/step-4/moment2.safetensors" 5000
run 1 verify "$out"
[ "$(grep -c 'step-4/moment2.safetensors is damaged: the checksum of bytes ' "$work/err")" = 1 ] || die "$(cat "$work/err")"
[ "$(cut -d: -f1,2 "$work/out")" = "$out/checkpoints/step-2: whole" ] || die "not told what is whole"
run 1 verify "$out" --json
grep -q '"step":2,.*"damaged": \["[^"]*step-4/moment2.safetensors is damaged' "$work/out" || die "$(cat "$work/out")"
run 0 verify "$out/checkpoints/step-2"
run 0 export "$out" "$work/exported" --overwrite # an export needs no moments
grep -q ': step 4,' "$work/out" || die "$(cat "$work/out")"
flip "$out/checkpoints/step-4/master.safetensors" 5000
run 0 export "$out" "$work/exported" --overwrite
grep -q ': step 2,' "$work/out" || die "$(cat "$work/out")"
grep -q 'step-4/master.safetensors is damaged' "$work/err" || die "$(cat "$work/err")"
fails 1 "step-4/master.safetensors is damaged" export "$out/checkpoints/step-4" "$work/model"
flip "$out/checkpoints/latest" 5
run 1 verify "$out"
grep -q "^hilbert: .*checkpoints/latest is damaged" "$work/err" || die "$(cat "$work/err")"
grep -q "step-4/master.safetensors is damaged" "$work/err" || die "$(cat "$work/err")"
