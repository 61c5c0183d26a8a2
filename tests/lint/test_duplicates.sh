# tools/duplicates.py finds duplicated lines, also with renamed variables, and ignores tables, idioms and
# comments; `make lint` fails when there are too many.
set -u
command -v python3 > /dev/null || { echo "no python3"; exit 77; }
. "$TESTS/work.sh"
mkdir "$work/src"
pairs() { python3 "$SOURCE/tools/duplicates.py" "$@" "$work" > "$work/pairs"; }
count() { pairs && sed -n '$s/ pairs.*//p' "$work/pairs"; }
expect() { [ "$(count)" = "$1" ] || die "$(count) pairs, expected $1: $2"; }
body() { # body A B C D: seven lines of C with these names
    printf '/* %s.c - planted. */\n#include <math.h>\n\n' "$1"
    printf 'static int %s(int *%s, int %s)\n{\n    int %s = 0;\n' "$1" "$2" "$3" "$4"
    printf '    for (int i = 0; i < %s; ++i) %s += %s[i] * 3;\n' "$3" "$4" "$2"
    printf '    if (%s > %s && !%s) %s -= %s;\n' "$4" "$3" "$2" "$4" "$3"
    printf '    while (%s > 9) %s /= %s + 2;\n' "$4" "$4" "$3"
    printf '    %s(%s[0], %s, "%s");\n    return %s * %s;\n}\n' "$2" "$2" "$4" "$1" "$4" "$3"
}

body one a b c > "$work/src/one.c"
expect 0 "one file"
cp "$work/src/one.c" "$work/src/again.c"
expect 1 "the same lines"
body two x y z > "$work/src/again.c"
expect 1 "the same lines under other names"
grep -q '^src/again.c:4-11 ~ src/one.c:4-11: 7 lines$' "$work/pairs" || die "$(cat "$work/pairs")"
pairs --most 1 || die "one of one is too many"
! pairs --most 0 || die "one of none is not too many"
sed 's|    while.*|    do { ++z; } while (z < 0);|' "$work/src/again.c" > "$work/src/other.c"
rm "$work/src/again.c"
expect 0 "three lines and three"
body two x y z | sed 's|^|// |' > "$work/src/other.c"
expect 0 "comments"
rm "$work"/src/*
for name in one two; do
    printf 'static const char *const %s[] = {\n' "$name"
    for i in 1 2 3 4 5 6 7 8 9; do printf '    {"%s", %s, %s},\n' "$name$i" "$name" "$i"; done
    echo '};'
done > "$work/src/tables.c"
expect 0 "tables"

# Eight files with one body and eight with another: 56 pairs.
for i in a b c d e f g h; do
    body "$i" v w x > "$work/src/$i.c"
    body "$i$i" v w x | sed 's|/=|%=|; s|- planted|of two|; s|\* 3|+ 4 / w|' > "$work/src/$i$i.c"
done
expect 56 "two bodies"
out=$(LINT_ROOT=$work "$SOURCE/tools/lint.sh" --rules 2>&1) && die "lint says nothing"
grep -q '^src:1: 56 pairs of files share 6 lines or more, of at most' <<< "$out" || die "$out"
