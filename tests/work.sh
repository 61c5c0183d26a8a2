# work.sh - a folder for one test, $work, which goes away with it; and `die WORDS`.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() { echo "FAILED: $*" >&2; exit 1; }
