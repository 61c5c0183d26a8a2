#!/usr/bin/env bash
# man_pages.sh - the manual pages that are installed: OUT/man1, one for each command, and OUT/man3, one
# for each public header. Their sources are docs/hilbert.1, the command tables and the headers' comments.
#   tools/man_pages.sh OUT VERSION
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=$1 version=$2
export LC_ALL=C

rm -rf "$out/man1" "$out/man3"
mkdir -p "$out/man1" "$out/man3"
awk -v out="$out/man1" -v version="$version" -f tools/man_commands.awk src/cli/*.c docs/hilbert.1
for header in include/hilbert/*.h; do
    awk -v version="$version" -f tools/man_header.awk "$header" > "$out/man3/hilbert-$(basename "$header" .h).3"
done
