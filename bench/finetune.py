#!/usr/bin/env python3
"""finetune.py - QLoRA on one GPU: hilbert against PEFT with bitsandbytes, and shapes that no GPU
holds, as one table.

    python3 bench/finetune.py [--hilbert PROGRAM] [--only PART,PART...] [--disk DIR] [--tiny]

Parts: 8b (all in GPU memory, 16 x 1024 tokens, against PEFT and bitsandbytes in the same run), 70b
(64k tokens: 24 GiB of the GPU with the base in RAM, against the base on the GPU, with activations
kept and with the same recomputation), 175b (24 GiB of the GPU, 32k tokens), 405b (the whole
machine). The limit of each but 8b is measured in the same run: the products and the attention of a
step alone, through cuBLAS and cuDNN, with blocks computed twice (gpu_torch.py frozen). Weights are
random, drawn and quantized at the start. Every part appends its lines to WORK/finetune.json; the table is printed.
"""
import argparse
import json
import os
import subprocess
import sys

import gpu_shapes
from gpu_hilbert import GIB, Failed, Hilbert, collect, free_memory, median_seconds, write_tokens

HERE = os.path.dirname(os.path.abspath(__file__))
RANK = 16
SHAPES = {
    "8b": gpu_shapes.SHAPES["8b"][0],
    "70b": gpu_shapes.llama(8192, 28672, 80, 64, 8, False),
    # GPT-3's sizes, with Llama's block: three matrices of 2/3 of its width in the MLP.
    "175b": gpu_shapes.llama(12288, 32768, 96, 96, 96, False, 50304),
    "405b": gpu_shapes.llama(16384, 53248, 126, 128, 8, False),
}


class Bench:
    def __init__(self, args):
        self.args = args
        os.makedirs(args.work, exist_ok=True)
        self.hilbert = Hilbert(args.hilbert, args.work, "cpu" if args.tiny else "cuda", args.disk)
        write_tokens(self.hilbert.path("data.npy"), 256 if args.tiny else 1 << 15,
                     1 << (14 if args.tiny else 20))

    def config(self, shape):
        return gpu_shapes.llama(64, 128, 2, 4, 2, False, 512) if self.args.tiny else SHAPES[shape]

    def train(self, shape, batch, seq, steps, warmup, *options, limit=400):
        if self.args.tiny:
            batch, seq = 4, 64
        run = self.hilbert.train(
            self.config(shape), batch, seq, steps, limit,
            ["--adapter", "lora", "--rank", RANK, "--alpha", RANK, "--base-dtype", "nf4",
             *options], watch=not self.args.tiny)
        last, seconds = run["lines"][-1], median_seconds(run, warmup)
        waits = sum(last.get("wait_seconds", {}).values())
        return {"shape": shape, "who": "hilbert", "options": " ".join(map(str, options)),
                "tokens": batch * seq, "seconds": seconds, "tokens_per_s": batch * seq / seconds,
                "waiting": waits / last["seconds"], "first_step": run["first_step"],
                "gpu_bytes": run["gpu_bytes"], "resident": run["resident"],
                "losses": [line["loss"] for line in run["lines"]]}

    def peer(self, shape, batch, seq):
        command = [self.args.python, "-W", "ignore", os.path.join(HERE, "peer_qlora.py"), shape,
                   "--batch", batch, "--seq", seq, "--rank", RANK,
                   *(["--tiny"] if self.args.tiny else [])]
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300)
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        if not lines:
            raise Failed((done.stderr.strip().splitlines() or ["no message"])[-1])
        for line in lines:
            if "seconds" in line:
                line["tokens_per_s"] = line["tokens"] / line["seconds"]
            line.update(shape=shape, who="PEFT + bitsandbytes",
                        options=f"{line['way']}, micro-batch {line['micro_batch']}")
        return lines

    def limit(self, shape, batch, seq):
        """What the products and the attention of a step take alone, through cuBLAS and cuDNN."""
        if self.args.tiny:
            batch, seq = 4, 64
        path = self.hilbert.path("limit.json")
        with open(path, "w") as file:
            json.dump(self.config(shape), file)
        command = [self.args.python, "-W", "ignore", os.path.join(HERE, "gpu_torch.py"), "frozen",
                   path, "--batch", batch, "--seq", seq, *(["--tiny"] if self.args.tiny else [])]
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300)
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        if not lines:
            raise Failed((done.stderr.strip().splitlines() or ["no message"])[-1])
        return {**lines[0], "shape": shape, "who": "library kernels alone",
                "options": f"blocks computed twice, micro-batch {lines[0]['micro_batch']}",
                "tokens_per_s": lines[0]["tokens"] / lines[0]["seconds"]}

    def part_8b(self):
        yield from self.peer("8b", 16, 1024)
        yield self.train("8b", 16, 1024, 8, 4)
        yield self.train("8b", 16, 1024, 8, 4, "--micro-batch", 16)

    def part_70b(self):
        yield self.train("70b", 64, 1024, 3, 1)
        yield self.train("70b", 64, 1024, 2, 1, "--recompute", "all")
        host = free_memory() - 6 * GIB
        yield self.train("70b", 64, 1024, 3, 1, "--device-memory", "24G", "--host-memory", host)
        yield self.limit("70b", 64, 1024)

    def part_175b(self):
        yield self.train("175b", 32, 1024, 2, 1, "--device-memory", "24G", "--disk", self.args.disk)
        yield self.limit("175b", 32, 1024)

    def part_405b(self):
        host = free_memory() - 6 * GIB
        yield self.train("405b", 16, 1024, 2, 1, "--host-memory", host, "--disk", self.args.disk)
        yield self.limit("405b", 16, 1024)

    def run(self, part):
        return collect(getattr(self, f"part_{part}")(),
                       {"shape": part, "who": "hilbert", "options": ""})


def table(lines):
    print("| shape | who | how | tokens | s/step | tokens/s | waiting | first step s | GPU GiB | RAM "
          "GiB |\n|---|---|---|---|---|---|---|---|---|---|")
    for line in lines:
        def number(key, form="%.2f", scale=1.0):
            return form % (line[key] * scale) if line.get(key) is not None else ""
        print("| {shape} | {who} | {options} |".format(**line), line.get("error") or " | ".join((
            str(line["tokens"]), number("seconds"), number("tokens_per_s", "%.0f"),
            number("waiting", "%.0f%%", 100.0), number("first_step", "%.1f"),
            number("gpu_bytes", "%.1f", 1 / GIB), number("resident", "%.1f", 1 / GIB))), "|")


def main():
    parser = argparse.ArgumentParser(description="QLoRA on one GPU, against PEFT + bitsandbytes")
    parser.add_argument("--hilbert", default=os.path.join(os.path.dirname(HERE), "build/hilbert"))
    parser.add_argument("--python", default=sys.executable, help="the Python that has the peers")
    parser.add_argument("--only", default=",".join(SHAPES), help="parts, with commas")
    parser.add_argument("--work", default=os.path.join(os.path.dirname(HERE), "build/finetune"))
    parser.add_argument("--disk", help="a folder on the drive to use (default: WORK)")
    parser.add_argument("--tiny", action="store_true", help="tests the script, on any processor")
    args = parser.parse_args()
    args.disk = args.disk or args.work
    bench = Bench(args)
    lines = [line for part in args.only.split(",") for line in bench.run(part)]
    kept = os.path.join(args.work, "finetune.json")
    with open(kept, "a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    table(lines)


if __name__ == "__main__":
    main()
