#!/usr/bin/env bash
# Prints what programs that were compiled with the public headers rely on: the functions that
# libhilbert.so exports, the layout of every public structure (offset and size of each member), and
# the constants. `make abi` writes it to tests/install/abi.txt; tests/install/test_abi.sh compares.
set -euo pipefail

library=$1 cc=${CC:-cc}
source=$(cd "$(dirname "$0")/.." && pwd)
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT

for header in "$source"/include/hilbert/*.h; do
    printf '#include "hilbert/%s"\n' "$(basename "$header")"
done > "$temporary/all.h"
printf '#include "all.h"\n' > "$temporary/all.c"
"$cc" -E -I "$source/include" -I "$temporary" "$temporary/all.c" |
    awk -f "$source/tools/abi.awk" > "$temporary/layout.c"
"$cc" -std=c11 -I "$source/include" -I "$temporary" "$temporary/layout.c" -o "$temporary/layout"

echo "# Made by 'make abi'. A member: its offset and size in bytes."
nm -D --defined-only "$library" | awk '$2 == "T" { print "function " $3 }' | LC_ALL=C sort
"$temporary/layout"
