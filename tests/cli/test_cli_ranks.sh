# What the program prints when a launcher starts several ranks, and when these cannot be connected.
set -euo pipefail
. "$TESTS/cli/lib.sh"
. "$TESTS/mpi.sh"

job=(train --model "$work/none" --data "$work/none" --out "$work/out-of-it")

# ranks CODE N ARGUMENTS...: runs the program on N ranks; hilbert's own lines are in $work/said.
ranks()
{
    local code=$1 n=$2 got=0
    shift 2
    mpi "$n" "$@" > "$work/out" 2> "$work/err" || got=$?
    [ "$got" = "$code" ] || die "$n ranks of $* exited with $got, expected $code: $(cat "$work/err")"
    grep '^hilbert: ' "$work/err" > "$work/said" || true
}

# says WORDS: once, and nothing else.
says()
{
    [ "$(wc -l < "$work/said")" = 1 ] || die "not one line: $(cat "$work/said")"
    grep -qF -- "$1" "$work/said" || die "said: $(cat "$work/said"), expected: $1"
}

# Only rank 0 prints.
run 0 --version
cp "$work/out" "$work/alone"
grep -q '^MPI: Open MPI v' "$work/alone" || die "--version names no MPI: $(cat "$work/alone")"
ranks 0 3 "$HILBERT" --version
cmp -s "$work/out" "$work/alone" || die "--version on three ranks: $(cat "$work/out")"
run 0 train --help
cp "$work/out" "$work/alone"
ranks 0 2 "$HILBERT" train --help
cmp -s "$work/out" "$work/alone" || die "train --help on two ranks differs"
ranks 2 3 "$HILBERT" trian
says "did you mean train?"
ranks 2 3 "$HILBERT" train --modle x
says "--modle"
ranks 2 3 "$HILBERT" generate --model x --prompt y
says "generate runs in one process, but 3 were started"
ranks 1 3 "$HILBERT" "${job[@]}"
says "no such model folder"

# One rank, and the variables of an allocation without srun: MPI is not used.
ranks 1 1 "$HILBERT" "${job[@]}"
says "no such model folder"
SLURM_NTASKS=4 SLURM_PROCID=0 SLURM_JOB_ID=1 run 1 "${job[@]}"
grep -q "no such model folder" "$work/err" || die "an allocation is not a launch: $(cat "$work/err")"

# mpirun forwards SIGUSR1 (Ubuntu's 4.1.6 sometimes does not; then one rank gets it): all finish the
# step, save together and end normally.
cat "$SOURCE"/src/cli/*.c > "$work/data.txt"
mpirun -n 2 "$HILBERT" train --model "$TESTS/golden/models/gpt2" --data "$work/data.txt" --tokenizer bytes --seq 16 \
    --batch 2 --threads 1 --steps 1000000 --out "$work/stopped" > "$work/out" 2> "$work/err" < /dev/null &
job_id=$!
for ((i = 0; i < 300; ++i)); do
    if grep -q '^step' "$work/err"; then break; fi
    sleep 0.1
done
kill -USR1 "$job_id"
for ((i = 0; i < 100; ++i)); do
    if grep -q 'finishing this step' "$work/err" || ! kill -0 "$job_id" 2> /dev/null; then break; fi
    sleep 0.1
done
if [ "$i" = 100 ]; then kill -USR1 "$(pgrep -P "$job_id" -x hilbert | head -n 1)"; fi
got=0
wait "$job_id" || got=$?
[ "$got" = 138 ] || die "SIGUSR1 to mpirun: exit code $got: $(cat "$work/err")"
[ "$(grep -c 'finishing this step' "$work/err")" = 1 ] || die "stopping: $(cat "$work/err")"
grep -q '^hilbert: stopped after step [0-9]*, saved' "$work/err" || die "$(cat "$work/err")"
[ -f "$work/stopped/checkpoints/latest" ] || die "SIGUSR1 did not save"

# Several processes without MPI to connect them.
for size in "PMI_SIZE=4 PMI_RANK=0" "SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0"; do
    (export ${size?} && fails 1 "4 copies were started, but MPI connects only 1" "${job[@]}")
done

# A program without the MPI module, with one that lacks a library, with one of another build.
mkdir -p "$work/bin" "$work/lib/hilbert"
cp "$HILBERT" "$work/bin/hilbert"
ranks 1 2 "$work/bin/hilbert" "${job[@]}"
says "2 ranks were started, but this hilbert was built without MPI"
HILBERT=$work/bin/hilbert run 0 --version
grep -q '^MPI: not in this build' "$work/out" || die "without module: $(cat "$work/out")"
HILBERT=$work/bin/hilbert run 1 "${job[@]}"
cp "$BUILD/hilbert_mpi.so" "$work/lib/hilbert/"
ranks 1 2 "$work/bin/hilbert" "${job[@]}"
says "no such model folder"
sed 's/libmpi\.so\.40/libnmp.so.40/g' "$BUILD/hilbert_mpi.so" > "$work/lib/hilbert/hilbert_mpi.so"
if ! cmp -s "$BUILD/hilbert_mpi.so" "$work/lib/hilbert/hilbert_mpi.so"; then
    ranks 1 2 "$work/bin/hilbert" "${job[@]}"
    says "cannot load MPI (libnmp.so.40: cannot open shared object file"
    HILBERT=$work/bin/hilbert run 0 --version
    HILBERT=$work/bin/hilbert run 1 "${job[@]}"
    grep -q "no such model folder" "$work/err" || die "alone it needs no MPI: $(cat "$work/err")"
fi
echo 'int other;' | "$CC" -shared -fPIC -x c - -o "$work/lib/hilbert/hilbert_mpi.so"
ranks 1 2 "$work/bin/hilbert" "${job[@]}"
says "is not hilbert's module for MPI"
