# Budgets hold from the start: they include the probe of the machine and the tokens of a batch. A run
# with more than the machine has is refused; a plan accepts any size and writes to no disk.
# soak: --full, a batch of 4 Mi tokens
set -u
. "$TESTS/cli/lib.sh"
if grep -qaE '__(asan|tsan)_init' "$HILBERT"; then
    echo "skipped: sanitizers take memory of their own"
    exit 77
fi
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
export XDG_CACHE_HOME=$work/cache
mkdir "$work/drive"
head -c 40000 "$SOURCE/src/cli/options.c" >"$work/text"

# llama NAME HIDDEN LAYERS VOCAB INNER
llama()
{
    cat >"$work/$1.json" <<END
{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": $4, "hidden_size": $2,
 "intermediate_size": $5, "num_hidden_layers": $3, "num_attention_heads": 4,
 "num_key_value_heads": 4, "max_position_embeddings": 256, "rms_norm_eps": 1e-5,
 "hidden_act": "silu", "tie_word_embeddings": false, "bos_token_id": 0, "eos_token_id": 0}
END
}

# peak MIB ARGUMENTS: the program succeeds, and its process never holds more.
peak()
{
    local most=$1 held
    shift
    held=$(python3 - "$HILBERT" "$@" 2>"$work/err" >"$work/out" <<'END'; tail -n 1 "$work/out"
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss if code == 0 else -code)
END
    )
    [ "$held" -gt 0 ] || die "hilbert $*: $(cat "$work/err")"
    [ "$held" -le $((most << 10)) ] || die "hilbert $*: $((held >> 10)) MiB, above $most MiB"
}

# The machine and the drive are measured in 3M + 3M and 16M.
llama some 128 3 512 384
some="--model $work/some.json --seq 128 --batch 4 --device-memory 3M --host-memory 3M"
train="train $some --data $work/text --steps 1 --keep 0 --threads 2"
peak 70 $train --disk "$work/drive:16M" --out "$work/a"
[ "$(grep -c measuring "$work/err")" = 2 ] || die "not measured: $(cat "$work/err")"
# The probe of a plan stays small too: it would fail on a file of more than 64K.
rm -rf "$work/cache"
(ulimit -f 64 && peak 70 plan $some --disk "$work/drive:16M") || exit 1
grep -q "speeds: as measured here" "$work/out" || die "$(cat "$work/out")"
grep -q "^disk $work/drive: 2.00 GB/s read, 1.00 GB/s written, assumed" "$work/out" ||
    die "$(cat "$work/out")"
run 0 probe --disk "$work/drive:16M"
run 0 plan $some --disk "$work/drive:16M"
grep -q "^disk $work/drive: .*, as measured here" "$work/out" || die "$(cat "$work/out")"

# A plan uses the given sizes: neither the folders nor the memory need exist.
run 0 plan --model "$work/some.json" --device-memory 100T --host-memory 100T --disk /no/where:2T --json
python3 - "$work/out" <<'END' || die "$(cat "$work/out")"
import json, sys
plan = json.load(open(sys.argv[1]))
assert plan["budget"] == {"device": 100 << 40, "host": 100 << 40, "disk": 2 << 40}, plan["budget"]
assert plan["assumed_speeds"] == ["/no/where"], plan["assumed_speeds"]
END
fails 1 "there is no folder /no/where here: name its size, --disk /no/where:2T" \
    plan --model "$work/some.json" --disk /no/where
run 0 plan --model "$work/some.json" --gpu rtx4090
grep -q "^speeds: assumed for RTX 4090, host as measured here" "$work/out" || die "$(cat "$work/out")"
grep -qE "^budget +2[23]\.. GiB" "$work/out" || die "not the memory of an RTX 4090: $(cat "$work/out")"
grep -qE '[0-9]e[+-]?[0-9]' "$work/out" && die "an exponent: $(cat "$work/out")"
fails 2 "--gpu GTX 1 is not in the table: RTX 3080" plan --model "$work/some.json" --gpu "GTX 1"

# Runs are refused before they allocate memory or disk.
much="--device-memory 100T --host-memory 100T"
model=$TESTS/golden/models/llama
for command in "train --out $work/x --data $model/tokens.npy" "eval --data $model/tokens.npy" \
    "generate --prompt Once --tokenizer bytes"; do
    fails 1 "--device-memory 100.0 TiB and --host-memory 100.0 TiB: more than the " \
        $command --model "$model" $much
    grep -qE 'give less .*, at most [0-9.]+ [KMGT]iB in all' "$work/err" || die "$(cat "$work/err")"
    fails 1 "give less --host-memory" $command --model "$model" --host-memory 100T
done
[ ! -e "$work/x" ] || die "a folder was left"

# The budget includes the tokens of a batch, 16 bytes each: 2 MiB for 128 Ki, 64 MiB for 4 Mi.
tokens=2 batch=4096
[ "${1:-}" = --full ] && tokens=64 batch=131072
llama tiny 8 1 256 8
tiny="--model $work/tiny.json --seq 32 --batch $batch --micro-batch 2048 --device-memory 32M"
train="train $tiny --data $work/text --steps 1 --keep 0 --threads 2"
fails 1 "the tokens of a batch take $tokens.0 MiB of host memory" $train --host-memory 1M --out "$work/b"
peak $((32 + tokens + 8 + 64)) $train --host-memory $((tokens + 8))M --out "$work/b"
run 0 plan $tiny --host-memory $((tokens + 8))M
grep -qE "^tokens of the batch +- +$tokens.0 MiB" "$work/out" || die "no row: $(cat "$work/out")"
python3 - "$work/b/metrics.jsonl" $tokens <<'END' || die "$(cat "$work/b/metrics.jsonl")"
import json, sys
step, tokens = json.loads(open(sys.argv[1]).readline()), int(sys.argv[2])
assert tokens << 20 < step["host_peak"] <= tokens + 8 << 20, step["host_peak"]
END

# kto has a second batch, orpo three arrays of four.
for loss in "$((2 * tokens)).0 kto" "$((7 * tokens / 4)).[05] orpo"; do
    run 0 plan ${tiny/32M/64M} --host-memory $((2 * tokens + 8))M --adapter lora --loss "${loss#* }"
    grep -qE "^tokens of the batch +- +${loss% *} MiB" "$work/out" || die "no row: $(cat "$work/out")"
done
