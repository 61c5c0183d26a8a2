# Every option that --help shows is in docs/options.md and in the manual page, with its default.
set -u
. "$TESTS/cli/lib.sh"
manual=$work/manual
sed 's/\\-/-/g; s/\\f[BIR]//g; s/\\(aq/'"'"'/g' "$SOURCE/docs/hilbert.1" >"$manual"

# The lines from the command's heading to the next one.
section()
{
    awk -v head="$2" '$0 == head {on = 1; next} on && /^(## |\.S[HS] )/ {exit} on' "$1"
}

for command in $commands; do
    run 0 "$command" --help
    [ ! -s "$work/err" ] || die "$command --help wrote to stderr"
    [ -z "$(awk 'length > 100' "$work/out")" ] || die "$command --help has a line over 100 columns"
    grep -q '^Usage: hilbert '"$command" "$work/out" || die "$command --help has no usage"
    grep -q '^Example' "$work/out" || die "$command --help has no example"
    section "$SOURCE/docs/options.md" "## hilbert $command" >"$work/options.md"
    section "$manual" ".SS $command" >"$work/options.1"
    # Joins an option with its help when that is on the next line.
    sed -n '/^  --/{/(default: \|(required)\|this text/!{N;s/\n */ /};p}' "$work/out" >"$work/list"
    [ "$(wc -l <"$work/list")" -ge 2 ] || die "$command --help shows no options"
    [ "$command" = train ] && cp "$work/list" "$work/train"
    while read -r line; do
        name=${line%% *}
        [ "$name" = --help ] && continue
        [ "$command" = plan ] && grep -q -- "^ *$name " "$work/train" && continue
        default=$(sed -n 's/.*(default: \(.*\))$/\1/p' <<<"$line")
        row=$(grep -E -- "^\| \`$name( [^\`]*)?\` " "$work/options.md") ||
            die "docs/options.md lacks $command $name"
        [[ $row == *"| ${default:-required} |"* ]] ||
            die "docs/options.md: $command $name should say: ${default:-required}"
        grep -qE -- "^\.B[IR]* (\")?$name(\"| |$)" "$work/options.1" ||
            die "docs/hilbert.1 lacks $command $name"
        [ -z "$default" ] || [ "$default" = off ] || grep -qF -- "Default: $default." "$work/options.1" ||
            die "docs/hilbert.1: $command $name should say: Default: $default."
    done <"$work/list"
    # The documents have no option that --help does not show.
    grep -oE '^\| `--[a-z0-9-]+' "$work/options.md" | cut -c4- | while read -r name; do
        grep -q -- "^$name\( \|$\)" <(sed 's/^ *//' "$work/list") || die "$command has no option $name"
    done || exit 1
done
