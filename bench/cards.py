#!/usr/bin/env python3
"""cards.py - cards of 24, 16, 12 and 8 GiB on PCIe 4 x8: 3B and 8B in full and 8B with QLoRA.

    python3 bench/cards.py [--hilbert PROGRAM] [--only 3b,8b-qlora,8b] [--cards 24,16,12,8]
        [--plans] [--work DIR] [--disk DIR] [--tiny]

Two things for each model and card, as two tables:
- plans: the rehearsal on the described desktop of that card (clusters/rtx-*.json); needs no GPU.
- runs, on a large GPU that stands for the card: as much of its memory as the card would give, and
  its bus limited to 12 GB/s (--device cuda@12, see src/device/device_limit.h). It computes faster
  than the card would, so what is tested are memory and movement: the budgets that were held, the
  losses, which must be those of a run in the whole GPU with its full bus, bit for bit, and the
  seconds of a step beside those of the plan that the run itself made and printed.

--plans makes the first table alone. The runs of 3b and 8b-qlora take about 150 s on an H200, those
of 8b about 180 s, so two commands of `--only` each end within 300 s. What was measured is kept in
WORK/cards.json, and tables are made of all that is there, in bench/results/<date>-cards-<GPU>.md.
--tiny runs all of it on any processor, with numbers that mean nothing: it tests the script.
"""
import argparse
import datetime
import json
import os
import re
import statistics
import subprocess
import sys

import gpu_shapes
import report
from gpu_hilbert import GIB, Failed, Hilbert, free_memory, write_tokens

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
MIB = 1 << 20
BUS = 12  # GB/s
BATCH, SEQ, STEPS = 16, 1024, 3
CARDS = {24: "rtx-3090", 16: "rtx-4060-ti", 12: "rtx-4070", 8: "rtx-4060"}
QLORA = ("--adapter", "lora", "--rank", 16, "--alpha", 16, "--base-dtype", "nf4")
JOBS = {"3b": ("3b", ()), "8b-qlora": ("8b", QLORA), "8b": ("8b", ())}
TINY_BUDGET = {24: 3 * MIB, 16: 2 * MIB, 12: 3 * MIB // 2, 8: 5 * MIB // 4}
WITHIN = 0.15
YES = {True: "yes", False: "NO"}


def budget(card):
    """What hilbert takes by itself of a card's memory: less CUDA's context and its reserve."""
    return (card << 30) - (card << 30) // 50 - 956 * MIB


class Bench:
    def __init__(self, args):
        self.args = args
        os.makedirs(args.work, exist_ok=True)
        self.kept = os.path.join(args.work, "cards.json")
        self.device = "threads" if args.tiny else "cuda"
        self.bus = 0.05 if args.tiny else BUS
        self.hilbert = Hilbert(args.hilbert, args.work, self.device, args.disk)
        self.batch, self.seq = (4, 64) if args.tiny else (BATCH, SEQ)
        write_tokens(self.hilbert.path("data.npy"), 256 if args.tiny else 1 << 15,
                     1 << (14 if args.tiny else 18))
        self.lines = {}
        if os.path.exists(self.kept):
            with open(self.kept) as file:
                self.lines = json.load(file)

    def keep(self, key, line):
        self.lines[key] = line
        print(key, json.dumps(line), file=sys.stderr, flush=True)
        with open(self.kept, "w") as file:
            json.dump(self.lines, file, indent=1)

    def config(self, job):
        return gpu_shapes.shape_of(JOBS[job][0], self.args.tiny)[0]

    def plan(self, job, card):
        """The rehearsal on the described desktop."""
        name = os.path.join(ROOT, "clusters", CARDS[card] + ".json")
        command = [self.args.hilbert, "plan", "--json", "--cluster", name, "--model",
                   self.hilbert.config(self.config(job)), "--batch", self.batch, "--seq", self.seq,
                   "--dtype", "bf16", *JOBS[job][1]]
        done = subprocess.run([*map(str, command)], capture_output=True, text=True)
        try:
            plan = json.loads(done.stdout)
        except ValueError:
            return {"error": (done.stderr.strip().splitlines() or ["no message"])[-1]}
        if not plan["fits"]:
            return {"error": plan["missing"]}
        return {"seconds": plan["step_seconds"], "limit": plan["limit"], "peak": plan["peak"],
                "tokens_per_s": self.batch * self.seq / plan["step_seconds"]}

    def train(self, job, device, *options):
        run = self.hilbert.train(self.config(job), self.batch, self.seq, STEPS, self.args.limit,
                                 ["--dtype", "bf16", *JOBS[job][1], *options], device=device,
                                 watch=not self.args.tiny)
        with open(os.path.join(self.hilbert.path("out"), "run.json")) as file:
            about = json.load(file)
        lines = run["lines"]
        last = lines[-1]
        seconds = statistics.median(line["seconds"] for line in lines[1:])
        assumed = "host" in about["plan"]["assumed_speeds"]  # all fits: nothing was measured
        planned = None if assumed else about["plan"]["step_seconds"]
        return {"device": about["environment"].get("device", ""),
                "losses": [line["loss"] for line in lines],
                "norms": [line["grad_norm"] for line in lines],
                "seconds": seconds, "planned": planned,
                "tokens_per_s": self.batch * self.seq / seconds, "limit": about["plan"]["limit"],
                "budget": about["budget"], "gpu_bytes": run["gpu_bytes"],
                "peak": {tier: last[f"{tier}_peak"] for tier in ("device", "host", "disk")},
                "waiting": sum(last.get("wait_seconds", {}).values()) / last["seconds"],
                "wall": run["wall"]}

    def attempt(self, key, *given):
        try:
            self.keep(key, self.train(*given))
        except (Failed, OSError, KeyError, subprocess.SubprocessError) as error:
            self.keep(key, {"error": str(error)})

    def run(self, job):
        """The reference in the whole GPU, then each card."""
        tiny = self.args.tiny
        host = 256 * MIB if tiny else free_memory() - 8 * GIB
        self.attempt(f"reference {job}", job, self.device)
        for card in self.args.cards:
            device = TINY_BUDGET[card] if tiny else budget(card)
            self.attempt(f"run {job} {card}", job, f"{self.device}@{self.bus}", "--device-memory",
                         device, "--host-memory", host, "--disk", self.args.disk)

    def measure(self):
        for job in self.args.only:
            for card in self.args.cards:
                self.keep(f"plan {job} {card}", self.plan(job, card))
            if not self.args.plans:
                self.run(job)


def gib(bytes_):
    return f"{bytes_ / GIB:.1f}"


def plan_rows(lines):
    for key, line in lines.items():
        kind, job, *card = key.split()
        if kind != "plan":
            continue
        start = f"| {job} | {card[0]} GiB, {CARDS[int(card[0])]} |"
        if "error" in line:
            yield f"{start} {line['error']} |"
            continue
        peak = line["peak"]
        yield (f"{start} {line['seconds']:.1f} | {line['tokens_per_s']:.0f} | {line['limit']} | "
               f"{gib(peak['device'])} | {gib(peak['host'])} | {gib(peak['disk'])} |")


def judge(line, reference, card):
    """Budgets, bits and the rehearsal: what holds of a run."""
    held = all(not line["budget"][tier] or line["peak"][tier] <= line["budget"][tier]  # 0: no limit
               for tier in line["peak"])
    if line["gpu_bytes"]:
        held = held and line["gpu_bytes"] <= card * GIB
    same = all(line[what] == reference.get(what) for what in ("losses", "norms"))
    if not line["planned"]:
        return held, same, "- | -"
    off = line["seconds"] / line["planned"] - 1
    return held, same, f"{line['planned']:.2f} | {off:+.0%}, {YES[abs(off) <= WITHIN]}"


def run_rows(lines):
    for key, line in lines.items():
        kind, job, *card = key.split()
        if kind != "run":
            continue
        start = f"| {job} | {card[0]} GiB |"
        if "error" in line:
            yield f"{start} {line['error']} |"
            continue
        held, same, off = judge(line, lines.get(f"reference {job}", {}), int(card[0]))
        driver = f", {gib(line['gpu_bytes'])} by the driver" if line["gpu_bytes"] else ""
        peak = line["peak"]
        yield (f"{start} {line['seconds']:.2f} | {off} | {line['tokens_per_s']:.0f} | {line['limit']} | "
               f"{gib(peak['device'])}{driver} | {gib(peak['host'])} | {gib(peak['disk'])} | "
               f"{YES[held]} | {YES[same]} |")


def text_of(args, lines):
    batch, seq = (4, 64) if args.tiny else (BATCH, SEQ)
    text = (f"# Cards of {', '.join(map(str, args.cards))} GiB on PCIe 4 x8, "
            f"{datetime.date.today()}\n\n`bench/cards.py`, commit {report.commit()}; {batch} x {seq} tokens a "
            "step, bf16, AdamW with fp32 master and moments; 8b-qlora: rank 16, the base in NF4.\n\n"
            "## Plans for the described desktops\n`hilbert plan --cluster NAME`: 128 GiB of RAM, one "
            "NVMe drive, 12 GB/s of the bus. GiB are the most that is held.\n\n"
            "| model | card | s/step | tokens/s | limited by | GPU | RAM | drive |\n"
            "|---|---|---|---|---|---|---|---|\n")
    text += "".join(row + "\n" for row in plan_rows(lines))
    rows = list(run_rows(lines))
    if not rows:
        return text
    devices = {line["device"] for line in lines.values() if "device" in line}
    whole = [f"{key.split()[1]} {line['seconds']:.2f} s" for key, line in lines.items()
             if key.startswith("reference") and "error" not in line]
    failed = [f"{key}: {line['error']}" for key, line in lines.items()
              if key.startswith("reference") and "error" in line]
    return text + (
        f"\n## Runs\n{'; '.join(sorted(devices))}; {report.machine()}. The memory that a card would "
        "give, its bus, and the GPU's own speed of computing. A step is the median of those after "
        "the first; the plan is the one that the run made. Same bits: losses and norms of gradients "
        f"of {STEPS} steps are those of the run in the whole GPU with its full bus "
        f"({', '.join(whole) or 'none'}).\n{''.join(f'- {line}' + chr(10) for line in failed)}\n"
        "| model | card | s/step | planned | off, within 15% | tokens/s | limited by | GPU GiB | RAM "
        "GiB | drive GiB | budgets held | same bits |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n"
        + "".join(row + "\n" for row in rows))


def main():
    parser = argparse.ArgumentParser(description="cards of 24 to 8 GiB on a slow bus")
    parser.add_argument("--hilbert", default=os.path.join(ROOT, "build/hilbert"))
    parser.add_argument("--only", default="3b,8b-qlora,8b", help="models, with commas")
    parser.add_argument("--cards", default=",".join(map(str, CARDS)), help="GiB, with commas")
    parser.add_argument("--plans", action="store_true", help="only the plans: needs no GPU")
    parser.add_argument("--work", default=os.path.join(ROOT, "build/cards"))
    parser.add_argument("--disk", help="a folder on the drive to use (default: WORK)")
    parser.add_argument("--results", default=os.path.join(HERE, "results"))
    parser.add_argument("--limit", type=int, default=100, help="seconds of one run")
    parser.add_argument("--tiny", action="store_true", help="tests the script, on any processor")
    args = parser.parse_args()
    args.disk = args.disk or args.work
    args.only = args.only.split(",")
    args.cards = [int(card) for card in args.cards.split(",")]
    if set(args.only) - set(JOBS) or set(args.cards) - set(CARDS):
        parser.error(f"models are {', '.join(JOBS)}, cards {', '.join(map(str, CARDS))}")
    bench = Bench(args)
    bench.measure()
    devices = [line["device"] for line in bench.lines.values() if line.get("device")]
    what = "plans" if not devices else re.sub(",.*", "", devices[-1])
    text = text_of(args, bench.lines)
    print(text)
    report.write(f"cards {what}", "md", text, args.results)


if __name__ == "__main__":
    main()
