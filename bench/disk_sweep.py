#!/usr/bin/env python3
"""disk_sweep.py - a training step with the optimizer's state on disk, against what the disk and the
arithmetic allow.

    python bench/disk_sweep.py [--disk DIR] [--tokens N,N,...] [--rounds N] [--save]

For each number of tokens per step, the same steps run with everything in memory (they give forward
and backward), then by the same plan but with the optimizer's state of the blocks on disk (that of
the table stays in memory: the next forward needs it first).
The limit of a step is backward + max(forward, bytes of the sweep / fio's bandwidth), where fio
reads and writes a file in the same folder in the same proportion, in blocks as large and as many
in flight, past the page cache, in turn with the runs. At most 1.10 times that is the goal. In a
second table the blocks are frozen and their weights come from disk, with prefetching and without. Medians of
steps; the best of the rounds counts for each side, so that a busy machine spoils none.
--save writes the numbers to bench/results/<date>-disk-sweep-<machine>.json.
"""
import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

import report
import run
import shapes

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
HILBERT = os.path.join(ROOT, "build", "hilbert")
SHAPE = "llama-100m"
STATE_BYTES = 10  # per parameter in bf16: what weights lack of their masters, and two moments
GOAL = 1.10


def parameters(config):
    """Of the Llama shape."""
    c, heads = config["hidden_size"], config["num_attention_heads"]
    kv = c // heads * config["num_key_value_heads"]
    block = 2 * c * c + 2 * c * kv + 3 * c * config["intermediate_size"] + 2 * c
    tables = 1 if config["tie_word_embeddings"] else 2
    return tables * config["vocab_size"] * c + config["num_hidden_layers"] * block + c


def size(count):
    return f"{math.ceil(count / 2**20)}M"


def spans_of(path):
    """Spans of a Chrome trace by step order: (track name, name, start, end) in seconds."""
    with open(path) as file:
        text = file.read().rstrip().rstrip(",")
    events = json.loads(text if text.endswith("]") else text + "]")
    track = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    return [(track[e["tid"]], e["name"], e["ts"] * 1e-6, (e["ts"] + e["dur"]) * 1e-6)
            for e in events if e.get("ph") == "X"]


def phases_of(path, steps):
    """Seconds of forward and of backward of each step, without the waiting in them."""
    spans = spans_of(path)
    compute = [s for s in spans if s[0].startswith("compute")]
    waits = [s for s in spans if s[0].startswith("wait")]
    groups, last = [], "backward"
    for span in sorted(compute, key=lambda s: s[2]):
        kind = "backward" if span[1].endswith(("backward", "recompute")) else "forward"
        if kind == "forward" and last == "backward" and span[1].startswith("embedding"):
            groups.append({"forward": 0.0, "backward": 0.0})
        waited = sum(max(0.0, min(w[3], span[3]) - max(w[2], span[2])) for w in waits)
        groups[-1][kind] += span[3] - span[2] - waited
        last = kind
    # Several micro-batches that pass one after the other make several groups of one step.
    each = len(groups) // steps
    return [{kind: sum(g[kind] for g in groups[i * each:(i + 1) * each])
             for kind in ("forward", "backward")} for i in range(steps)]


class Sweep:
    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.config = shapes.SHAPES[SHAPE]
        self.count = parameters(self.config)
        self.blocks = self.count - self.config["vocab_size"] * self.config["hidden_size"]
        self.rows, self.fetch_rows = [], []
        with open(self.path("config.json"), "w") as file:
            json.dump(self.config, file)

    def path(self, name):
        return os.path.join(self.folder, name)

    def train(self, tokens, *options):
        """Lines of metrics.jsonl after the first step, which also reads and plans."""
        data, out = self.path("data.npy"), self.path("out")
        run.write_tokens(data, self.config["vocab_size"], tokens * (1 + self.args.steps))
        command = [HILBERT, "train", "--model", self.path("config.json"), "--data", data,
                   "--out", out, "--overwrite", "--quiet", "--no-shuffle", "--lr", "1e-4",
                   "--schedule", "constant", "--dtype", "bf16", "--threads",
                   str(self.args.threads), "--seq", str(self.args.seq), "--batch",
                   str(tokens // self.args.seq), "--steps", str(1 + self.args.steps),
                   *map(str, options)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}\nfailed:\n{done.stderr[-2000:]}")
        with open(os.path.join(out, "metrics.jsonl")) as file:
            lines = [json.loads(line) for line in file]
        shutil.rmtree(out)
        return [line for line in lines if line.get("seconds") and line["step"] > 1]

    def fio(self, read_share):
        """Bytes per second, read and written, with that share of reads."""
        name = os.path.join(self.args.disk, "fio-of-disk-sweep")
        common = ["fio", "--name=mix", f"--filename={name}", f"--bs={self.args.block}",
                  f"--iodepth={self.args.depth}", f"--ioengine={self.args.engine}", "--direct=1",
                  "--thread", "--output-format=json", f"--size={self.args.fio_bytes}"]
        try:
            if not os.path.exists(name):  # blocks that were never written are read for nothing
                subprocess.run(common + ["--rw=write", "--end_fsync=1"], check=True,
                               capture_output=True)
            done = subprocess.run(common + ["--rw=rw", f"--rwmixread={round(100 * read_share)}"],
                                  check=True, capture_output=True, text=True)
            job = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]
            moved = job["read"]["io_bytes"] + job["write"]["io_bytes"]
            return moved / (max(job["read"]["runtime"], job["write"]["runtime"]) * 1e-3)
        except (OSError, subprocess.CalledProcessError) as error:
            sys.exit(f"fio: {error}")

    def in_memory(self, tokens):
        """Forward, backward and the whole step without limits."""
        trace = self.path("trace.json")
        lines = self.train(tokens, "--device-memory", size(40 * self.count), "--trace", trace)
        phases = phases_of(trace, 1 + self.args.steps)[1:]
        median = {kind: statistics.median(p[kind] for p in phases)
                  for kind in ("forward", "backward")}
        return {**median, "seconds": statistics.median(line["seconds"] for line in lines)}

    def plan(self, tokens, edit, *options):
        """The options of a run that follows the plan of one in memory, edited."""
        given = ["--device-memory", size(40 * self.count), "--host-memory", "1G", "--disk",
                 self.args.disk, *options]
        done = subprocess.run([HILBERT, "plan", "--model", self.path("config.json"), "--json",
                               "--threads", str(self.args.threads), "--seq", str(self.args.seq),
                               "--batch", str(tokens // self.args.seq), *given],
                              check=True, capture_output=True, text=True)
        plan = json.loads(done.stdout)
        for unit in plan["units"]:
            if unit["name"].startswith("model.layers"):
                edit(unit)
        # Segment by segment, so that all of the forward hides the sweep.
        sequences = tokens // self.args.seq
        together = max(1, self.config["hidden_size"] // self.args.seq)
        plan["group"] = -(-sequences // min(sequences, together))
        for segment in plan["segments"]:
            segment["keep"] = plan["group"]
        plan["window"] += 32 << 20
        plan["ring"] = 32 << 20
        with open(self.path("plan.json"), "w") as file:
            json.dump(plan, file)
        return [*given, "--plan", self.path("plan.json")]

    def on_disk(self, tokens):
        """The same plan as in memory, but the optimizer's state of the blocks lives on disk."""
        state = dict.fromkeys(("rest", "moment1", "moment2"), "disk")
        lines = self.train(tokens, *self.plan(tokens, lambda unit: unit.update(
            {key: tier for key, tier in state.items() if key in unit})))
        last = lines[-1]
        return {"seconds": statistics.median(line["seconds"] for line in lines),
                "exposed": statistics.median(line["exposed_update_seconds"] for line in lines),
                "waited": statistics.median(sum(line["wait_seconds"].values()) for line in lines),
                **{key: last[key] for key in ("device_peak", "host_peak", "disk_peak",
                                              "disk_read_bytes", "disk_written_bytes")}}

    def measure(self, tokens):
        """One row of the table of the sweep: the best of each side over the rounds."""
        memories, disks, speeds, share = [], [], [], 0.5
        for n in range(self.args.rounds):
            print(f"{tokens} tokens per step, round {n + 1} of {self.args.rounds}",
                  file=sys.stderr, flush=True)
            memories.append(self.in_memory(tokens))
            if n:
                speeds.append(self.fio(share))
            disks.append(self.on_disk(tokens))
            moved = disks[0]["disk_read_bytes"] + disks[0]["disk_written_bytes"]
            share = disks[0]["disk_read_bytes"] / moved if moved else share
            speeds.append(self.fio(share))
        memory = {key: min(run[key] for run in memories) for key in memories[0]}
        disk = min(disks, key=lambda run: run["seconds"])
        sweep = moved / max(speeds)
        limit = memory["backward"] + max(memory["forward"], sweep)
        self.rows.append({
            "tokens": tokens, "memory": memory, "disk": disk, "sweep_bytes": moved,
            "read_share": share, "fio_bytes_per_second": max(speeds), "sweep_seconds": sweep,
            "limit_seconds": limit, "of_limit": disk["seconds"] / limit,
            "bound": "disk" if sweep > memory["forward"] else "compute",
            "waiting": disk["waited"] / disk["seconds"],
            "state_on_disk": disk["disk_peak"] / (STATE_BYTES * self.blocks)})

    def measure_prefetch(self, tokens):
        """The frozen blocks' weights come from disk twice a step: prefetching against none."""
        print(f"{tokens} tokens per step, prefetch", file=sys.stderr, flush=True)
        frozen = ["--freeze", "model.layers.*"]
        follow = self.plan(tokens, lambda unit: unit.update(weight="disk"), *frozen)
        sides = {"memory": [*follow[:2], *frozen], "on": follow,
                 "off": [*follow, "--prefetch", "off"]}
        best = {}
        for _ in range(self.args.rounds):
            for name, options in sides.items():
                lines = self.train(tokens, *options)
                seconds = statistics.median(line["seconds"] for line in lines)
                if name not in best or seconds < best[name]["seconds"]:
                    best[name] = {**lines[-1], "seconds": seconds}
        self.fetch_rows.append({"tokens": tokens, **best,
                                "speed_up": best["off"]["seconds"] / best["on"]["seconds"]})

    def print_sweep(self):
        print(f"{report.machine()}, {self.args.threads} threads, {SHAPE} ({self.count / 1e6:.0f}M "
              f"parameters, bf16), sequences of {self.args.seq}\n")
        heads = ["tokens", "forward", "backward", "sweep GB", "fio GB/s", "sweep / fio", "limit",
                 "step", "step / limit", "bound", "exposed", "waiting", "in memory"]
        print("| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|")
        for row in self.rows:
            memory, disk = row["memory"], row["disk"]
            cells = [row["tokens"], f"{memory['forward']:.2f} s", f"{memory['backward']:.2f} s",
                     f"{row['sweep_bytes'] * 1e-9:.2f}",
                     f"{row['fio_bytes_per_second'] * 1e-9:.2f}", f"{row['sweep_seconds']:.2f} s",
                     f"{row['limit_seconds']:.2f} s", f"{disk['seconds']:.2f} s",
                     f"{row['of_limit']:.2f}", row["bound"], f"{disk['exposed']:.2f} s",
                     f"{100 * row['waiting']:.0f}%", f"{memory['seconds']:.2f} s"]
            print("| " + " | ".join(map(str, cells)) + " |")
        worst = max(row["of_limit"] for row in self.rows)
        print(f"\nworst {worst:.2f}, goal at most {GOAL:.2f}; of the optimizer's state "
              f"{100 * min(row['state_on_disk'] for row in self.rows):.0f}% or more on disk")

    def print_prefetch(self):
        if not self.fetch_rows:
            return
        print("\nBlocks frozen, their weights on disk:\n\n| tokens | read per step | in memory "
              "| prefetch on | off | speed-up |\n|---|---|---|---|---|---|")
        for row in self.fetch_rows:
            print(f"| {row['tokens']} | {row['on']['disk_read_bytes'] * 1e-9:.2f} GB | "
                  f"{row['memory']['seconds']:.2f} s | {row['on']['seconds']:.2f} s | "
                  f"{row['off']['seconds']:.2f} s | {row['speed_up']:.2f} |")

    def save(self):
        settings = {key: value for key, value in vars(self.args).items() if key != "disk"}
        report.save({"parameters": self.count, **settings, "rows": self.rows,
                     "prefetch": self.fetch_rows}, "disk-sweep")


def main():
    parser = argparse.ArgumentParser(description="a step with the optimizer's state on disk")
    parser.add_argument("--disk", default=os.path.join(ROOT, "build"), help="a folder on the drive")
    parser.add_argument("--tokens", default="128,256,512,1024,2048")
    parser.add_argument("--prefetch-tokens", default="128,512", help="of the second table")
    parser.add_argument("--rounds", type=int, default=2, help="the best of so many counts")
    parser.add_argument("--steps", type=int, default=4, help="timed steps of one run")
    parser.add_argument("--seq", type=int, default=128)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--block", default="4M", help="of fio: a page of the swap file")
    parser.add_argument("--depth", type=int, default=12, help="of fio: blocks in flight")
    parser.add_argument("--engine", default="io_uring", help="of fio")
    parser.add_argument("--fio-bytes", default="2G")
    parser.add_argument("--save", action="store_true")
    args = parser.parse_args()
    if not os.path.exists(HILBERT):
        sys.exit("build/hilbert does not exist: run make first")
    if not shutil.which("fio"):
        sys.exit("fio is not installed")
    with tempfile.TemporaryDirectory(prefix="disk-sweep-", dir=args.disk) as folder:
        args.disk = folder
        sweep = Sweep(args, folder)
        for tokens in map(int, args.tokens.split(",")):
            sweep.measure(tokens)
        sweep.print_sweep()
        for tokens in map(int, filter(None, args.prefetch_tokens.split(","))):
            sweep.measure_prefetch(tokens)
        sweep.print_prefetch()
        if args.save:
            sweep.save()


if __name__ == "__main__":
    main()
