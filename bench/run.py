#!/usr/bin/env python3
"""run.py - hilbert against PyTorch on this machine, in one run, as one table.

    python3 bench/run.py [--threads N] [--rounds N] [--steps N] [--batch N] [--only WORDS]
        [--save] [--instructions avx2] [--cpu-time]

Both sides run one after the other, `rounds` times, on the same cores, so that a busy machine slows
both. A ratio above 1 means that hilbert is faster; behind it stand the lowest and highest ratio of
one round. PyTorch and transformers are taken from this Python, or installed into build/bench-venv.
--instructions limits both sides to an instruction set, as on a machine that has no better one.
On a machine with other work, --threads 1 --cpu-time compares the seconds that a core works for a
training step, the least of all rounds. --save also writes the numbers to
bench/results/<date>-<machine>.json, and the table to a file .md beside it.
"""
import argparse
import datetime
import json
import os
import random
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import report
import shapes

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
BUILD = os.path.join(ROOT, "build")
HILBERT = os.path.join(BUILD, "hilbert")
SEQ = 512
EVAL_SEQ = 128
# How PyTorch's libraries are told: ATen, MKL and oneDNN.
PEER_LIMITS = {"avx2": {"ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2",
                        "ONEDNN_MAX_CPU_ISA": "AVX2"},
               "avx512": {"ATEN_CPU_CAPABILITY": "avx512", "MKL_ENABLE_INSTRUCTIONS": "AVX512",
                          "ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}}
PROMPT = "ABCDEFGHIJKLMNOP"
NEW_TOKENS = 64


def has_torch(python):
    return subprocess.run([python, "-c", "import torch, transformers"],
                          capture_output=True).returncode == 0


def find_python():
    """A Python with PyTorch: this one, or one that is made now."""
    venv = os.path.join(BUILD, "bench-venv")
    python = os.path.join(venv, "bin", "python")
    for candidate in (sys.executable, python):
        if os.path.exists(candidate) and has_torch(candidate):
            return candidate
    print(f"installing PyTorch and transformers into {venv}", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    pip = [python, "-m", "pip", "install", "-q"]
    cpu = subprocess.run(pip + ["torch", "--index-url", "https://download.pytorch.org/whl/cpu"])
    subprocess.run(pip + ([] if cpu.returncode == 0 else ["torch"]) + ["transformers", "numpy"],
                   check=True)
    return python


class Bench:
    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.cpus = sorted(os.sched_getaffinity(0))[:args.threads]
        self.python = find_python()
        self.rows = []
        self.bf16_goal = 1.0 if args.instructions == "avx2" else 0.7
        self.environment = dict(os.environ)
        if args.instructions:
            self.environment.update(PEER_LIMITS[args.instructions],
                                    HILBERT_INSTRUCTIONS=args.instructions)

    def start(self, command, **pipes):
        return subprocess.Popen(command, text=True, errors="replace", cwd=self.folder,
                                env=self.environment, **pipes,
                                preexec_fn=lambda: os.sched_setaffinity(0, self.cpus))

    def run(self, command):
        """stdout and seconds of a process on the chosen cores."""
        start = time.perf_counter()
        child = self.start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        stdout, stderr = child.communicate()
        if child.returncode != 0:
            sys.exit(f"{' '.join(command)}\nfailed:\n{stderr[-2000:]}")
        return stdout, time.perf_counter() - start

    def peer(self, script, *arguments):
        return self.run([self.python, "-W", "ignore", os.path.join(HERE, script),
                         *map(str, arguments)])

    def path(self, name):
        return os.path.join(self.folder, name)

    def wants(self, what):
        return not self.args.only or self.args.only in what

    def alternate(self, what, target, unit, sides):
        """`sides` are two functions that give seconds (or rates, where unit is tokens/s)."""
        if not self.wants(what):
            return
        pairs = []
        for n in range(self.args.rounds):
            print(f"{what}, round {n + 1} of {self.args.rounds}", file=sys.stderr, flush=True)
            pairs.append((sides[0](), sides[1]()))
        middle = min if self.args.cpu_time else statistics.median
        hilbert, peer = (middle(side) for side in zip(*pairs))
        faster = (lambda h, p: h / p) if unit == "tokens/s" else (lambda h, p: p / h)
        ratios = [faster(*pair) for pair in pairs]
        self.rows.append({"what": what, "unit": unit, "hilbert": hilbert, "pytorch": peer,
                          "ratio": faster(hilbert, peer), "ratio_low": min(ratios),
                          "ratio_high": max(ratios), "target": target, "pairs": pairs})

    def train_hilbert(self, shape, dtype):
        steps = 1 + self.args.steps
        out = self.path("out")
        shutil.rmtree(out, ignore_errors=True)
        command = [HILBERT, "train", "--model", self.path(shape + ".json"),
                   "--data", self.path(shape + ".npy"), "--out", out, "--keep", "0",
                   "--steps", str(steps), "--seq", str(SEQ), "--batch", str(self.args.batch), "--lr", "1e-4",
                   "--schedule", "constant", "--dtype", dtype, "--no-shuffle",
                   "--threads", str(self.args.threads)]
        metrics = os.path.join(out, "metrics.jsonl")
        if self.args.cpu_time:
            return self.cpu_seconds(command, metrics, steps)
        self.run(command)
        with open(metrics) as file:
            lines = [json.loads(line) for line in file]
        return statistics.median(line["seconds"] for line in lines if line.get("seconds")
                                 and line["step"] > 1)

    def cpu_seconds(self, command, metrics, steps):
        """The least processor time of a step: what the process used when its line appears, less
        what it had used at the line before."""
        child = self.start(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        used = []
        while child.poll() is None and len(used) < steps:
            time.sleep(0.02)
            try:
                with open(metrics) as file, open(f"/proc/{child.pid}/stat") as stat:
                    count = file.read().count("\n")
                    ticks = stat.read().rsplit(")", 1)[1].split()[11:13]
            except OSError:
                continue
            busy = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
            used += [busy] * (count - len(used))
        child.terminate()
        child.wait()
        if len(used) < steps:
            sys.exit(f"{' '.join(command)}\nended after {len(used)} steps")
        return min(after - before for before, after in zip(used, used[1:]))

    def train_peer(self, shape, dtype):
        out, _ = self.peer("peer_train.py", shape, dtype, "--batch", self.args.batch, "--seq", SEQ,
                           "--threads", self.args.threads, "--steps", self.args.steps)
        return json.loads(out)["cpu_seconds" if self.args.cpu_time else "seconds"]

    def generate_hilbert(self, model, dtype):
        """As in peer_generate.py: the rate of all tokens after the first."""
        def seconds(tokens):
            return self.run([HILBERT, "generate", "--model", model,
                             "--prompt", PROMPT,
                             "--max-tokens", str(tokens), "--temperature", "0", "--dtype", dtype,
                             "--threads", str(self.args.threads)])[1]
        rates = [(NEW_TOKENS - 1) / (seconds(NEW_TOKENS) - seconds(1)) for _ in range(3)]
        return statistics.median(rates)

    def generate_peer(self, model, dtype):
        out, _ = self.peer("peer_generate.py", model, "--dtype", dtype, "--threads",
                           self.args.threads, "--prompt-tokens", len(PROMPT),
                           "--tokens", NEW_TOKENS)
        return json.loads(out)["tokens_per_second"]

    def eval_hilbert(self, model, whole):
        out, seconds = self.run([HILBERT, "eval", "--model", model, "--data",
                                 self.path("window.npy"), "--seq", str(EVAL_SEQ), "--json",
                                 "--threads", str(self.args.threads)])
        return seconds if whole else json.loads(out)["seconds_to_first_batch"]

    def eval_peer(self, model):
        return self.peer("peer_eval.py", model, self.path("window.npy"), EVAL_SEQ,
                         self.args.threads)[1]

    def prepare(self):
        for shape, config in shapes.SHAPES.items():
            with open(self.path(shape + ".json"), "w") as file:
                json.dump(config, file)
            write_tokens(self.path(shape + ".npy"), config["vocab_size"],
                         self.args.batch * SEQ * (1 + self.args.steps))
        write_tokens(self.path("window.npy"), 256, EVAL_SEQ)

    def measure(self):
        self.prepare()
        for shape in shapes.SHAPES:
            for dtype, target in (("fp32", 1.0), ("bf16", self.bf16_goal)):
                self.alternate(f"train {shape} {dtype}", target, "s/step",
                               (lambda: self.train_hilbert(shape, dtype),
                                lambda: self.train_peer(shape, dtype)))
        names = ("generate gpt2-124m bf16", "eval 500 MB, first batch",
                 "eval 500 MB, whole process")
        if any(map(self.wants, names)):
            self.measure_inference(self.path("model"), *names)

    def measure_inference(self, model, generate, first_batch, process):
        self.peer("shapes.py", "gpt2-124m", model)
        write_tokenizer(os.path.join(model, "tokenizer.json"), 50257)
        with open(os.path.join(model, "model.safetensors"), "rb") as file:
            while file.read(1 << 24):
                pass
        self.alternate(generate, 1.5, "tokens/s", (lambda: self.generate_hilbert(model, "bf16"),
                                                   lambda: self.generate_peer(model, "bf16")))
        self.alternate(first_batch, "0.5 s", "s", (lambda: self.eval_hilbert(model, False),
                                                   lambda: self.eval_peer(model)))
        self.alternate(process, None, "s", (lambda: self.eval_hilbert(model, True),
                                            lambda: self.eval_peer(model)))

    def table(self):
        args = self.args
        how = "processor time, the least of all rounds" if args.cpu_time else "medians"
        limit = f"limited to {args.instructions}, " if args.instructions else ""
        text = (f"{report.machine()}, {limit}{args.threads} threads, {args.batch} x {SEQ} tokens, "
                f"{args.rounds} rounds of {args.steps} steps; {how}\n\n"
                "| what | hilbert | PyTorch | ratio | range | goal |\n|---|---|---|---|---|---|\n")
        for row in self.rows:
            goal = row["target"] if row["target"] is not None else ""
            text += (f"| {row['what']} | {row['hilbert']:.3g} {row['unit']} | "
                     f"{row['pytorch']:.3g} {row['unit']} | {row['ratio']:.2f} | "
                     f"{row['ratio_low']:.2f}-{row['ratio_high']:.2f} | {goal} |\n")
        return text

    def libraries(self):
        """What PyTorch's libraries say of themselves when they multiply."""
        self.environment.update(MKL_VERBOSE="1", ONEDNN_VERBOSE="1")
        out, _ = self.run([self.python, "-W", "ignore", "-c", "import torch, transformers as t\n"
                           "print(torch.__version__, t.__version__)\n"
                           "print(torch.backends.cpu.get_cpu_capability())\n"
                           "x = torch.rand(64, 64); x @ x; torch.ops.aten.mkldnn_convolution("
                           "x.view(1, 1, 64, 64), x[:3, :3].reshape(1, 1, 3, 3).clone(), None, "
                           "[0, 0], [1, 1], [1, 1], 1)"])
        lines = out.splitlines()
        torch, transformers = lines[0].split()
        said = [lines[1]] + [line for line in lines if re.search("MKL.*for|oneDNN|isa:", line)]
        return {"torch": torch, "transformers": transformers, "libraries": said}

    def save(self):
        about = self.libraries()
        what = self.args.instructions or ""
        report.save({"threads": self.args.threads, **about, "rows": self.rows}, what)
        said = "".join(f"- {line}\n" for line in about["libraries"])
        report.write(f"{what} {report.machine()}", "md",
                     f"# Training against PyTorch on the CPU, {datetime.date.today()}\n\n"
                     f"`bench/run.py {' '.join(sys.argv[1:])}`, commit {report.commit()}, PyTorch "
                     f"{about['torch']}, transformers {about['transformers']}.\n{self.table()}\n"
                     f"What PyTorch's libraries said of the instructions that they use:\n{said}")


def write_tokens(path, vocab, count):
    """A one-dimensional .npy array of random uint16 ids."""
    ids = random.Random(1)
    header = "{'descr': '<u2', 'fortran_order': False, 'shape': (%d,), }" % count
    header = header.ljust(117) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        file.write(struct.pack(f"<{count}H", *(ids.randrange(vocab) for _ in range(count))))


def write_tokenizer(path, vocab):
    """Byte-level without merges, filled up to the model's vocabulary: one token per letter."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    letters = {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(others)}
    ids = {letters[b]: b for b in range(256)}
    ids.update({f"filler{i}": i for i in range(256, vocab)})
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
             "use_regex": True}
    with open(path, "w") as file:
        json.dump({"version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
                   "normalizer": None, "pre_tokenizer": level, "post_processor": None,
                   "decoder": level,
                   "model": {"type": "BPE", "dropout": None, "unk_token": None,
                             "continuing_subword_prefix": None, "end_of_word_suffix": None,
                             "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                             "vocab": ids, "merges": []}}, file)


def main():
    parser = argparse.ArgumentParser(description="hilbert against PyTorch on this machine")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--batch", type=int, default=4, help="sequences of a training step")
    parser.add_argument("--steps", type=int, default=3, help="timed steps of one training run")
    parser.add_argument("--only", help="only the rows that contain these words")
    parser.add_argument("--instructions", choices=PEER_LIMITS, help="limits both sides to these")
    parser.add_argument("--cpu-time", action="store_true", help="of training: processor time")
    parser.add_argument("--save", action="store_true")
    args = parser.parse_args()
    if not os.path.exists(HILBERT):
        sys.exit("build/hilbert does not exist: run make first")
    with tempfile.TemporaryDirectory(prefix="bench-", dir=BUILD) as folder:
        bench = Bench(args, folder)
        bench.measure()
        print(bench.table())
        if args.save:
            bench.save()


if __name__ == "__main__":
    main()
