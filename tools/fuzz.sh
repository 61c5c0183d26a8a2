#!/usr/bin/env bash
# fuzz.sh - runs every fuzzer of a build folder from its corpus, one on each core:
#   tools/fuzz.sh FOLDER SECONDS
# New inputs stay in FOLDER; one that crashes is left there as crash-*.
set -euo pipefail

export build=$1 seconds=$2
source=$(cd "$(dirname "$0")/.." && pwd)
export source
cd "$build"

fuzz() { # fuzz FUZZER
    local name=${1#fuzz_} start=$SECONDS runs
    mkdir -p "found/$name"
    if ! "./$1" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
        "found/$name" "$source/fuzz/corpus/$name" > "$name.log" 2>&1; then
        tail -n 40 "$name.log"
        echo "fuzz: $name failed; the input is in $build" >&2
        return 255 # xargs stops
    fi
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$name.log")
    echo "fuzz: $name: $runs runs in $((SECONDS - start)) s, nothing found"
}
export -f fuzz
find . -maxdepth 1 -type f -name 'fuzz_*' -perm -u+x -printf '%f\n' | sort |
    xargs -P "$(nproc)" -I {} bash -c 'fuzz {}'
