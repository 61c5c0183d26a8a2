# Wrong usage: exit code 2 and one line that says what is wrong and suggests a correction.
set -u
. "$TESTS/cli/lib.sh"

run 0 --version
grep -Eq '^hilbert [0-9]+\.[0-9]+\.[0-9]+$' "$work/out" || die "--version says $(cat "$work/out")"
run 0 --help
for command in $commands; do
    grep -q "^  $command " "$work/out" || die "--help does not name $command"
done

cp "$work/out" "$work/help"
run 0 help
cmp "$work/out" "$work/help" || die "help is not --help"
run 0 train --help
cp "$work/out" "$work/help"
run 0 help train
cmp "$work/out" "$work/help" || die "help train is not train --help"
fails 2 "unknown command 'trian'; did you mean train?" help trian

fails 2 "a command is missing"
fails 2 "unknown command 'trian'; did you mean train?" trian
fails 2 "unknown command 'xxxxxxxxxxx'; see hilbert --help" xxxxxxxxxxx
fails 2 "unknown option --lrr; did you mean --lr?" train --lrr 3
fails 2 "unknown option --micro-bach; did you mean --micro-batch?" train --micro-bach=3
fails 2 "unknown option -q" train -q
fails 2 "unknown option --weight; did you mean --weight-decay?" train --weight 1
fails 2 "unknown command 'evaluate'; did you mean eval?" evaluate
for name in quit-early infinity3 fsdp megatron; do # resemble no option
    fails 2 "unknown option --$name; see hilbert train --help" train "--$name" 1
done
while read -r theirs ours; do
    fails 2 "unknown option --$theirs; did you mean --$ours?" train "--$theirs" 1
done <<END
learning-rate lr
learning_rate lr
batch-size batch
per-device-train-batch-size micro-batch
max-steps steps
num-train-epochs epochs
output-dir out
max-seq-length seq
max-length seq
model-name-or-path model
train-file data
gradient-checkpointing recompute
END
fails 2 "--model must not be empty" train --model "" --data a --out b
fails 2 "--out must not be empty" train --model a --data b --out=
fails 2 "--model must not be empty" tokenize --model ""
fails 2 "the folder or file must not be empty" inspect ""
fails 2 "unexpected argument 'x'" train x
fails 2 "train needs --model, --data and --out" train
fails 2 "train needs --model and --out" train --data a --lr 1e-4
fails 2 "eval needs --model" eval
fails 2 "generate needs --model" generate
fails 2 "tokenize needs --model" tokenize
fails 2 "inspect needs a folder or file" inspect
fails 2 "one too many" inspect a b

fails 2 "--lr: 'fast' is not a number" train --lr fast
fails 2 "--lr needs a value" train --lr
fails 2 "--lr needs a value" train --lr --steps 3
fails 2 "--steps must be a whole number of 1 or more, not 0" train --steps 0
fails 2 "--steps must be a whole number of 1 or more, not -5" train --steps -5
fails 2 "--steps: '1e3' is not a whole number" train --steps 1e3
fails 2 "--beta1 must be at least 0 and less than 1, not 1" train --beta1 1
fails 2 "--schedule must be one of cosine|linear|constant, not 'cos'" train --schedule cos
fails 2 "--dtype must be one of bf16|fp32|fp16|fp8, not 'int8'" train --dtype int8
fails 2 "--tile-size: '3X' is not a size" train --tile-size 3X
fails 2 "--device-memory: '3X' is not a size; write bytes, or 64M, 1.5G or 2T (powers of 1024), or 24GB" train --device-memory 3X
fails 2 "--device-memory must be 1 byte or more, not 0" train --device-memory 0
fails 2 "--host-memory must be from 1% to 100%, not 101%" eval --host-memory 101%
fails 2 "--disk: no bytes of /mnt may be used" generate --disk /mnt:0
fails 2 "--disk: ':5G' names no folder" train --disk :5G
fails 1 "cannot inspect $work/none: No such file" train --disk "$work/none:50%"
fails 2 "--prefetch must be one of off|on, not 'maybe'" train --prefetch maybe
fails 2 "--io must be one of auto|uring|threads, not 'aio'" train --io aio
fails 2 "--resume takes no value" train --resume=yes
fails 2 "give --resume or --overwrite, not both" train --resume --overwrite
fails 2 "give --steps or --epochs, not both" train --steps 3 --epochs 1
fails 2 "--top-p must be more than 0 and at most 1, not 0" generate --top-p 0
fails 2 "--temperature must be 0 or more, not -1" generate --temperature -1
fails 2 "--threads must be 0 (all) to 4096, not 5000" eval --threads 5000

config=$work/c.json
echo '{"lrr": 3}' >"$config"
fails 2 'unknown option "lrr"; did you mean "lr"?' train --config "$config"
echo '{"lr": "fast"}' >"$config"
fails 2 '"lr" must be a number, not a string' train --config "$config"
echo '{"lr": 1, "lr": 2}' >"$config"
fails 2 'duplicate' train --config "$config"
echo '{"lr": 1' >"$config"
fails 2 'not valid JSON' train --config "$config"
echo '{"model": "m", "data": ["a", "b"], "steps": 3}' >"$config"
fails 2 "train needs --out;" train --config "$config"
fails 1 "cannot open $work/none.json" train --config "$work/none.json"

# A missing model is not a usage error.
fails 1 "$work/none" train --model "$work/none" --data "$work/none" --out "$work/out-folder"
[ ! -e "$work/out-folder" ] || die "a failed start left its output folder behind"
fails 1 "$work/none" eval --model "$work/none" --data "$work/none"
fails 1 "$work/none" generate --model "$work/none" --prompt x
fails 1 "$work/none" tokenize --model "$work/none"
fails 1 "$work/none" inspect "$work/none"

# A failed write to the standard output is reported; a closed pipe is not.
if [ -w /dev/full ]; then
    "$HILBERT" --help >/dev/full 2>"$work/err" && die "--help to a full device exited with 0"
    grep -q '^hilbert: cannot write' "$work/err" || die "a full device: $(cat "$work/err")"
fi
"$HILBERT" train --help 2>"$work/err" | true
[ ! -s "$work/err" ] || die "a closed pipe: $(cat "$work/err")"
