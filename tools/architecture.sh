#!/usr/bin/env bash
# architecture.sh - docs/architecture.svg, drawn from the includes of src/ and include/.
#   tools/architecture.sh            writes it
#   tools/architecture.sh --print    on the standard output, which lint compares with the file
# LINT_ROOT names another tree than this one.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "${LINT_ROOT:-$here/..}"
export LC_ALL=C

draw() {
    find src include -type f \( -name '*.c' -o -name '*.h' -o -name '*.cu' \) | sort |
        xargs awk -f "$here/architecture.awk" "$here/lint.awk" docs/tour.md
}
if [ "${1:-}" = --print ]; then
    draw
else
    draw > docs/architecture.svg.new
    mv docs/architecture.svg.new docs/architecture.svg
fi
