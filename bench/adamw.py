#!/usr/bin/env python3
"""adamw.py - hilbert's AdamW against memory bandwidth, PyTorch's and DeepSpeed's.

    python bench/adamw.py [--elements N] [--threads N] [--rounds N] [--no-build] [--save]

The limit is the fastest loop that reads and writes the same arrays in the same proportions without
the arithmetic (with ordinary or non-temporal stores). The parameters are cut into pieces, far
larger than the caches. Loops and peers take turns piece by piece, `rounds` times, on the same
cores, and the best time of each counts: a busy machine leaves some short while to everybody.
PyTorch and DeepSpeed are used where this Python has them; DeepSpeed compiles its kernel first.
--save writes the numbers to bench/results/<date>-adamw-<machine>.json.
"""
import argparse
import os
import statistics
import subprocess
import sys
import time

import report

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
BUILD = os.path.join(ROOT, "build")
STREAM = ["copy", "copy, non-temporal", "triad", "triad, non-temporal"]
MIX = {"fp32": ["mix fp32", "mix fp32, non-temporal"],
       "bf16": ["mix bf16", "mix bf16, non-temporal"]}
OURS = {"fp32": "adamw fp32", "bf16": "adamw bf16"}
PEERS = {"PyTorch fused": 28, "DeepSpeed CPUAdam": 28}
PIECES = 8
PAUSE = 0.02  # seconds, for threads that spin after their work


class Loops:
    """The loops of bench_adamw, one run per question."""

    def __init__(self, elements, threads):
        self.process = subprocess.Popen(
            [os.path.join(BUILD, "bench_adamw"), str(elements), str(PIECES), str(threads)],
            text=True, bufsize=1, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __call__(self, piece, name):
        self.process.stdin.write(f"{piece} {name}\n")
        seconds, each = map(float, self.process.stdout.readline().split())
        return seconds, each

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def peer_steps(elements, threads, notes):
    """For each peer that is there, by name: one function per piece that makes its step."""
    steps = {}
    os.environ["THP_MEM_ALLOC_ENABLE"] = "1"  # PyTorch: large pages, as hilbert has
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    try:
        import torch
    except ImportError:
        notes["PyTorch fused"] = "this Python has no torch"
        return steps
    torch.set_num_threads(threads)
    notes["torch"] = torch.__version__

    def add(name, create):
        steps[name] = []
        for _ in range(PIECES):
            weight = torch.nn.Parameter(torch.full((elements,), 0.01))
            weight.grad = torch.full((elements,), 0.001)
            optimizer = create([weight])
            optimizer.step()  # makes the states
            steps[name].append(optimizer.step)

    options = dict(lr=1e-4, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    add("PyTorch fused", lambda p: torch.optim.AdamW(p, fused=True, **options))
    try:
        os.environ["PATH"] = os.path.dirname(sys.executable) + ":" + os.environ["PATH"]
        import deepspeed
        from deepspeed.ops.adam import DeepSpeedCPUAdam
        notes["deepspeed"] = deepspeed.__version__
        add("DeepSpeed CPUAdam", lambda p: DeepSpeedCPUAdam(p, adamw_mode=True, **options))
    except Exception as error:  # whatever its build meets here
        notes["DeepSpeed CPUAdam"] = f"cannot be used here: {str(error).splitlines()[0][:200]}"
    return steps


def measure(args, notes):
    """Seconds of every piece of every round and bytes per element, by name."""
    piece = args.elements // PIECES
    loops, times, each = Loops(piece, args.threads), {}, dict(PEERS)
    peers = peer_steps(piece, args.threads, notes)
    loop_names = STREAM + MIX["fp32"] + MIX["bf16"] + list(OURS.values())
    order = loop_names + list(peers)
    for n in range(args.rounds * PIECES):
        for name in order:
            if name in peers:
                start = time.perf_counter()
                peers[name][n % PIECES]()
                seconds = time.perf_counter() - start
                time.sleep(PAUSE)
            else:
                seconds, each[name] = loops(n % PIECES, name)
            times.setdefault(name, []).append(seconds)
        order.append(order.pop(0))  # nobody is always first after a pause
        if n % PIECES == PIECES - 1:
            print(f"round {n // PIECES + 1} of {args.rounds}", file=sys.stderr, flush=True)
    loops.close()
    return times, each


def summarise(args, times, each):
    rows, piece = [], args.elements // PIECES
    rate = {name: piece * each[name] / min(seconds) for name, seconds in times.items()}
    for name, seconds in times.items():
        row = {"what": name, "bytes_per_element": each[name], "best_seconds": min(seconds),
               "median_seconds": statistics.median(seconds),
               "elements_per_second": piece / min(seconds),
               "bytes_per_second": rate[name]}
        dtype = next((dtype for dtype, ours in OURS.items() if ours == name), None)
        if dtype:
            row["of_limit"] = rate[name] / max(rate[mix] for mix in MIX[dtype])
            for peer in PEERS:
                if peer in times:
                    row[f"over {peer}"] = min(times[peer]) / min(seconds)
        rows.append(row)
    return rows


def print_table(args, rows, notes):
    print(f"{report.machine()}, {args.threads} threads, {args.elements / 1e6:.0f}M parameters "
          f"in {PIECES} pieces, best of {args.rounds * PIECES}\n")
    heads = ["what", "bytes/parameter", "ms", "G parameters/s", "GB/s", "of the mix",
             *(f"over {peer}" for peer in PEERS)]
    print("| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|")
    for row in rows:
        ratios = [row.get("of_limit"), *(row.get(f"over {peer}") for peer in PEERS)]
        cells = [row["what"], f"{row['bytes_per_element']:g}", f"{row['best_seconds'] * 1e3:.1f}",
                 f"{row['elements_per_second'] * 1e-9:.3f}",
                 f"{row['bytes_per_second'] * 1e-9:.1f}",
                 *(f"{ratio:.2f}" if ratio else "" for ratio in ratios)]
        print("| " + " | ".join(cells) + " |")
    for what, note in notes.items():
        print(f"\n{what}: {note}", end="")
    print()


def main():
    parser = argparse.ArgumentParser(description="AdamW against memory bandwidth and its peers")
    parser.add_argument("--elements", type=int, default=100 << 20)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--no-build", action="store_true", help="build/bench_adamw is up to date")
    parser.add_argument("--save", action="store_true")
    args = parser.parse_args()
    args.elements = max(args.elements // (PIECES * 65536), 1) * PIECES * 65536
    if not args.no_build:
        subprocess.run(["make", "-s", "-C", ROOT, "all"], check=True, stdout=sys.stderr)
        subprocess.run(["cmake", "--build", BUILD, "--target", "bench_adamw"], check=True,
                       stdout=sys.stderr)
    notes = {}
    times, each = measure(args, notes)
    rows = summarise(args, times, each)
    print_table(args, rows, notes)
    if args.save:
        report.save({"threads": args.threads, "elements": args.elements, "pieces": PIECES,
                     "rounds": args.rounds, **notes, "rows": rows}, "adamw")


if __name__ == "__main__":
    main()
