# gpu_rows.sh - sourced by tests of bench/gpu.py, which runs with tiny models on any processor.
set -u
[ -x "$HILBERT" ] || { echo "no program at '$HILBERT'"; exit 77; }
command -v python3 > /dev/null || { echo "no python3"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache
die() { echo "FAILED: $*" >&2; cat "$work/err" >&2; exit 1; }
bench() {
    timeout 600 python3 "$SOURCE/bench/gpu.py" --tiny --hilbert "$HILBERT" --work "$work/gpu" \
        --out "$work/table.md" "$@" > "$work/out" 2> "$work/err"
}
# row WORDS PATTERN: the row that begins so has a cell or more that match.
row() { grep -F "| $1" "$work/table.md" | grep -Eq -- "$2" || die "$1: $(cat "$work/table.md")"; }
