# work.sh - a folder for one test, $work, removed when the test ends; and `die WORDS`.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() { echo "FAILED: $*" >&2; exit 1; }
