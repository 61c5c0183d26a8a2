# Ranks that were started with different options, models or data, and ranks that fail before MPI
# connects them: the job ends at once with one line that names the rank and what differs.
set -euo pipefail
. "$TESTS/cli/lib.sh"
. "$TESTS/mpi.sh"
. "$TESTS/rank_args.sh"
export XDG_CACHE_HOME=$work/cache

model=$TESTS/golden/models/llama3
base=(--model "$model" --data "$model/tokens.npy" --seq 16 --batch 6 --micro-batch 1 --steps 4
    --dtype fp32 --lr 1e-3 --threads 1 --save-every 2 --keep 9)

# ends CODE RANKS WORDS: the job ends within ten seconds, with one line that has WORDS.
ends()
{
    local code=$1 ranks=$2 words=$3 got=0 began=$SECONDS
    MPI_SECONDS=60 mpi "$ranks" "$work/rank" >"$work/out" 2>"$work/err" || got=$?
    [ "$got" = "$code" ] || die "exit code $got, expected $code: $(cat "$work/err")"
    [ $((SECONDS - began)) -le 10 ] || die "$((SECONDS - began)) s until: $words"
    [ "$(grep -c '^hilbert: ' "$work/err")" = 1 ] || die "not one line: $(cat "$work/err")"
    grep -q "^hilbert: $words" "$work/err" || die "said: $(cat "$work/err"), expected: $words"
    [ ! -e "$work/run" ] || die "$words: a folder is left"
}

here="on $(hostname): "
train=(train "${base[@]}" --out "$work/run")

# Options; test_rank_options.c covers each one.
args all "${train[@]}"
args 1 "${train[@]}" --save-every 3
ends 2 2 "rank 1 $here--save-every 3 here, but 2 on rank 0: start all ranks with the same options"
args 1 eval --model "$model" --data "$model/tokens.npy"
ends 2 2 "rank 1 ${here}the command eval here, but train on rank 0: "

# Models.
cp -r "$model" "$work/other"
size=$(stat -c %s "$work/other/model.safetensors")
printf '\x01' | dd of="$work/other/model.safetensors" bs=1 seek=$((size - 3)) conv=notrunc status=none
cmp -s "$model/model.safetensors" "$work/other/model.safetensors" && die "the weights are the same"
args all "${train[@]}"
args 1 "${train[@]}" --model "$work/other"
ends 2 2 "rank 1 ${here}the tensor .* of checksum .* here, but .* on rank 0: $work/other must be the same model"
args all eval --model "$work/other" --data "$model/tokens.npy" --seq 16
args 1 eval --model "$model" --data "$model/tokens.npy" --seq 16
ends 2 2 "rank 1 ${here}the tensor .* of checksum .* here, but .* on rank 0: "
args all "${train[@]}"
args 1 "${train[@]}" --model "$model/config.json"
ends 2 2 "rank 1 ${here}weights from the seed here, but files on rank 0: "
cp "$model/model.safetensors" "$work/other/"
sed 's/"rms_norm_eps": [0-9.e-]*/"rms_norm_eps": 0.25/' "$model/config.json" >"$work/other/config.json"
args 1 "${train[@]}" --model "$work/other"
ends 2 2 "rank 1 ${here}a config.json of checksum "
args 1 "${train[@]}" --model "$work/missing"
ends 1 2 "rank 1 $here$work/missing: no such model folder"
args 1 "${train[@]}" --out "$work/elsewhere"
ends 2 2 "rank 1 $here$work/elsewhere on $(hostname) is not the folder that rank 0 writes to"

# Before MPI is up.
args 1 "${train[@]}" --no-such-option
ends 2 2 "rank 1 ${here}unknown option --no-such-option"
args 1 "${train[@]}" --config "$work/missing.json"
ends 1 2 "rank 1 ${here}cannot open $work/missing.json"
args all "${train[@]}"
args 2 trian
ends 2 3 "rank 2 ${here}unknown command 'trian'; did you mean train?"
args all "${train[@]}"
args 0 "${train[@]}" --lr fast
ends 2 2 "rank 0 $here--lr: 'fast' is not a number"
mkdir "$work/bin"
cp "$HILBERT" "$work/bin/hilbert" # without the module
args all "${train[@]}"
args 1 "${train[@]}"
before 1 "program=$work/bin/hilbert"
ends 1 2 "rank 1: 2 ranks were started, but this hilbert was built without MPI"
args all "${train[@]}"
args 1 "${train[@]}" --no-such-option
before 1 "program=$work/bin/hilbert"
ends 2 2 "rank 1: unknown option --no-such-option"
args all "${train[@]}"

# Options that may differ between ranks change no bit.
mpi 2 "$work/rank" 2>"$work/err" || die "two ranks: $(cat "$work/err")"
cp "$work/run/model.safetensors" "$work/"
rm -r "$work/run"
cp -r "$model" "$work/copy"
echo '{"threads": 2, "quiet": true}' >"$work/own.json"
args all "${train[@]}" --device-memory 3M
args 1 train "${base[@]:2}" --model "$work/copy" --out "$work/./run" --config "$work/own.json" \
    --quiet --device cpu --device-memory 2M --host-memory 64M --io threads --trace "$work/trace"
mpi 2 "$work/rank" 2>"$work/err" || die "two different ranks: $(cat "$work/err")"
cmp "$work/model.safetensors" "$work/run/model.safetensors" || die "other bits"
