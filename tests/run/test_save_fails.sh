# A save that fails ends the run on all ranks with one line that names the file and the reason; the
# previous checkpoint is whole, nothing is left of the new one, and the run can be resumed.
set -u
. "$TESTS/cli/lib.sh"
. "$TESTS/llama_config.sh"
. "$TESTS/mpi.sh"
# Large enough that MPI's own files are smaller.
llama_config 2048 256 768 4 4 4 256 '"tie_word_embeddings": false, "bos_token_id": 1, "eos_token_id": 2' \
    >"$work/config.json"
train=("$HILBERT" train --model "$work/config.json" --data "$TESTS/golden/models/qwen3/tokens.npy"
    --seq 16 --batch 4 --lr 1e-3 --threads 1 --save-every 2 --keep 9)

# start RANKS LIMIT ARGUMENTS...: files may have at most LIMIT blocks of 1024 bytes.
start()
{
    local ranks=$1 limit=$2
    shift 2
    (
        trap '' XFSZ # the write fails instead
        ulimit -f "$limit"
        [ "$ranks" = 1 ] && exec "${train[@]}" "$@"
        exec mpirun -n "$ranks" "${train[@]}" "$@"
    ) >"$work/out" 2>"$work/err" </dev/null
}

for ranks in 1 2; do
    out=$work/run$ranks
    start $ranks unlimited --steps 2 --out "$out" || die "$ranks ranks: $(cat "$work/err")"
    start $ranks 12000 --steps 40 --out "$out" --resume && die "$ranks ranks: it was saved"
    grep '^hilbert: ' "$work/err" >"$work/said"
    [ "$(wc -l <"$work/said")" = 1 ] || die "$ranks ranks said: $(cat "$work/err")"
    grep -q 'cannot write .*/step-4\.tmp-[0-9a-f]*/.*: File too large' "$work/said" ||
        die "$ranks ranks: $(cat "$work/said")"
    [ "$(ls "$out/checkpoints")" = "latest
step-2" ] || die "$ranks ranks left: $(ls "$out/checkpoints")"
    run 0 verify "$out"
    start $ranks unlimited --steps 4 --out "$out" --resume || die "again: $(cat "$work/err")"
    grep -q 'resuming after step 2' "$work/err" || die "$ranks ranks: $(cat "$work/err")"
    run 0 verify "$out"
done
