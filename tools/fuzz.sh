#!/usr/bin/env bash
# fuzz.sh - runs every fuzzer of a build folder from its corpus: tools/fuzz.sh FOLDER SECONDS
# New inputs stay in FOLDER; one that crashes is left there as crash-*.
set -euo pipefail

build=$1 seconds=$2
source=$(cd "$(dirname "$0")/.." && pwd)
cd "$build"
for fuzzer in fuzz_*; do
    [ -x "$fuzzer" ] && [ -f "$fuzzer" ] || continue
    name=${fuzzer#fuzz_}
    mkdir -p "found/$name"
    log=$name.log
    start=$SECONDS
    if ! "./$fuzzer" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
        "found/$name" "$source/fuzz/corpus/$name" > "$log" 2>&1; then
        tail -n 40 "$log"
        echo "fuzz: $name failed; the input is in $build" >&2
        exit 1
    fi
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    echo "fuzz: $name: $runs runs in $((SECONDS - start)) s, nothing found"
done
