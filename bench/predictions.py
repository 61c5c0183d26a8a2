#!/usr/bin/env python3
"""predictions.py - what plans predict beside what runs take: one table of this machine.

    python3 bench/predictions.py [--hilbert PROGRAM] [--gpu] [--only WORDS] [--rounds N]
        [--limit SECONDS] [--append] [--disk DIR] [--tiny] [--list]

Each configuration is trained for some steps, `rounds` times, each time with a fresh probe of the
machine beside it. A probe takes the fastest of several short runs, so seconds are those of the
fastest step after the first, and of all rounds the least of both. On a busy machine a probe still
finds quiet moments and a step does not: the table says how much of the cores others used. Peaks of
every tier and bytes of every link must be those of the plan to the byte in every step, bytes after
the first one ("exact"; of a mixture of experts they may be "less"). What this machine cannot run is
listed as left out.
`--gpu` runs the configurations of one GPU too, before all others. Results are kept in
WORK/predictions.json, and the table is written to bench/results/<date>-predictions-<machine>.md.
"""
import argparse
import datetime
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import time

import gpu
import gpu_shapes
import mixture
import report
from gpu_hilbert import Failed, Hilbert, write_tokens

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
LOW, HIGH = 0.85, 1.15
ROUND_LIMIT = 60.0
BYTES = {"disk_read_bytes": "disk_read", "disk_written_bytes": "disk_written",
         "to_device_bytes": "to_device", "to_host_bytes": "to_host",
         "gathered_bytes": "gathered", "reduced_bytes": "reduced"}
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
       "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
       "OMPI_MCA_btl_vader_single_copy_mechanism": "none", "PMIX_MCA_gds": "hash",
       "OMPI_MCA_plm_rsh_agent": "false"}
# All ranks share one loopback link of a network namespace.
THROTTLE = ('ip link set lo up && tc qdisc add dev lo root tbf rate "$1" burst 256kb latency 1s && '
            "shift && exec env OMPI_MCA_pml=ob1 OMPI_MCA_btl=tcp,self "
            'OMPI_MCA_btl_tcp_if_include=lo "$@"')

SMALL = gpu_shapes.llama(128, 384, 4, 4, 2, True, 512)
NARROW = gpu_shapes.gpt2(256, 6, 8, 256, 4096)
MIDDLE = gpu_shapes.llama(512, 1408, 8, 8, 4, True, 8192)
LONG = gpu_shapes.llama(256, 768, 4, 4, 4, True, 1024)
EXPERTS = dict(mixture.shape(4, True), hidden_size=256, head_dim=64, num_experts=16,
               moe_intermediate_size=128, vocab_size=1024)
ONE_B, OLD = gpu_shapes.SHAPES["1b"][0], gpu_shapes.SHAPES["125m"][0]
LORA = ["--adapter", "lora", "--rank", 16]
QLORA = [*LORA, "--base-dtype", "nf4"]


class Row:
    """A configuration: `kind` is cpu, ranks or gpu; `rate` is that of tc, for throttled ranks."""

    def __init__(self, kind, name, config, size, steps, *options, ranks=1, rate=None, disk=None):
        self.kind, self.name, self.config, self.steps = kind, name, config, steps
        self.batch, self.seq = size
        self.options, self.ranks, self.rate, self.disk = options, ranks, rate, disk
        self.sparse = "num_experts" in config


def budgets(device, host):
    return ["--device-memory", device, "--host-memory", host]


ROWS = [
    Row("gpu", "GPU: 125M, 8 x 1024, in memory", OLD, (8, 1024), 12),
    Row("gpu", "GPU: 125M, 1 x 128, small step", OLD, (1, 128), 30),
    Row("gpu", "GPU: 1B, 4 x 2048, in memory", ONE_B, (4, 2048), 8),
    Row("gpu", "GPU: 125M in 1 GiB", OLD, (8, 1024), 8, "--micro-batch", 2, *budgets("1G", "8G")),
    Row("gpu", "GPU: 1B in 6 GiB, states in RAM", ONE_B, (8, 2048), 6, *budgets("6G", "32G")),
    Row("gpu", "GPU: 1B in 6 GiB, states on disk", ONE_B, (8, 2048), 4, *budgets("6G", "4G"),
        disk="32G"),
    Row("gpu", "GPU: 1B, QLoRA", ONE_B, (8, 1024), 8, *QLORA),
    Row("gpu", "GPU: 2 layers of 128 experts", mixture.shape(2, False), (4, 2048), 6),
    Row("cpu", "small step, fp32", SMALL, (2, 64), 100, "--dtype", "fp32"),
    Row("cpu", "small step, bf16", SMALL, (2, 64), 100),
    Row("cpu", "small step, 1 thread", SMALL, (2, 64), 100, "--threads", 1),
    Row("cpu", "GPT-2 of 256, 4 x 128, fp32", NARROW, (4, 128), 20, "--dtype", "fp32"),
    Row("cpu", "Llama of 512, 4 x 256, fp32", MIDDLE, (4, 256), 5, "--dtype", "fp32"),
    Row("cpu", "Llama of 512, 4 x 256, bf16", MIDDLE, (4, 256), 5),
    Row("cpu", "8 micro-batches", LONG, (16, 256), 6, "--micro-batch", 2),
    Row("cpu", "one sequence of 2048", LONG, (1, 2048), 6),
    Row("cpu", "8-bit AdamW", MIDDLE, (2, 128), 6, "--optimizer", "adamw8bit"),
    Row("cpu", "small budgets", MIDDLE, (4, 256), 4, *budgets("64M", "512M")),
    Row("cpu", "states partly on disk", MIDDLE, (4, 256), 4, *budgets("128M", "128M"), disk="1G"),
    Row("cpu", "states on disk, little memory", MIDDLE, (2, 128), 4, *budgets("48M", "24M"),
        disk="1G"),
    Row("cpu", "LoRA", MIDDLE, (4, 256), 5, *LORA),
    Row("cpu", "QLoRA", MIDDLE, (4, 256), 5, *QLORA),
    Row("cpu", "mixture of 16 experts", EXPERTS, (4, 128), 12),
    Row("cpu", "mixture, experts partly on disk", EXPERTS, (4, 128), 8, *budgets("24M", "24M"),
        disk="1G"),
    Row("ranks", "2 ranks", LONG, (8, 256), 8, ranks=2),
    Row("ranks", "2 ranks, 1 Gbit/s", LONG, (4, 256), 6, ranks=2, rate="1gbit"),
    Row("ranks", "2 ranks, 200 Mbit/s", LONG, (4, 256), 5, ranks=2, rate="200mbit"),
    Row("ranks", "4 ranks, 1 Gbit/s", LONG, (8, 256), 5, ranks=4, rate="1gbit"),
    Row("ranks", "8 ranks, 1 Gbit/s", LONG, (8, 256), 5, ranks=8, rate="1gbit"),
]


def busy_seconds():
    """Seconds that all cores have worked since the machine began."""
    with open("/proc/stat") as file:
        times = [int(t) for t in file.readline().split()[1:]]
    return (sum(times[:3]) + sum(times[5:8])) / os.sysconf("SC_CLK_TCK")


def own_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Load:
    """The part of the cores that others used meanwhile."""

    def __init__(self):
        self.at, self.busy, self.own = time.monotonic(), busy_seconds(), own_seconds()

    def others(self):
        passed = (time.monotonic() - self.at) * len(os.sched_getaffinity(0))
        used = (busy_seconds() - self.busy) - (own_seconds() - self.own)
        return min(1.0, max(0.0, used / max(passed, 1e-3)))


def compare(pairs, sparse):
    """Of (name, planned, measured): "exact", or what differs. Of a mixture "less" is fine: experts
    without tokens hold and move nothing."""
    for name, planned, measured in pairs:
        if measured > planned or (measured < planned and not sparse):
            return f"{name} {measured}, planned {planned}"
    return "exact" if all(planned == measured for _, planned, measured in pairs) else "less"


def compare_peaks(plan, lines, sparse):
    return compare([(tier, most, line[f"{tier}_peak"]) for tier, most in plan["peak"].items()
                    for line in lines], sparse)


def compare_bytes(plan, lines, sparse):
    return compare([(name, plan["bytes_per_step"][name], line[key]) for key, name in BYTES.items()
                    for line in lines[1:]], sparse)


def worst(words):
    """Of what several rounds gave."""
    return max(words, key=lambda w: (w not in ("exact", "less"), w == "less"))


class Bench:
    def __init__(self, args):
        self.args = args
        os.makedirs(args.work, exist_ok=True)
        os.environ.update(MPI)
        self.kept = os.path.join(args.work, "predictions.json")
        self.values = {}
        if args.append and os.path.exists(self.kept):
            with open(self.kept) as file:
                self.values = json.load(file)
        self.cpu = Hilbert(args.hilbert, args.work, "cpu", args.disk)
        self.gpu = Hilbert(args.hilbert, args.work, "cuda", args.disk) if args.gpu else None
        write_tokens(self.cpu.path("data.npy"), 256, 1 << 18)

    def missing(self, row):
        """Why this machine cannot run it, or None."""
        if row.kind == "gpu" and not self.gpu:
            return "needs --gpu"
        if row.kind == "ranks" and not shutil.which("mpirun"):
            return "there is no mpirun"
        if row.rate and subprocess.run(["unshare", "-rn", "sh", "-c", THROTTLE, "sh", row.rate,
                                        "true"], capture_output=True).returncode:
            return "links cannot be throttled here (unshare, ip, tc)"
        return None

    def launcher(self, row):
        if row.ranks == 1:
            return []
        words = ["mpirun", "-n", row.ranks]
        return ["unshare", "-rn", "sh", "-c", THROTTLE, "sh", row.rate, *words] if row.rate else words

    def once(self, row):
        """One run with a fresh probe: the plan and the lines of its steps."""
        cache = self.cpu.path("cache")
        shutil.rmtree(cache, ignore_errors=True)
        os.environ["XDG_CACHE_HOME"] = cache
        options = [*row.options]
        if row.disk:
            options += ["--disk", f"{self.args.disk}:{row.disk}"]
        steps = min(row.steps, 3) if self.args.tiny else row.steps
        load = Load()
        hilbert = self.gpu if row.kind == "gpu" else self.cpu
        run = hilbert.train(row.config, row.batch, row.seq, steps, ROUND_LIMIT, options, ends=True,
                            launcher=self.launcher(row))
        with open(os.path.join(self.cpu.path("out"), "run.json")) as file:
            plan = json.load(file)["plan"]
        lines = run["lines"]
        return {"predicted": self.predicted(row, options, plan),
                "measured": min(line["seconds"] for line in lines[1:]),
                "median": statistics.median(line["seconds"] for line in lines[1:]),
                "peaks": compare_peaks(plan, lines, row.sparse),
                "bytes": compare_bytes(plan, lines, row.sparse), "limit": plan["limit"],
                "others": load.others(), "command": run["command"]}

    def predicted(self, row, options, plan):
        """Seconds of a step. A run that keeps all in memory does not measure the machine, because
        its plan needs no speeds: then `hilbert plan` does."""
        if os.path.exists(self.cpu.path("cache/hilbert/probe.json")):
            return plan["step_seconds"]
        hilbert = self.gpu if row.kind == "gpu" else self.cpu
        planned = hilbert.plan(row.config, row.batch, row.seq, options)
        if not planned:
            raise Failed(f"no plan: {hilbert.message}")
        return planned["step_seconds"]

    def measure(self, row, deadline):
        rounds = []
        for _ in range(self.args.rounds):
            if rounds and time.monotonic() > deadline:
                break
            rounds.append(self.once(row))
        best = min(rounds, key=lambda r: r["measured"])
        predicted = min(r["predicted"] for r in rounds)
        return {**best, "predicted": predicted, "ratio": predicted / best["measured"],
                "peaks": worst([r["peaks"] for r in rounds]),
                "bytes": worst([r["bytes"] for r in rounds]),
                "rounds": rounds, "cores": len(os.sched_getaffinity(0))}

    def run(self, rows):
        began = time.monotonic()
        for row in rows:
            why = self.missing(row)
            if not why and time.monotonic() - began > self.args.limit:
                why = "time was over"
            try:
                found = {"left_out": why} if why else self.measure(row, began + self.args.limit)
            except (Failed, OSError, KeyError, subprocess.SubprocessError) as error:
                found = {"left_out": f"failed: {error}"}
            if "left_out" not in found or row.name not in self.values:
                self.values[row.name] = found
            print(line_of(row.name, found), file=sys.stderr, flush=True)
            with open(self.kept + ".tmp", "w") as file:
                json.dump(self.values, file, indent=1)
            os.replace(self.kept + ".tmp", self.kept)


def seconds(value):
    return f"{value:.2f} s" if value >= 1 else f"{1e3 * value:.3g} ms"


def line_of(name, found):
    if "left_out" in found:
        return f"| {name} | left out: {found['left_out']} | | | | | | |"
    within = "yes" if LOW <= found["ratio"] <= HIGH else "no"
    return (f"| {name} | {seconds(found['predicted'])} | {seconds(found['measured'])} | "
            f"{found['ratio']:.2f} | {within} | {found['peaks']} | "
            f"{found['bytes']} | {100 * found['others']:.0f}% |")


def markdown(values, machine, program):
    ran = [v for v in values.values() if "left_out" not in v]
    within = sum(LOW <= v["ratio"] <= HIGH for v in ran)
    exact = sum({v["peaks"], v["bytes"]} <= {"exact", "less"} for v in ran)
    rounds = max((len(v["rounds"]) for v in ran), default=0)
    text = (f"# Predictions beside runs, {datetime.date.today()}\n\n`bench/predictions.py`; {machine}; "
            f"commit {gpu.commit(program)}.\nSeconds per step: the least that a fresh probe's plan "
            f"predicts, and the fastest step, of up to {rounds} rounds. \"Others\" is the part of "
            f"the cores that other\nprocesses used meanwhile.\n\n"
            f"**{within} of {len(ran)} within {LOW} and {HIGH}; peaks and bytes as planned in {exact} "
            f"of {len(ran)}; {len(values) - len(ran)} left out.**\n\n"
            "| configuration | predicted | measured | predicted / measured | within | peaks | bytes | "
            "others |\n|---|---|---|---|---|---|---|---|\n")
    return text + "".join(line_of(name, v) + "\n" for name, v in values.items())


def parse():
    parser = argparse.ArgumentParser(description="what plans predict beside what runs take")
    parser.add_argument("--hilbert", default=gpu.find_hilbert(), help="the program")
    parser.add_argument("--gpu", action="store_true", help="run the rows of one GPU too")
    parser.add_argument("--only", default="", help="rows whose kind or name has this in it")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each row")
    parser.add_argument("--limit", type=float, default=540, help="begin no run after these seconds")
    parser.add_argument("--append", action="store_true", help="add to WORK/predictions.json")
    parser.add_argument("--work", default=os.path.join(ROOT, "build", "predictions"))
    parser.add_argument("--disk", help="a folder on the drive to use (default: WORK)")
    parser.add_argument("--out", help="the table's file (default: in bench/results)")
    parser.add_argument("--list", action="store_true", help="show the rows")
    parser.add_argument("--tiny", action="store_true", help="3 steps of each row: tests the script")
    return parser.parse_args()


def main():
    args = parse()
    rows = [row for row in ROWS if re.search(args.only, f"{row.kind} {row.name}")]
    if args.list or not rows:
        print("\n".join(f"{row.kind:6} {row.name}" for row in ROWS))
        sys.exit(0 if rows else f"no such row: {args.only}")
    if not args.hilbert:
        sys.exit("no program: run make first, or give --hilbert")
    args.disk = args.disk or args.work
    try:
        bench = Bench(args)
    except Failed as error:
        sys.exit(f"predictions.py: {error}")
    bench.run(rows)
    machine = report.machine()
    if args.gpu:
        name = gpu.first_line(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"])
        machine = f"{name or 'GPU'}, {machine}"
    words = re.sub("[^a-z0-9]+", "-", machine.lower()).strip("-")
    folder = args.work if args.tiny else os.path.join(HERE, "results")
    path = args.out or os.path.join(folder, f"{datetime.date.today()}-predictions-{words}.md")
    report.show(markdown(bench.values, machine, args.hilbert), path)


if __name__ == "__main__":
    main()
