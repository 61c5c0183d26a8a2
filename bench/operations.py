#!/usr/bin/env python3
"""operations.py - what a plan predicts for each operation beside what a run takes: one table for
each configuration of predictions.py that a CPU computes in one process.

    python3 bench/operations.py [--hilbert PROGRAM] [--only WORDS] [--disk DIR] [--list]

`hilbert plan --trace` writes the operations of the planned step, `hilbert train --trace` those of
every step. Measured are those of the fastest step after the first, with a fresh probe before it.
What they wait for is not counted, nor are operations below 1% of the step. The tables are printed and written to
bench/results/<date>-operations-<machine>.md.
"""
import argparse
import datetime
import json
import os
import re
import shutil
import subprocess
import sys

import gpu
import predictions
import report
from gpu_hilbert import Hilbert, write_tokens

HERE = os.path.dirname(os.path.abspath(__file__))
LEAST = 0.01
STEPS = 12


def inside(spans, outer):
    """The spans within each of the outer ones; both are in the order of their starts."""
    left, lists = list(reversed(spans)), []
    for span in outer:
        lists.append([])
        while left and left[-1]["ts"] < span["ts"] + span["dur"]:
            lists[-1].append(left.pop())
    return lists


def computing(path):
    """Segments with the operations inside them; seconds are those without waiting."""
    with open(path) as file:
        spans = json.load(file)
    name = {s["tid"]: s["args"]["name"] for s in spans if s["name"] == "thread_name"}
    compute, operations, waits = (
        sorted((s for s in spans if s["ph"] == "X" and name[s["tid"]] == row),
               key=lambda s: s["ts"]) for row in ("compute", "operations", "waiting"))
    for outer in (compute, operations):
        for span, waited in zip(outer, inside(waits, outer)):
            span["seconds"] = span["dur"] - sum(w["dur"] for w in waited if w["ts"] >= span["ts"])
    return [{**span, "operations": found}
            for span, found in zip(compute, inside(operations, compute))]


def divide(segments, steps):
    """The segments of each step: groups of micro-batches go forward, and then backward."""
    groups = []
    for before, segment in zip([None, *segments], segments):
        back = before and before["name"].endswith("backward")
        if not before or (back and segment["name"].endswith("forward")):
            groups.append([])
        groups[-1].append(segment)
    each = len(groups) // steps
    return [sum(groups[i * each:(i + 1) * each], []) for i in range(steps)]


def total(segments):
    """Microseconds and calls of each operation, and of what is between them."""
    sums = {}
    for segment in segments:
        left = segment["seconds"]
        for operation in segment["operations"]:
            took, calls = sums.get(operation["name"], (0, 0))
            sums[operation["name"]] = took + operation["seconds"], calls + 1
            left -= operation["seconds"]
        took, calls = sums.get("between operations", (0, 0))
        sums["between operations"] = took + max(left, 0), calls + 1
    return sums


def milliseconds(took):
    return f"{took / 1e3:.1f} ms" if took >= 1e5 else f"{took / 1e3:.3f} ms"


def table(row, planned, measured):
    whole = sum(took for took, _ in measured.values())
    text = (f"\n## {row.name}\n\n| operation | calls | planned calls | measured | planned | "
            "planned / measured |\n|---|---|---|---|---|---|\n")
    for name, (took, calls) in sorted(measured.items(), key=lambda item: -item[1][0]):
        if took >= LEAST * whole:
            expected, times = planned.get(name, (0, 0))
            text += (f"| {name} | {calls} | {times} | {milliseconds(took)} | "
                     f"{milliseconds(expected)} | {expected / took:.2f} |\n")
    expected = sum(took for took, _ in planned.values())
    return text + (f"| all computing | | | {milliseconds(whole)} | {milliseconds(expected)} | "
                   f"{expected / whole:.2f} |\n")


def compare(hilbert, row, disk):
    options = [*row.options, *(["--disk", f"{disk}:{row.disk}"] if row.disk else [])]
    shutil.rmtree(hilbert.path("cache"), ignore_errors=True)
    trace = hilbert.path("trace.json")
    command = [hilbert.program, "plan", "--model", hilbert.config(row.config), "--batch", row.batch,
               "--seq", row.seq, "--device", "cpu", *options, "--trace", trace]
    subprocess.run([*map(str, command)], check=True, stdout=subprocess.DEVNULL)
    planned = total(computing(trace))
    count = min(row.steps, STEPS)
    hilbert.train(row.config, row.batch, row.seq, count, predictions.ROUND_LIMIT,
                  [*options, "--trace", trace], ends=True)
    steps = divide(computing(trace), count)[1:]
    fastest = min(steps, key=lambda step: sum(s["seconds"] for s in step))
    return table(row, planned, total(fastest))


def main():
    parser = argparse.ArgumentParser(description="operations as planned beside measured ones")
    parser.add_argument("--hilbert", default=gpu.find_hilbert(), help="the program")
    parser.add_argument("--only", default="", help="rows whose name has this in it")
    parser.add_argument("--work", default=os.path.join(HERE, "..", "build", "operations"))
    parser.add_argument("--disk", help="a folder on the drive to use (default: WORK)")
    parser.add_argument("--out", help="the tables' file (default: in bench/results)")
    parser.add_argument("--list", action="store_true", help="show the rows")
    args = parser.parse_args()
    rows = [r for r in predictions.ROWS if r.kind == "cpu" and re.search(args.only, r.name)]
    if args.list or not rows:
        print("\n".join(r.name for r in predictions.ROWS if r.kind == "cpu"))
        sys.exit(0 if rows else f"no such row: {args.only}")
    if not args.hilbert:
        sys.exit("no program: run make first, or give --hilbert")
    os.makedirs(args.work, exist_ok=True)
    hilbert = Hilbert(args.hilbert, args.work, "cpu", args.work)
    os.environ["XDG_CACHE_HOME"] = hilbert.path("cache")
    write_tokens(hilbert.path("data.npy"), 256, 1 << 18)
    machine = report.machine()
    text = (f"# Operations as planned beside measured ones, {datetime.date.today()}\n\n"
            f"`bench/operations.py`; {machine}; commit {gpu.commit(args.hilbert)}.\nMeasured: the "
            "fastest step after the first. Both are sums over the calls of a step.\n")
    for row in rows:
        text += compare(hilbert, row, args.disk or args.work)
    words = re.sub("[^a-z0-9]+", "-", machine.lower()).strip("-")
    report.show(text, args.out or os.path.join(
        HERE, "results", f"{datetime.date.today()}-operations-{words}.md"))


if __name__ == "__main__":
    main()
