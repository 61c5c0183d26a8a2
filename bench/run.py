#!/usr/bin/env python3
"""run.py - hilbert against PyTorch on this machine, in one run, as one table.

    python3 bench/run.py [--threads N] [--rounds N] [--steps N] [--only WORDS] [--save]

Both sides run one after the other, `rounds` times, on the same cores, so that a busy machine slows
both. A ratio above 1 means that hilbert is faster; behind it stand the lowest and highest ratio of
one round. PyTorch and transformers are taken from this Python, or installed into build/bench-venv.
--save also writes the numbers to bench/results/<date>-<machine>.json.
"""
import argparse
import json
import os
import random
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
BATCH, SEQ = 4, 512
EVAL_SEQ = 128
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

    def run(self, command):
        """stdout and seconds of a process on the chosen cores."""
        start = time.perf_counter()
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              errors="replace", cwd=self.folder,
                              preexec_fn=lambda: os.sched_setaffinity(0, self.cpus))
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}\nfailed:\n{done.stderr[-2000:]}")
        return done.stdout, time.perf_counter() - start

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
        hilbert, peer = (statistics.median(side) for side in zip(*pairs))
        faster = (lambda h, p: h / p) if unit == "tokens/s" else (lambda h, p: p / h)
        ratios = [faster(*pair) for pair in pairs]
        self.rows.append({"what": what, "unit": unit, "hilbert": hilbert, "pytorch": peer,
                          "ratio": faster(hilbert, peer), "ratio_low": min(ratios),
                          "ratio_high": max(ratios), "target": target, "pairs": pairs})

    def train_hilbert(self, shape, dtype):
        steps = 1 + self.args.steps
        out = self.path("out")
        self.run([HILBERT, "train", "--model", self.path(shape + ".json"),
                  "--data", self.path(shape + ".npy"), "--out", out, "--overwrite",
                  "--steps", str(steps), "--seq", str(SEQ), "--batch", str(BATCH), "--lr", "1e-4",
                  "--schedule", "constant", "--dtype", dtype, "--no-shuffle",
                  "--threads", str(self.args.threads)])
        with open(os.path.join(out, "metrics.jsonl")) as file:
            lines = [json.loads(line) for line in file]
        return statistics.median(line["seconds"] for line in lines if line.get("seconds")
                                 and line["step"] > 1)

    def train_peer(self, shape, dtype):
        out, _ = self.peer("peer_train.py", shape, dtype, "--batch", BATCH, "--seq", SEQ,
                           "--threads", self.args.threads, "--steps", self.args.steps)
        return json.loads(out)["seconds"]

    def generate_hilbert(self, model, dtype):
        """As in peer_generate.py: the rate of all tokens after the first."""
        def seconds(tokens):
            return self.run([HILBERT, "generate", "--model", model, "--tokenizer", "bytes",
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
                         BATCH * SEQ * (1 + self.args.steps))
        write_tokens(self.path("window.npy"), 256, EVAL_SEQ)

    def measure(self):
        self.prepare()
        for shape in shapes.SHAPES:
            for dtype, target in (("fp32", 1.0), ("bf16", 0.7)):
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

    def print_table(self):
        print(f"{report.machine()}, {self.args.threads} threads, {BATCH} x {SEQ} tokens\n")
        print("| what | hilbert | PyTorch | ratio | range | goal |\n|---|---|---|---|---|---|")
        for row in self.rows:
            goal = row["target"] if row["target"] is not None else ""
            print(f"| {row['what']} | {row['hilbert']:.3g} {row['unit']} | "
                  f"{row['pytorch']:.3g} {row['unit']} | {row['ratio']:.2f} | "
                  f"{row['ratio_low']:.2f}-{row['ratio_high']:.2f} | {goal} |")

    def save(self):
        versions, _ = self.run([self.python, "-W", "ignore", "-c", "import json, torch, "
                                "transformers as t; print(json.dumps({'torch': torch.__version__,"
                                " 'transformers': t.__version__}))"])
        report.save({"threads": self.args.threads, **json.loads(versions), "rows": self.rows})


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
    parser.add_argument("--steps", type=int, default=3, help="timed steps of one training run")
    parser.add_argument("--only", help="only the rows that contain these words")
    parser.add_argument("--save", action="store_true")
    args = parser.parse_args()
    if not os.path.exists(HILBERT):
        sys.exit("build/hilbert does not exist: run make first")
    with tempfile.TemporaryDirectory(prefix="bench-", dir=BUILD) as folder:
        bench = Bench(args, folder)
        bench.measure()
        bench.print_table()
        if args.save:
            bench.save()


if __name__ == "__main__":
    main()
