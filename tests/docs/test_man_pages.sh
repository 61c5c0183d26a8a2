# There is a manual page for each command, with its summary and every option that --help shows, and for
# each public header, with every function that it declares; troff and mandoc find nothing wrong in them.
set -u
[ -x "$HILBERT" ] || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() { echo "$*" >&2; exit 1; }

version=$("$HILBERT" --version | sed -n 's/^hilbert //p')
"$SOURCE/tools/man_pages.sh" "$work" "$version" || die "tools/man_pages.sh fails"
plain() { sed 's/\\-/-/g; s/\\f[BIR]//g; s/\\&//g; s/\\(aq/'"'"'/g; s/\\e/\\/g' "$1"; }

commands=$("$HILBERT" --help | awk '/^Commands:/ { on = 1; next } on && NF == 0 { exit } on { print $1 }')
[ "$(wc -w <<< "$commands")" -ge 10 ] || die "--help lists: $commands"
for command in $commands; do
    page=$work/man1/hilbert-$command.1
    [ -s "$page" ] || die "there is no page of hilbert $command"
    plain "$page" > "$work/page"
    "$HILBERT" help "$command" > "$work/help"
    summary=$(sed -n 3p "$work/help")
    grep -qiF -- "hilbert-$command - ${summary%.}" "$work/page" || die "hilbert-$command.1 does not say: $summary"
    grep -q "\"hilbert $version\"" "$page" || die "hilbert-$command.1 is not about version $version"
    # plan takes the options of train, and says so.
    if [ "$command" = plan ]; then "$HILBERT" help train > "$work/known"; else : > "$work/known"; fi
    { grep -oE '^  --[a-z0-9-]+' "$work/help" | tr -d ' '; } | while read -r option; do
        [ "$option" = --help ] || grep -q -- "^ *$option\b" "$work/known" ||
            grep -qE -- "^\.BI? $option( |$)" "$work/page" || die "hilbert-$command.1 lacks $option"
    done || exit 1
    sed -n '/^Examples\{0,1\}:/,$p' "$work/help" | sed '1d; s/^ *//' | while read -r line; do
        grep -qxF -- "$line" "$work/page" || die "hilbert-$command.1 lacks the example: $line"
    done || exit 1
    plain "$work/man1/hilbert.1" | grep -q "^.BR hilbert-$command (1)" || die "hilbert.1 does not name hilbert-$command"
done

for header in "$SOURCE"/include/hilbert/*.h; do
    page=$work/man3/hilbert-$(basename "$header" .h).3
    [ -s "$page" ] || die "there is no page of $header"
    plain "$page" > "$work/page"
    grep -qF "#include <hilbert/$(basename "$header")>" "$work/page" || die "$page does not say what to include"
    tr '\n' ' ' < "$header" | grep -oE 'HIL_API [^(;]*' | grep -oE 'hil_[a-z0-9_]+$' | while read -r name; do
        grep -q "\b$name(" "$work/page" || die "$(basename "$page") lacks $name"
    done || exit 1
    if grep -nE 'HIL_API|__attribute__|__cplusplus|extern "C"' "$work/page"; then die "$(basename "$page") has the above"; fi
done

for page in "$work"/man1/*.1 "$work"/man3/*.3; do
    if command -v groff > /dev/null; then
        groff -man -ww -Tutf8 -z "$page" 2> "$work/said" && [ ! -s "$work/said" ] || die "$(cat "$work/said")"
    fi
    if command -v mandoc > /dev/null; then
        mandoc -Tlint -Wwarning "$page" > "$work/said" || die "$(cat "$work/said")"
    fi
done
