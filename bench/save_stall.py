#!/usr/bin/env python3
"""save_stall.py - how long a checkpoint holds training up, against writing the same bytes.

    python bench/save_stall.py [--out DIR] [--tokens N] [--steps N] [--saves N] [--record]

One run saves every 2 N steps; the N steps after a save are compared with the N steps that follow
them, which nothing disturbs. The difference is the stall; its peer is a loop that writes and syncs
as many bytes in the same folder, before and after the run. Once with all states in memory, once
with the optimizer's state on disk. Below 5% is the goal where the disk is not the limit; where it
is, the extra bytes' own time (100%). The processor's time that saving takes beside the steps is
told as well: a busy machine does not change it. Medians over the saves.
--record writes the numbers to bench/results/<date>-save-stall-<machine>.json.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import report
import run
import shapes
from disk_sweep import HILBERT, ROOT, parameters, size

SHAPE = "llama-100m"
PIECE = 4 << 20
GOAL = 0.05
TICK = os.sysconf("SC_CLK_TCK")


def write_and_sync(folder, count):
    """Seconds for `count` bytes in pieces, as they come from memory."""
    path, piece = os.path.join(folder, "same-bytes"), os.urandom(PIECE)
    start = time.monotonic()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for at in range(0, count, PIECE):
        os.write(file, piece[:min(PIECE, count - at)])
    os.fsync(file)
    os.close(file)
    seconds = time.monotonic() - start
    os.remove(path)
    return seconds


def processor_seconds(pid):
    """Of all threads of a process so far."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def follow(command, metrics):
    """Runs the command; when each of its steps ended, and what it had computed by then."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               text=True)
    ends, read = [], 0
    while process.poll() is None:
        time.sleep(0.005)
        if not os.path.exists(metrics):
            continue
        with open(metrics) as file:
            file.seek(read)
            for line in file:
                read += len(line)
                if "seconds" in json.loads(line):
                    ends.append((time.monotonic(), processor_seconds(process.pid)))
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)}\nfailed:\n{process.stderr.read()[-2000:]}")
    return ends


class Stall:
    def __init__(self, args, folder):
        self.args, self.folder, self.rows = args, folder, []
        self.config = shapes.SHAPES[SHAPE]
        self.count = parameters(self.config)
        self.bytes = 12 * self.count
        with open(self.path("config.json"), "w") as file:
            json.dump(self.config, file)
        steps = 2 * args.steps * (args.saves + 1) + 1
        run.write_tokens(self.path("data.npy"), self.config["vocab_size"], args.tokens * steps)

    def path(self, name):
        return os.path.join(self.folder, name)

    def train(self, *budgets):
        a, out = self.args, self.path("out")
        command = [HILBERT, "train", "--model", self.path("config.json"), "--data",
                   self.path("data.npy"), "--out", out, "--quiet", "--lr", "1e-4", "--schedule",
                   "constant", "--dtype", "bf16", "--threads", str(a.threads), "--seq", str(a.seq),
                   "--batch", str(a.tokens // a.seq), "--save-every", str(2 * a.steps), "--keep",
                   "1", "--steps", str(2 * a.steps * (a.saves + 1)), *map(str, budgets)]
        ends = follow(command, os.path.join(out, "metrics.jsonl"))
        shutil.rmtree(out)
        return ends

    def measure(self, name, *budgets):
        print(f"{name}: {self.args.saves} saves", file=sys.stderr, flush=True)
        peers = [write_and_sync(self.folder, self.bytes)]
        ends, n = self.train(*budgets), self.args.steps
        peers.append(write_and_sync(self.folder, self.bytes))
        parts = []
        for save in range(1, self.args.saves + 1):
            at = 2 * n * save - 1  # the step that was saved
            spans = [[b - a for a, b in zip(ends[at + i * n], ends[at + (i + 1) * n])]
                     for i in range(2)]
            parts.append([with_save - without for with_save, without in zip(*spans)])
        steps = [b[0] - a[0] for a, b in zip(ends[1:], ends[2:])]
        peer, stall = min(peers), statistics.median(part[0] for part in parts)
        self.rows.append({
            "states": name, "step_seconds": statistics.median(steps), "write_seconds": peer,
            "stall_seconds": stall, "of_writing": stall / peer,
            "stalls": [part[0] for part in parts],
            "processor_seconds": statistics.median(part[1] for part in parts)})

    def tell(self):
        print(f"{report.machine()}, {self.args.threads} threads, {SHAPE} ({self.count / 1e6:.0f}M "
              f"parameters, bf16), {self.args.tokens} tokens a step; a checkpoint of "
              f"{self.bytes * 1e-9:.2f} GB\n")
        print("| states | step | write and sync | stall of a save | of writing | processor |\n"
              "|---|---|---|---|---|---|")
        for row in self.rows:
            print(f"| {row['states']} | {row['step_seconds']:.2f} s | {row['write_seconds']:.2f} s "
                  f"| {row['stall_seconds']:.3f} s | {100 * row['of_writing']:.1f}% | "
                  f"{row['processor_seconds']:.2f} s |")
        print(f"\ngoal: below {100 * GOAL:.0f}% where the disk is not the limit")

    def save(self):
        settings = {key: value for key, value in vars(self.args).items() if key != "out"}
        report.save({"parameters": self.count, **settings, "rows": self.rows}, "save-stall")


def main():
    parser = argparse.ArgumentParser(description="what saving costs the steps beside it")
    parser.add_argument("--out", default=os.path.join(ROOT, "build"), help="a folder on the drive")
    parser.add_argument("--tokens", type=int, default=1024, help="of a step")
    parser.add_argument("--steps", type=int, default=4, help="after a save, and as many without")
    parser.add_argument("--saves", type=int, default=5)
    parser.add_argument("--seq", type=int, default=128)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--record", action="store_true")
    args = parser.parse_args()
    if not os.path.exists(HILBERT):
        sys.exit("build/hilbert does not exist: run make first")
    with tempfile.TemporaryDirectory(prefix="save-stall-", dir=args.out) as folder:
        stall = Stall(args, folder)
        stall.measure("in memory", "--device-memory", size(40 * stall.count))
        stall.measure("on disk", "--device-memory", size(9 * stall.count), "--host-memory",
                      "96M", "--disk", folder)
        stall.tell()
        if args.record:
            stall.save()


if __name__ == "__main__":
    main()
