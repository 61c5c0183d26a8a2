#!/usr/bin/env bash
# fuzz.sh - runs every fuzzer of a build folder from its corpus, on all cores (JOBS):
#   tools/fuzz.sh FOLDER SECONDS          each fuzzer for so long
#   tools/fuzz.sh FOLDER SECONDS RUNS     again and again, until so many inputs were tried in all
#   tools/fuzz.sh FOLDER merge            brings what was found into the corpus, the fewest inputs that
#                                         reach all code; those with a name that people gave them stay
# New inputs stay in FOLDER/found; one that crashes is left in FOLDER as crash-*.
set -euo pipefail

build=$1 seconds=$2 wanted=${3:-0} jobs=${JOBS:-$(nproc)}
source=$(cd "$(dirname "$0")/.." && pwd)
export build seconds source
cd "$build"
mapfile -t fuzzers < <(find . -maxdepth 1 -type f -name 'fuzz_*' -perm -u+x -printf '%f\n' | sort)
[ ${#fuzzers[@]} -gt 0 ] || { echo "fuzz: no fuzzers in $build" >&2; exit 1; }

merge() { # merge NAME
    local corpus=$source/fuzz/corpus/$1 least=minimal/$1
    local hash='????????????????????????????????????????'
    mkdir -p "$least" "found/$1"
    find "$corpus" -type f -not -name "$hash" -exec cp -t "$least" {} +
    "./fuzz_$1" -use_counters=0 -set_cover_merge=1 -rss_limit_mb=2048 "$least" "$corpus" "found/$1" \
        > "$1.log" 2>&1 || { tail -n 20 "$1.log"; return 1; }
    find "$corpus" -type f -name "$hash" -delete
    find "$least" -type f -name "$hash" -exec cp -t "$corpus" {} +
    echo "fuzz: $1: $(find "$corpus" -type f | wc -l) inputs"
}
if [ "$seconds" = merge ]; then
    rm -rf minimal
    for fuzzer in "${fuzzers[@]}"; do merge "${fuzzer#fuzz_}"; done
    exit
fi

copies=1 # of each at once: no core is idle
if [ "$wanted" -gt 0 ]; then copies=$(((jobs + ${#fuzzers[@]} - 1) / ${#fuzzers[@]})); fi
rm -rf counts logs
mkdir -p counts logs

fuzz() { # fuzz FUZZER NUMBER: adds its inputs to counts/NAME
    local name=${1#fuzz_} log=logs/${1#fuzz_}.$2 runs
    mkdir -p "found/$name"
    if ! "./$1" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
        "found/$name" "$source/fuzz/corpus/$name" > "$log" 2>&1; then
        tail -n 40 "$log"
        echo "fuzz: $name failed; the input is in $build" >&2
        return 255 # xargs stops
    fi
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    echo "$runs" >> "counts/$name"
    rm -f "$log"
}
export -f fuzz
total() { cat counts/* | awk '{ sum += $1 } END { printf "%d", sum }'; }

round=0
while :; do
    for fuzzer in "${fuzzers[@]}"; do
        for ((copy = 0; copy < copies; ++copy)); do echo "$fuzzer $round.$copy"; done
    done | xargs -P "$jobs" -L 1 bash -c 'fuzz "$@"' fuzz
    round=$((round + 1))
    [ "$(total)" -lt "$wanted" ] || break
    echo "fuzz: $(total) of $wanted runs after $SECONDS s"
done
for fuzzer in "${fuzzers[@]}"; do
    echo "fuzz: ${fuzzer#fuzz_}: $(awk '{ sum += $1 } END { printf "%d", sum }' "counts/${fuzzer#fuzz_}") runs"
done
echo "fuzz: $(total) runs in all, ${#fuzzers[@]} fuzzers, $SECONDS s, nothing found"
