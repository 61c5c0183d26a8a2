# An ignored status is a warning under gcc and clang, in C and C++; one that is read, or discarded with
# (void), is not.
set -euo pipefail

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
die() { echo "$*" >&2; exit 1; }
write() { # write NAME STATEMENT
    printf '#include <hilbert/status.h>\nhil_status act(void);\nhil_status use(void);\nhil_status use(void)\n{\n    %s\n    return HIL_OK;\n}\n' \
        "$2" > "$temporary/$1.c"
}
write ignored 'act();'
write discarded '(void)act();'
write read 'if (act() != HIL_OK) return HIL_ERR_IO;'
echo 'int main(void) { return 0; }' > "$temporary/empty.c"

checked=0
for compiler in "$CC -std=c11" "gcc -std=c11" "gcc -std=gnu17" "clang -std=c11" "g++ -xc++ -std=c++17" "clang++ -xc++ -std=c++17"; do
    read -ra command <<< "$compiler"
    "${command[@]}" -fsyntax-only "$temporary/empty.c" 2> /dev/null || continue # not here
    compile() {
        "${command[@]}" -Wall -Wextra -Wpedantic -Werror -I"$SOURCE/include" -fsyntax-only \
            "$temporary/$1.c" 2> "$temporary/log"
    }
    for use in discarded read; do
        compile $use || { cat "$temporary/log" >&2; die "$compiler: a status that is $use is a warning"; }
    done
    if compile ignored; then die "$compiler: an ignored status is no warning"; fi
    grep -q 'unused-result' "$temporary/log" || { cat "$temporary/log" >&2; die "$compiler: another warning"; }
    checked=$((checked + 1))
done
[ "$checked" -gt 0 ] || die "no compiler was tried"
