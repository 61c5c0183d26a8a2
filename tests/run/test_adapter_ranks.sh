# An adapter is trained by several ranks: losses within 1e-6 of one rank's, and a run of one rank goes
# on with two and with three.
set -u
. "$TESTS/mpi.sh"
. "$TESTS/cli/lib.sh"
model=$TESTS/golden/models/llama
options=(--model "$model" --data "$model/tokens.npy" --seq 32 --batch 6 --lr 1e-2 --dtype fp32
    --threads 1 --schedule constant --adapter lora --rank 3 --quiet)

losses() { grep -o '"loss": [0-9.e-]*' "$work/$1/metrics.jsonl" | cut -d' ' -f2; }

near() # near RUN: its losses are those of the run "one"
{
    paste <(losses one) <(losses "$1") | awk -v run="$1" '
        { d = $1 - $2; if (d < 0) d = -d; if (NF != 2 || d > 1e-6) { print run ": " $0; bad = 1 } }
        END { exit bad || NR != 9 }' || die "$1: other losses"
}

for kind in "" --dora "--dora --base-dtype nf4"; do
    rm -rf "$work"/{one,two,three,grown}
    mpi 1 "$HILBERT" train "${options[@]}" $kind --steps 9 --out "$work/one" || die "one rank"
    mpi 2 "$HILBERT" train "${options[@]}" $kind --steps 9 --out "$work/two" || die "two ranks"
    mpi 3 "$HILBERT" train "${options[@]}" $kind --steps 9 --out "$work/three" || die "three ranks"
    near two
    near three
    for ranks in 1 2 3; do
        mpi "$ranks" "$HILBERT" train "${options[@]}" $kind --steps $((3 * ranks)) \
            --out "$work/grown" --resume || die "resume with $ranks ranks"
    done
    near grown
done
exit 0
