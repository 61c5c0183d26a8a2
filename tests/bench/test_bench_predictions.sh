# bench/predictions.py: a plan's peaks and bytes are those of the run, with states on disk too, and
# what cannot run here is listed as left out.
set -u
[ -x "$HILBERT" ] || { echo "no program at '$HILBERT'"; exit 77; }
command -v python3 > /dev/null || { echo "no python3"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() { echo "FAILED: $*" >&2; cat "$work/err" "$work/out" >&2; exit 1; }
bench() {
    timeout 300 python3 -B "$SOURCE/bench/predictions.py" --tiny --rounds 1 --hilbert "$HILBERT" \
        --work "$work/runs" --out "$work/table.md" "$@" > "$work/out" 2> "$work/err"
}

bench --list || die "--list"
[ "$(wc -l < "$work/out")" -ge 20 ] || die "rows"
bench --only nothing && die "a row that is not there"
bench --only 'cpu (small step, fp32|mixture, experts)|GPU: 125M in' || die "it failed"
for row in "small step, fp32" "mixture, experts partly on disk"; do
    grep -Eq "^\| $row \| [0-9.]+ m?s \| [0-9.]+ m?s \| [0-9.]+ \| (yes|no) \| (exact|less) \| (exact|less) \|" \
        "$work/table.md" || die "$row"
done
grep -q '^| GPU: 125M in 1 GiB | left out: needs --gpu |' "$work/table.md" || die "left out"
grep -Eq '^\*\*[0-2] of 2 within .* peaks and bytes as planned in 2 of 2; 1 left out' \
    "$work/table.md" || die "the summary"
