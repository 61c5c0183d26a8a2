# Every rule of `make lint` finds its violation, and nothing in a clean tree.
set -euo pipefail

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
cp "$SOURCE/.clang-format" "$tree"

fresh() { # a small tree that keeps every rule
    rm -rf "${tree:?}"/*
    mkdir -p "$tree"/{src/{base,io,ops,data,format,cli,train},include/hilbert,tests/base,tools}
    echo '/* status.h - a public header. */' > "$tree/include/hilbert/status.h"
    printf '/* run.h - a public header. */\n#include "hilbert/status.h"\n' > "$tree/include/hilbert/run.h"
    printf '/* text.c - printf( and TO''DOs in prose or "strings" are fine. */\n#include "hilbert/status.h"\n#include <stdio.h>\n' > "$tree/src/base/text.c"
    printf '/* main.c - may print and exit. */\n#include "base/text.h"\n#include "hilbert/run.h"\nint main(void)\n{\n    printf("%%s", getenv("HOME"));\n    exit(0);\n}\n' > "$tree/src/cli/main.c"
    printf '/* tried.c - one verb for errors in each function. */\nhil_status f(void)\n{\n    HIL_TRY(g());\n}\n\nhil_status h(void)\n{\n    HIL_TRY_DONE(g());\n}\n' > "$tree/src/base/tried.c"
    printf '/* jsonl.c - may use format. */\n#include "format/npy.h"\n' > "$tree/src/data/jsonl.c"
    printf '/* Tests may print. */\nint main(void)\n{\n    puts("");\n    return 0;\n}\n' > "$tree/tests/base/test_x.c"
    echo 'echo fine' > "$tree/tools/x.sh"
}
lint() { LINT_ROOT=$tree "$SOURCE/tools/lint.sh" --rules "$@" 2>&1; }
failures=0
check=c # the part of lint that finds what follows
finds() { # finds FILE:LINE WORDS: lint fails and says so
    local out
    if out=$(lint $check); then
        echo "not found: $1 $2"
    elif ! grep -q "^$1: .*$2" <<< "$out"; then
        printf 'expected "%s: ...%s", got:\n%s\n' "$1" "$2" "$out"
    else
        fresh
        return
    fi
    failures=$((failures + 1))
    fresh
}
plant() { # plant FILE TEXT: a file with its comment and TEXT from line 2 on
    printf '/* %s - planted. */\n%b\n' "$(basename "$1")" "$2" > "$tree/$1"
}
repeat() { for _ in $(seq "$1"); do printf '%b' "$2"; done; }

fresh
lint > /dev/null || { lint; echo "the clean tree is not clean"; exit 1; }

plant src/base/bad.c '#include "io/file.h"' && finds src/base/bad.c:2 'layering: base may not include'
plant src/io/bad.c '#include "device/cpu.h"' && finds src/io/bad.c:2 'layering'
plant src/ops/bad.c '#include "train/run.h"' && finds src/ops/bad.c:2 'layering'
plant src/ops/bad.c '#include "hilbert/run.h"' && finds src/ops/bad.c:2 'layering'
plant src/format/bad.c '#include "data/jsonl.h"' && finds src/format/bad.c:2 'layering'
plant src/cli/bad.c '#include "train/run.h"' && finds src/cli/bad.c:2 'cli uses only'
plant src/base/bad.c '#include "odd/file.h"' && finds src/base/bad.c:2 'no layer is known'
plant src/base/bad.c '#include "../io/file.h"' && finds src/base/bad.c:2 'include by folder and name'
plant src/base/bad.c '#include <hilbert/status.h>' && finds src/base/bad.c:2 'inside the tree'
plant include/hilbert/status.h '#include "base/text.h"' && finds include/hilbert/status.h:2 'public header'
plant include/hilbert/status.h '#include "hilbert/run.h"' && finds include/hilbert/status.h:2 'layering'
plant include/hilbert/run.h 'typedef struct hil_run_options {\n    int depth;\n} hil_run_options;' &&
    finds include/hilbert/run.h:3 'begins with size_t size'
plant include/hilbert/odd.h '#include "hilbert/run.h"' && finds include/hilbert/odd.h:2 'no layer is known'

plant src/ops/bad.cu 'bool b(const hil_op *o)\n{\n    return o == &hil_op_add;\n}' && finds src/ops/bad.cu:4 'compare their names'
plant src/format/bad.h 'hil_status hil_bad_parse(hil_bad **out, const char *bytes,\n    size_t size);' &&
    check=fuzzers finds src/format/bad.h:2 'no fuzzer calls hil_bad_parse'

plant src/base/bad.c "$(repeat 600 'int x;\n')" && finds src/base/bad.c:601 '601 lines'
plant src/base/bad.c "int f(void)\n{\n$(repeat 79 '    g();\n')\n}" && finds src/base/bad.c:3 '81 lines'
plant src/base/bad.c 'int f(int a, int b, int c,\n      int d, int e, int f, int g)\n{\n}' &&
    finds src/base/bad.c:4 'six parameters'

plant src/base/bad.c 'hil_status f(void)\n{\n    HIL_TRY(g());\n    HIL_TRY_DONE(h());\n}' &&
    finds src/base/bad.c:5 'HIL_TRY and HIL_TRY_DONE'
plant src/base/bad.c 'hil_status f(void)\n{\n    if (x)\n        HIL_TRY_DONE(g(HIL_TRUE,\n                       a));\n    HIL_TRY(h());\n}' &&
    finds src/base/bad.c:7 'HIL_TRY and HIL_TRY_DONE'

plant src/base/bad.h '/* Opens it. */\nhil_status hil_bag_open(hil_bag **out,\n    hil_pool *pool);' &&
    finds src/base/bad.h:4 'hil_bag_open does not say whether it keeps'
plant src/base/bad.h '/* Borrows the pool. */\ntypedef struct hil_bag hil_bag;\nhil_status hil_bag_start(hil_bag *bag, hil_pool *pool);\nhil_status hil_bag_create(hil_bag **out, hil_pool *pool);' &&
    finds src/base/bad.h:5 'hil_bag_create does not say'

printf '/* one.h - a type. */\ntypedef struct hil_pair {\n    int x;\n} hil_pair;\n' > "$tree/src/base/one.h"
plant src/io/bad.h 'typedef struct hil_pair hil_pair;\nstruct hil_pair {\n};' &&
    finds src/io/bad.h:3 'the type hil_pair is also in src/base/one.h:2'
plant src/io/bad.h 'struct hil_a {\n};\nstruct b {\n    struct hil_a {' && finds src/io/bad.h:5 'the type hil_a is also in'
plant src/io/bad.h 'typedef void hil_run(int x);\ntypedef enum hil_run { A, B } hil_run;' &&
    finds src/io/bad.h:3 'the type hil_run is also in src/io/bad.h:2'

plant src/base/one.h '/* [Note: order] First. */' &&
    plant src/io/bad.h '/* What follows.\n\n   [Note: order] Second. */' &&
    finds src/io/bad.h:4 'the note order is also in src/base/one.h:2'
plant src/io/bad.h '/* See [Note: nowhere]. */' && finds src/io/bad.h:2 'there is no note nowhere'
plant src/base/one.h '/* [Note: order] First. */' && plant src/io/bad.h 'int x; /* [Note: order] in two.h */' &&
    finds src/io/bad.h:2 'the note order is in src/base/one.h:2'
plant src/io/bad.h '/* See [Note:\n   order]. */' && finds src/io/bad.h:2 'stands on one line'
echo 'What [Note: nowhere] says.' > "$tree/README.md" && finds README.md:1 'there is no note nowhere'

plant src/base/one.h 'void hil_pair_open(int x);' && plant src/io/bad.h 'HIL_API void hil_pair_close(int x);' &&
    finds src/io/bad.h:2 'hil_pair_\* belongs to src/base'
plant src/train/one.h 'void hil_pair_open(int x);' && plant include/hilbert/io.h 'HIL_API void hil_pair_close(int x);' &&
    finds include/hilbert/io.h:2 'hil_pair_\* belongs to a layer above'
plant src/base/bad.h "typedef struct hil_table {\n$(repeat 9 '    void (*f)(int x);\n')\n} hil_table;" &&
    finds src/base/bad.h:12 'hil_table has 9 functions'
for i in $(seq 41); do plant "src/train/part$i.h" 'int x;'; done && check=folders finds src/train:1 '41 files, more than 40'

for call in 'strcpy(a, b)' 'strcat(a, b)' 'sprintf(a, b)' 'gets(a)' 'atoi(a)' 'rand()'; do
    plant src/cli/bad.c "x = $call;" && finds src/cli/bad.c:2 'banned call'
done
for call in 'exit(1)' 'abort()' '_exit(1)'; do
    plant src/train/bad.c "    $call;" && finds src/train/bad.c:2 'never ends the program'
done
for call in 'printf("x")' 'puts("x")' 'fprintf(stderr, "x")' 'perror("x")'; do
    plant src/train/bad.c "    $call;" && finds src/train/bad.c:2 'never prints'
done
plant src/train/bad.c 'x = getenv("HOME");' && finds src/train/bad.c:2 'getenv only in cli'
plant src/train/bad.c 'cudaMalloc(&x, 1);' && finds src/train/bad.c:2 'cuda'
plant src/train/bad.c 'MPI_Init(0, 0);' && finds src/train/bad.c:2 'MPI_'
plant src/train/bad.c 'ncclSend(x);' && finds src/train/bad.c:2 'nccl'
plant src/io/bad.c 'io_uring_submit(x);' && finds src/io/bad.c:2 'io_uring_'

plant src/base/bad.c '/* TO''DO: later */' && finds src/base/bad.c:2 'unfinished work'
echo '# FIX''ME' > "$tree/tools/x.sh" && check=text finds tools/x.sh:1 'unfinished work'
echo 'int x;' > "$tree/src/base/bad.c" && finds src/base/bad.c:1 'file comment'
echo '/* other.c - wrong name. */' > "$tree/src/base/bad.c" && finds src/base/bad.c:1 'file comment'
echo 'int x;' > "$tree/tests/base/test_x.c" && finds tests/base/test_x.c:1 'what is tested'
plant src/base/bad.c 'int x; ' && finds src/base/bad.c:2 'trailing white space'
plant src/base/bad.c '\tint x;' && finds src/base/bad.c:2 'tab'
repeat 601 ': fine\n' > "$tree/tools/x.sh" && check=text finds tools/x.sh:601 'more than 600 lines'
echo 'if then' > "$tree/tools/x.sh" && check=text finds tools/x.sh:1 'cannot parse'

check=docs
# Documents: a file, a heading, a function in a file, and a folder of src that do not exist.
tour() { # tour TEXT: a tour with a row for every folder, and TEXT in line 1
    mkdir -p "$tree/docs"
    { printf '%b\n' "$1"; for folder in "$tree"/src/*/; do echo "| \`src/$(basename "$folder")\` | an idea |"; done; } > "$tree/docs/tour.md"
}
fine='See [tour](tour.md#a-part) and [main](../src/cli/main.c), `src/base/text.c`, `text.c`, `main` in `src/cli/main.c`, `src/*/main.c`, [x](https://x.org/y.c).'
tour "$fine\n## A part\n\`\`\`\nsrc/new/file.c \`src/new/file.c\`\n\`\`\`"
lint > /dev/null || { lint; echo "a tour of what there is is not clean"; failures=$((failures + 1)); }
tour 'In `src/base/gone.c`.' && finds docs/tour.md:1 'there is no src/base/gone.c'
tour 'In `gone.c`.' && finds docs/tour.md:1 'there is no gone.c'
tour 'In `src/*/gone_*.c`.' && finds docs/tour.md:1 'there is no src/'
tour 'See [it](gone.md).' && finds docs/tour.md:1 'there is no docs/gone.md'
tour 'See [it](#gone).' && finds docs/tour.md:1 'has no heading #gone'
tour 'It calls `hil_gone`.' && finds docs/tour.md:1 'there is no hil_gone in'
tour '`gone` in `src/cli/main.c`' && finds docs/tour.md:1 'src/cli/main.c has no gone'
tour '' && mkdir "$tree/src/odd" && finds docs/tour.md:1 'says what src/odd is'

check=architecture
# The picture of the layers: an include that it does not show yet, and one that is gone.
tour '' && LINT_ROOT=$tree "$SOURCE/tools/architecture.sh"
grep -q '<title>data includes format</title>' "$tree/docs/architecture.svg" || { echo "the picture lacks an arrow"; failures=$((failures + 1)); }
lint > /dev/null || { lint; echo "a new picture is not clean"; failures=$((failures + 1)); }
plant src/io/file.c '#include "base/text.h"' && finds docs/architecture.svg:1 'not what the includes say'
tour '' && LINT_ROOT=$tree "$SOURCE/tools/architecture.sh" && rm "$tree/src/data/jsonl.c" && finds docs/architecture.svg:1 'not what the includes say'

check=threads
# Threads and locks: one that docs/threads.md does not list, and one that it lists and is gone.
threads() { # threads ROW: the page with one row
    mkdir -p "$tree/docs"
    printf '%s\n' "$1" > "$tree/docs/threads.md"
}
locked='typedef struct box {\n    pthread_mutex_t lock;\n} box;'
threads '| `box.lock` | `src/base/box.c` | it |' && plant src/base/box.c "$locked"
lint > /dev/null || { lint; echo "a listed lock is not clean"; failures=$((failures + 1)); }
fresh
threads '' && plant src/base/bad.c '    pthread_create(&t, NULL, f, x);' && finds src/base/bad.c:1 'lists no thread'
threads '' && plant src/base/box.c "$locked" && finds src/base/box.c:3 'lists no lock'
threads '| `box.lock` | `src/base/box.c` | it |' && finds docs/threads.md:1 'has no lock box.lock'
threads '| `bag.lock` | `src/base/box.c` | it |' && plant src/base/box.c "$locked" && finds docs/threads.md:1 'has no lock bag.lock'

check=c
# The glossary: a noun of a header's functions without a row, a word with two, a file that is gone.
glossary() { # glossary ROW...: the page with these rows
    mkdir -p "$tree/docs"
    { printf '| word | meaning | file |\n|---|---|---|\n'; printf '| %s |\n' "$@"; } > "$tree/docs/glossary.md"
}
box='hil_status hil_box_open(void);\nvoid hil_boxes_free(void);\nstatic inline int hil_lid_count(void)\n{\n    return 1;\n}'
glossary 'bag, box | holds it | `src/base/text.c`' 'boxes | many | `src/base/text.c`' 'lid of a box | shuts it | `src/base/text.c`'
plant src/base/box.h "$box"
lint > /dev/null || { lint; echo "listed words are not clean"; failures=$((failures + 1)); }
fresh
glossary 'box | holds it | `src/base/text.c`' && plant src/base/box.h 'void hil_box_close(void);\nvoid hil_lid_open(void);' && finds src/base/box.h:3 'no row for lid'
glossary 'bag | holds it | `src/base/text.c`' && plant include/hilbert/status.h 'HIL_API const char *hil_box_name(void);' && finds include/hilbert/status.h:2 'no row for box'
glossary 'box | holds it | `src/base/text.c`' 'bag, box | it too | `src/base/text.c`' && finds docs/glossary.md:4 'box has a row already, line 3'
glossary 'box | holds it | `src/base/gone.h`' && check=docs finds docs/glossary.md:3 'there is no src/base/gone.h'

[ $failures = 0 ] || { echo "$failures rules do not hold"; exit 1; }
