# lib.sh - functions for the tests of the command line; HILBERT is the program.
[ -x "$HILBERT" ] || { echo "no program at '$HILBERT'"; exit 77; }
. "$TESTS/work.sh"
commands="train eval generate chat tokenize inspect merge quantize export verify bench probe plan report top"

# plan_begin: speeds are measured once in the test; sets $model, and $work/drive is a folder for a disk.
plan_begin()
{
    export XDG_CACHE_HOME=$work/cache
    model=$TESTS/golden/models/llama
    mkdir "$work/drive"
}

# two_cores: $work/two_cores.json describes a machine, whose speeds are the same in every test.
two_cores()
{
    cat >"$work/two_cores.json" <<'END'
{"name": "two cores", "cpu": {"fp32_tflops": 0.25, "bf16_tflops": 0.5, "attention_tflops": 0.1,
  "memory_gb_s": 40, "call_us": 2}, "ram_gib": 8, "ram_gb_s": 60,
 "drives": {"count": 1, "gb": 1, "read_gb_s": 2, "write_gb_s": 1}}
END
}

# run CODE ARGUMENTS...: the program exits with CODE; its output is in $work/out and $work/err.
run()
{
    local code=$1 got=0
    shift
    "$HILBERT" "$@" >"$work/out" 2>"$work/err" </dev/null || got=$?
    [ "$got" = "$code" ] ||
        die "hilbert $* exited with $got, expected $code: $(head -c 400 "$work/err")"
}

# fails CODE WORDS ARGUMENTS...: exits with CODE, says one line with WORDS on stderr, nothing else.
fails()
{
    local code=$1 words=$2
    shift 2
    run "$code" "$@"
    [ ! -s "$work/out" ] || die "hilbert $* wrote to stdout"
    [ "$(wc -l <"$work/err")" = 1 ] || die "hilbert $* said not one line: $(cat "$work/err")"
    grep -qF -- "$words" "$work/err" || die "hilbert $* said: $(cat "$work/err"), expected: $words"
    grep -q '^hilbert: ' "$work/err" || die "hilbert $* does not begin with its name"
}

# number KEY...: a value in the JSON object in $work/out, by path.
number()
{
    python3 - "$work/out" "$@" <<'END' || die "no $* in the object"
import json, sys
value = json.load(open(sys.argv[1]))
for key in sys.argv[2:]:
    value = value[int(key) if isinstance(value, list) else key]
print(value)
END
}
# less A B WHAT: A <= B
less() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a + 0 <= b + 0) }' || die "$3: $1 > $2"; }
