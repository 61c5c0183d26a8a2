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
import json

import gpu_shapes
import parts
from gpu_hilbert import GIB, free_memory, median_seconds

RANK = 16
SHAPES = {
    "8b": gpu_shapes.SHAPES["8b"][0],
    "70b": gpu_shapes.llama(8192, 28672, 80, 64, 8, False),
    # GPT-3's sizes, with Llama's block: three matrices of 2/3 of its width in the MLP.
    "175b": gpu_shapes.llama(12288, 32768, 96, 96, 96, False, 50304),
    "405b": gpu_shapes.llama(16384, 53248, 126, 128, 8, False),
}


class Bench(parts.Bench):
    def config(self, shape):
        return gpu_shapes.llama(64, 128, 2, 4, 2, False, 512) if self.tiny else SHAPES[shape]

    def train(self, shape, batch, seq, steps, warmup, *options, limit=400):
        if self.tiny:
            batch, seq = 4, 64
        run = self.hilbert.train(
            self.config(shape), batch, seq, steps, limit,
            ["--adapter", "lora", "--rank", RANK, "--alpha", RANK, "--base-dtype", "nf4",
             *options], watch=not self.tiny)
        last, seconds = run["lines"][-1], median_seconds(run, warmup)
        waits = sum(last.get("wait_seconds", {}).values())
        return {"shape": shape, "who": "hilbert", "options": " ".join(map(str, options)),
                "tokens": batch * seq, "seconds": seconds, "tokens_per_s": batch * seq / seconds,
                "waiting": waits / last["seconds"], "first_step": run["first_step"],
                "gpu_bytes": run["gpu_bytes"], "resident": run["resident"],
                "losses": [line["loss"] for line in run["lines"]]}

    def peer(self, shape, batch, seq):
        lines = parts.peer_lines(
            self.args.python, "peer_qlora.py",
            [shape, "--batch", batch, "--seq", seq, "--rank", RANK, *["--tiny"] * self.tiny], 300)
        for line in lines:
            if "seconds" in line:
                line["tokens_per_s"] = line["tokens"] / line["seconds"]
            line.update(shape=shape, who="PEFT + bitsandbytes",
                        options=f"{line['way']}, micro-batch {line['micro_batch']}")
        return lines

    def limit(self, shape, batch, seq):
        """What the products and the attention of a step take alone, through cuBLAS and cuDNN."""
        if self.tiny:
            batch, seq = 4, 64
        path = self.hilbert.path("limit.json")
        with open(path, "w") as file:
            json.dump(self.config(shape), file)
        lines = parts.peer_lines(
            self.args.python, "gpu_torch.py",
            ["frozen", path, "--batch", batch, "--seq", seq, *["--tiny"] * self.tiny], 300)
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
    args = parts.parser("finetune", "QLoRA on one GPU, against PEFT + bitsandbytes",
                        SHAPES).parse_args()
    table(Bench(args).run("finetune.json",
                          lambda part: {"shape": part, "who": "hilbert", "options": ""}))


if __name__ == "__main__":
    main()
