# bench/cards.py on the device of threads behind a limited bus: plans and runs of tiny models, whose
# budgets hold and whose losses are those of the run without limits.
set -u
. "$TESTS/cli/lib.sh"
command -v python3 > /dev/null || { echo "no python3"; exit 77; }
export XDG_CACHE_HOME=$work/cache
timeout 300 python3 -B "$SOURCE/bench/cards.py" --tiny --only 8b-qlora,8b --cards 8 --hilbert "$HILBERT" \
    --work "$work/cards" --results "$work" > "$work/out" 2> "$work/err" ||
    die "it failed: $(tail -3 "$work/err")"
[ "$(ls "$work"/*-cards-threads.md | wc -l)" = 1 ] || die "no page of results"
for model in 8b-qlora 8b; do
    grep -Eq "^\| $model \| 8 GiB, rtx-4060.* [0-9]+ \| (compute|update|host link|disk) \|" "$work/out" ||
        die "no plan of $model: $(cat "$work/out")"
    grep -Eq "^\| $model \| 8 GiB \|.*\| yes \| yes \|$" "$work/out" ||
        die "$model: budgets or bits: $(cat "$work/out")"
done
