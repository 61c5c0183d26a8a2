# A killed eval leaves no file with tokens, whenever it is killed.
set -u
. "$TESTS/cli/lib.sh"
mkdir "$work/tmp"
for i in $(seq 120); do cat "$SOURCE"/src/cli/*.c; done >"$work/data.txt"

# Finds the file with the tokens: one with a name, or a nameless one in /proc.
has_tokens()
{
    [ -n "$(ls -A "$work/tmp")" ] || ls -l "/proc/$1/fd" 2>/dev/null | grep -qF "$work/tmp/"
}

for delay in 0 0.1 0.5; do
    TMPDIR=$work/tmp "$HILBERT" eval --model "$TESTS/golden/models/gpt2" --data "$work/data.txt" \
        --tokenizer bytes --seq 16 --threads 1 >/dev/null 2>"$work/err" &
    pid=$!
    until has_tokens $pid; do
        kill -0 $pid 2>/dev/null || die "eval ended on its own: $(cat "$work/err")"
    done
    sleep $delay
    kill -KILL $pid || die "eval ended on its own: $(cat "$work/err")"
    wait $pid 2>/dev/null
    [ -z "$(ls -A "$work/tmp")" ] || die "left after $delay s: $(ls -AR "$work/tmp")"
done
