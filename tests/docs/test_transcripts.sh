# The commands in README.md and docs/ print what the documents show, except numbers and speeds.
set -u
[ -x "$HILBERT" ] || exit 77
"$SOURCE/tools/transcripts.sh" check "$HILBERT" || exit 1

# Finds a word that the program does not print, a missing line, and a transcript without its mark.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/docs" "$work/tests/golden/tokenizers"
cp -r "$SOURCE/tools" "$work"
cp -r "$SOURCE/tests/golden/tokenizers/llama2" "$work/tests/golden/tokenizers"
: >"$work/README.md"
try() # try MARK OUTPUT: a document with one transcript
{
    printf '%s\n\n```\n$ hilbert eval --model config.json --data notes.txt\n%s\n```\n' "$1" "$2" >"$work/docs/a.md"
    "$work/tools/transcripts.sh" check "$HILBERT" >"$work/said" 2>&1
}
mark='Made by `tools/transcripts.sh`, commit 0123456:'
sed -n '/^cat > "$demo\/config.json"/,/^END/p' "$SOURCE/tools/demo.sh" | sed '1d;$d' >"$work/config.json"
line=$(cd "$work" && "$HILBERT" eval --model config.json --data notes.txt 2>&1)
try "$mark" "$line" || { cat "$work/said"; exit 1; }
for wrong in "$line more" "${line/needs/wants}" ""; do
    try "$mark" "$wrong" && { echo "not found: $wrong"; exit 1; }
    grep -q 'a.md:3 is not what the program says' "$work/said" || { cat "$work/said"; exit 1; }
done
try "Said once:" "$line" && { echo "a transcript without a mark was taken"; exit 1; }
grep -q 'without its line' "$work/said" || { cat "$work/said"; exit 1; }
