# bench/operations.py: a table of operations with as many calls as the model has, planned and measured.
set -u
[ -x "$HILBERT" ] || { echo "no program at '$HILBERT'"; exit 77; }
command -v python3 > /dev/null || { echo "no python3"; exit 77; }
. "$TESTS/work.sh"
bench() {
    timeout 300 python3 -B "$SOURCE/bench/operations.py" --hilbert "$HILBERT" --work "$work/runs" \
        --out "$work/table.md" "$@" > "$work/out" 2> "$work/err" || { cat "$work/err"; return 1; }
}

bench --list || die "--list"
[ "$(wc -l < "$work/out")" -ge 15 ] || die "rows: $(cat "$work/out")"
bench --only nothing && die "a row that is not there"
bench --only '^small step, fp32|^8 micro-batches' || die "it failed"
# Four layers of seven products; of eight micro-batches as many in each. Planned are as many calls as there were.
for row in 'linear backward | 28' 'linear | 28' 'attention | 4' 'head | 1' 'linear | 224' 'attention backward | 32'; do
    grep -Fq "| $row | ${row##* } | " "$work/table.md" || die "$row: $(cat "$work/table.md")"
done
awk -F '|' '/^\| [a-z_]+( backward)? \| [0-9]/ && $2 !~ /between/ {
    ++rows
    if ($3 != $4 || $7 + 0 <= 0.01 || $7 + 0 > 100) { print; bad = 1 }
} END { exit bad || rows < 12 }' "$work/table.md" || die "planned otherwise than it ran"
[ "$(grep -Ec '^\| all computing \| \| \| [0-9.]+ ms \| [0-9.]+ ms \| [0-9.]+ \|$' "$work/table.md")" = 2 ] || die "sums"
