# Samples of text while a run trains: they change no bit of it, also after --resume and on two ranks, keep to the
# budgets, and are in the metrics, the report (escaped) and the terminal.
set -u
. "$TESTS/cli/lib.sh"
command -v python3 >/dev/null || { echo "no python3"; exit 77; }

cat "$SOURCE"/src/cli/*.c >"$work/data.txt"
job="train --model $TESTS/golden/models/llama --data $work/data.txt --tokenizer bytes --seq 16 --batch 2 --threads 1
    --schedule constant --disk $work:64M"
budgets="--device-memory 400K --host-memory 200K"
prompt='int <script>alert(1)</script>'
sampled() { run 0 $job $budgets --sample-every 4 --sample-prompt "$prompt" "$@"; }
same() { cmp "$work/$1/model.safetensors" "$work/$2/model.safetensors" || die "samples change the weights of $2"; }

# samples OUT: the steps that have one and the prompts, and checks what each is.
samples()
{
    python3 - "$work/$1/metrics.jsonl" <<'END' || die "the samples of $1 are not as they should be"
import json, sys
lines = [line for line in map(json.loads, open(sys.argv[1], encoding="utf-8")) if "sample" in line]
for line in lines:
    assert 0 < len(line["sample"]) <= 64 and "\0" not in line["sample"] and line["sample_seconds"] > 0, line
print([line["step"] for line in lines], sorted({line["sample_prompt"] for line in lines}))
END
}

run 0 $job $budgets --steps 12 --out "$work/plain"
sampled --steps 12 --out "$work/a"
grep -q "^step 8: sample: int <script>" "$work/err" || die "the terminal shows no sample: $(cat "$work/err")"
! grep -q '[[:cntrl:]]' "$work/err" || die "the terminal is given what it would obey"
same plain a
[ "$(samples a)" = "[4, 8, 12] ['$prompt']" ] || die "the samples of a are $(samples a)"
grep -qF '\u003cscript>alert(1)\u003c/script>' "$work/a/report.html" || die "the page has no sample"
! grep -qF '<script>alert' "$work/a/report.html" || die "a prompt is markup in the page"

# The same samples again after a resume, none twice; another prompt from there on is no other run.
sampled --steps 6 --save-every 6 --out "$work/b"
sampled --steps 12 --resume --out "$work/b"
same plain b
python3 - "$work/a/metrics.jsonl" "$work/b/metrics.jsonl" <<'END' || die "a resumed run has other samples"
import json, sys
a, b = ([(l["step"], l["sample"]) for l in map(json.loads, open(path)) if "sample" in l] for path in sys.argv[1:])
assert a == b, (a, b)
END

# Keys and values that need more memory than the tensors of a step are planned for.
. "$TESTS/llama_config.sh"
llama_config 257 32 64 24 4 4 512 '"rope_theta": 10000.0, "tie_word_embeddings": true' >"$work/config.json"
deep="train --model $work/config.json --data $work/data.txt --seq 4 --batch 1 --threads 1 --steps 2 --keep 0 --disk $work:64M"
long=$(head -c 300 "$work/data.txt")
run 0 $deep --device-memory 1700K --host-memory 400K --out "$work/c" --sample-every 1 --sample-prompt "$long"
samples c >/dev/null
run 1 $deep --device-memory 800K --host-memory 400K --out "$work/d" --sample-every 1 --sample-prompt "$long"
grep -q 'budget\|memory' "$work/err" || die "a budget that is too small is not named: $(cat "$work/err")"
run 0 $deep --device-memory 800K --host-memory 400K --out "$work/e"

if [ -f "$BUILD/hilbert_mpi.so" ] && command -v mpirun >/dev/null; then
    . "$TESTS/mpi.sh"
    two() { mpi 2 "$HILBERT" $job --device cpu --device-memory 400K --host-memory 400K --steps 4 "$@" >"$work/out" 2>"$work/err" ||
        die "two ranks fail: $(cat "$work/err")"; }
    two --out "$work/f"
    two --out "$work/g" --sample-every 2 --sample-prompt "$prompt"
    same f g
    [ "$(samples g)" = "[2, 4] ['$prompt']" ] || die "the samples of two ranks are $(samples g)"
fi

fails 2 '--sample-prompt needs --sample-every N' $job --steps 1 --out "$work/x" --sample-prompt a
fails 2 'positions' $deep --out "$work/x" --sample-every 1 --sample-prompt "$(head -c 600 "$work/data.txt")"
