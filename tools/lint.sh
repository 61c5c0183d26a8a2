#!/usr/bin/env bash
# lint.sh - every rule of style that a machine can check; exits 1 when one is broken.
#   tools/lint.sh            everything
#   tools/lint.sh --rules [CHECK...]   only the rules that need no clang, or some of these
#   tools/lint.sh --layers   only what includes what
# LINT_ROOT names another tree than this one.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "${LINT_ROOT:-$here/..}"
reference=14 # the major version of clang-format that decides

found=$(mktemp)
trap 'rm -f "$found"' EXIT

files() { # files PATTERN...: those of the tree, sorted
    local folders=() folder names=()
    for folder in src include python tests fuzz bench examples tools docs cmake .ci; do
        [ -d "$folder" ] && folders+=("$folder")
    done
    for pattern; do names+=(-o -name "$pattern"); done
    find "${folders[@]}" -type f \( "${names[@]:1}" \) -not -path '*/golden/*' -not -path '*/corpus/*' |
        LC_ALL=C sort
}

check_c() {
    local documents
    documents=$({ files '*.md'; ls README.md 2> /dev/null || true; } | tr '\n' ' ')
    files '*.c' '*.h' '*.cu' |
        LC_ALL=C xargs -r awk -v documents="$documents" -f "$here/lint.awk" -f "$here/lint_words.awk"
}

check_text() { # unfinished work outside C, white space, long scripts, and shell that does not parse
    local marker='\b(TO''DO|FIX''ME|XX''X|HA''CK)\b'
    files '*.sh' '*.py' '*.cmake' '*.md' '*.awk' | xargs -r grep -HnE "$marker" |
        sed 's/^\([^:]*:[0-9]*\):.*/\1: unfinished work marker/' || true
    files '*.sh' '*.py' '*.cmake' '*.awk' | xargs -r grep -HnE '[[:space:]]$' |
        sed 's/^\([^:]*:[0-9]*\):.*/\1: trailing white space/' || true
    files '*.sh' '*.py' '*.awk' | xargs -r awk 'FNR == 601 {
        print FILENAME ":601: the file has more than 600 lines: split it by noun" }'
    { files '*.sh'; if [ -f .ci/run ]; then echo .ci/run; fi; } | while read -r file; do
        bash -n "$file" 2>/dev/null || echo "$file:1: bash cannot parse it"
    done
}

check_fuzzers() { # a function that parses the bytes of a file is called by a fuzzer
    local file name
    files '*.h' | { grep '^src/' || true; } | while read -r file; do
        tr '\n' ' ' < "$file" | { grep -oE 'hil_[a-z0-9_]+_parse\([^;]*size_t size[^;]*;' || true; } |
            sed 's/(.*//' | while read -r name; do
            grep -qs "\b$name(" fuzz/fuzz_*.c ||
                echo "$file:$(grep -n "$name(" "$file" | head -n 1 | cut -d: -f1): no fuzzer calls $name"
        done
    done
}

check_folders() { # no folder of src has more files than one person can know
    local folder count most
    find src -type d 2> /dev/null | LC_ALL=C sort | while read -r folder; do
        count=$(find "$folder" -maxdepth 1 -type f \( -name '*.c' -o -name '*.h' -o -name '*.cu' \) | wc -l)
        most=80
        [ "$folder" = src/train ] && most=40
        [ "$count" -le $most ] || echo "$folder:1: $count files, more than $most: divide it"
    done
}

check_docs() { # documents name only what there is, and the tour every folder of src
    local documents=() folder
    for document in README.md CONTRIBUTING.md docs/*.md bench/README.md; do
        [ -f "$document" ] && documents+=("$document")
    done
    [ ${#documents[@]} -gt 0 ] || return 0
    { find . -path './build*' -prune -o -path ./.git -prune -o -print
        grep -rhoE 'hil_[a-z0-9_]+' src include | sort -u; } |
        LC_ALL=C awk -f "$here/lint_docs.awk" - "${documents[@]}"
    [ -f docs/tour.md ] || return 0
    for folder in src/*/; do
        grep -qF "| \`${folder%/}\` |" docs/tour.md || echo "docs/tour.md:1: no row of a table says what ${folder%/} is"
    done
}

check_architecture() { # the picture is the one that the includes give
    [ -f docs/architecture.svg ] || return 0
    "$here/architecture.sh" --print | cmp -s - docs/architecture.svg ||
        echo "docs/architecture.svg:1: not what the includes say: run tools/architecture.sh"
}

check_duplicates() { # duplicated logic
    local most=30
    python3 "$here/duplicates.py" --most $most . > "$found.pairs" ||
        echo "src:1: $(tail -n 1 "$found.pairs"), of at most $most: see python3 tools/duplicates.py"
    rm -f "$found.pairs"
}

check_threads() { # docs/threads.md lists every file that starts a thread and every lock, and no others
    [ -f docs/threads.md ] || return 0
    local file line lock
    { grep -rlE '\b(pthread_create|thrd_create)\(' src || true; } | while read -r file; do
        grep -qE "^\|[^|]*\| \`$file\` \|" docs/threads.md || echo "$file:1: docs/threads.md lists no thread of it"
    done
    { grep -rnoE '\bpthread_(mutex|rwlock|spinlock)_t [a-z_]+' src || true; } | while IFS=: read -r file line lock; do
        lock=${lock##* }
        grep -qE "^\| \`([a-z_]+\.)?$lock\` \| \`$file\` \|" docs/threads.md ||
            echo "$file:$line: docs/threads.md lists no lock \`$lock\` of it"
    done
    { grep -nE '^\| `([a-z_]+\.)?[a-z_]+` \| `src/[^`]+` \|' docs/threads.md || true; } |
        sed -E 's/^([0-9]+):\| `([a-z_.]+)` \| `([^`]+)`.*/\1 \2 \3/' | while read -r line lock file; do
        grep -qsE "pthread_[a-z]+_t ${lock#*.}\b" "$file" &&
            { [ "${lock%.*}" = "$lock" ] || grep -qE "(struct |\} )${lock%.*}\b" "$file"; } ||
            echo "docs/threads.md:$line: $file has no lock $lock"
    done
}

check_format() {
    local major
    major=$(clang-format --version | sed 's/.*version \([0-9]*\).*/\1/')
    files '*.c' '*.h' '*.cu' | xargs -r clang-format --dry-run -Werror 2>&1 |
        sed -n 's/^\([^:]*:[0-9]*\):[0-9]*: error: .*/\1: not formatted: make format/p' |
        LC_ALL=C sort -u > "$found.format" || true
    if [ "$major" = "$reference" ]; then
        cat "$found.format"
    elif [ -s "$found.format" ]; then
        echo "lint: clang-format $major would format $(cut -d: -f1 "$found.format" | sort -u | wc -l)" \
            "files differently; version $reference decides" >&2
    fi
    rm -f "$found.format"
}

check_tidy() { # bugs that compilers do not warn about
    local build=build-lint check checks='-*'
    for check in assert-side-effect bad-signal-to-kill-thread branch-clone infinite-loop \
        integer-division macro-parentheses macro-repeated-side-effects \
        misplaced-pointer-arithmetic-in-alloc multiple-statement-macro not-null-terminated-result \
        posix-return signal-handler signed-char-misuse spuriously-wake-up-functions \
        string-literal-with-embedded-nul 'suspicious-*' terminating-continue \
        too-small-loop-variable; do
        checks+=",bugprone-$check"
    done
    cmake -S . -B "$build" -DCMAKE_C_COMPILER=clang > "$found.cmake" 2>&1 ||
        { cat "$found.cmake" >&2; return 1; }
    rm -f "$found.cmake"
    # Files that this machine leaves out, as for want of MPI, have headers that are not here.
    sed -n 's|^ *"file": ".*/\(src/[^"]*\.c\)".*|\1|p' "$build/compile_commands.json" | sort -u |
        xargs -r -n 8 -P "$(nproc)" clang-tidy -p "$build" --quiet \
        --checks="$checks" 2>/dev/null |
        sed -n "s|^$PWD/\([^:]*:[0-9]*\):[0-9]*: warning: \(.*\)|\1: \2|p;/: error: /p" || true
}

rules='c text fuzzers folders docs architecture duplicates threads'
case "${1:-}" in
--layers) check_c | grep -E 'layer|include' > "$found" || true ;;
--rules)
    shift
    [ $# -gt 0 ] || set -- $rules
    for check; do check_$check; done > "$found" ;;
'') for check in $rules format tidy; do check_$check; done > "$found" ;;
*) echo "usage: tools/lint.sh [--rules [CHECK...] | --layers]" >&2; exit 2 ;;
esac

if [ -s "$found" ]; then
    LC_ALL=C sort -u "$found"
    echo "lint: $(sort -u "$found" | wc -l) problems" >&2
    exit 1
fi
echo "lint: $(files '*.c' '*.h' '*.cu' | wc -l) files, no problems"
