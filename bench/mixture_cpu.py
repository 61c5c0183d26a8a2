#!/usr/bin/env python3
"""mixture_cpu.py - a layer of 64 experts on the CPU: hilbert against transformers on PyTorch, on the
same cores and in turns, as one table.

    python3 bench/mixture_cpu.py [--program build/bench_mixture] [--threads N] [--repeat N]
        [--cpu-time]

Forward and backward of router and experts, with the gradients of the input and of all weights, for
fp32 and bf16 and 256 to 4096 tokens. The peer is the block of Qwen3-MoE with each implementation of
experts that transformers has; the fastest one counts. Each time is the least of the repeats: the
two take turns, so that both meet the same load. On a machine with other work, --threads 1 --cpu-time
compares the seconds that a core works for each. The table is printed and written to
bench/results/<date>-mixture-cpu-<machine>.md.
"""
import argparse
import datetime
import os
import subprocess
import time
import warnings

import torch
import transformers
from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeSparseMoeBlock

import report

HERE = os.path.dirname(os.path.abspath(__file__))
EXPERTS, CHOSEN, HIDDEN, WIDTH = 64, 8, 1024, 512
WAYS = ("grouped_mm", "batched_mm", "eager")
BATCHED_TOKENS = 16  # batched_mm copies the weights of every choice: more need too much memory


class Hilbert:
    def __init__(self, args, dtype, tokens):
        words = [args.program, dtype, tokens, HIDDEN, WIDTH, EXPERTS, CHOSEN, args.threads]
        self.cpu_time = args.cpu_time
        self.child = subprocess.Popen([str(w) for w in words], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True)

    def run(self):
        self.child.stdin.write(".")
        self.child.stdin.flush()
        wall, busy = self.child.stdout.readline().split()
        return float(busy if self.cpu_time else wall)

    def close(self):
        self.child.stdin.close()
        self.child.wait()


class Peer:
    def __init__(self, args, dtype, tokens, way):
        self.clock = time.process_time if args.cpu_time else time.perf_counter
        config = transformers.Qwen3MoeConfig(
            hidden_size=HIDDEN, moe_intermediate_size=WIDTH, num_experts=EXPERTS,
            num_experts_per_tok=CHOSEN, norm_topk_prob=True)
        config._experts_implementation = way
        torch.manual_seed(1)
        self.block = Qwen3MoeSparseMoeBlock(config).to(dtype)
        for p in self.block.parameters():
            torch.nn.init.uniform_(p, -HIDDEN ** -0.5, HIDDEN ** -0.5)
        self.x = (3.4 * torch.rand(1, tokens, HIDDEN) - 1.7).to(dtype).requires_grad_()
        self.dy = torch.rand(1, tokens, HIDDEN).to(dtype)

    def run(self):
        self.block.zero_grad(set_to_none=True)
        self.x.grad = None
        begin = self.clock()
        y = self.block(self.x)
        (y[0] if isinstance(y, tuple) else y).backward(self.dy)
        return self.clock() - begin


def measure(args, dtype, tokens):
    """Least seconds of hilbert and of each way of the peer."""
    runs = {"hilbert": Hilbert(args, dtype, tokens)}
    for way in WAYS:
        if way == "batched_mm" and tokens > BATCHED_TOKENS:
            continue
        runs[way] = Peer(args, {"fp32": torch.float32, "bf16": torch.bfloat16}[dtype], tokens, way)
    least = {}
    for _ in range(1 + args.repeat):
        for name, run in list(runs.items()):
            if least.get(name, 0) > 3 * min(least.values(), default=0):
                continue  # too slow to be the fastest
            try:
                least[name] = min(least.get(name, 1e9), run.run())
            except (RuntimeError, NotImplementedError) as error:
                print(f"{dtype}, {tokens} tokens, {name}: {str(error).splitlines()[0]}")
                del runs[name]
    runs["hilbert"].close()
    return least


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default="build/bench_mixture")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--tokens", type=int, nargs="+", default=[256, 1024, 4096])
    parser.add_argument("--results", default=os.path.join(HERE, "results"))
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(args.threads)
    rows = []
    for dtype in ("fp32", "bf16"):
        for tokens in args.tokens:
            least = measure(args, dtype, tokens)
            own = least.pop("hilbert")
            best = min(least, key=least.get)
            flops = 3 * 2 * 3 * tokens * CHOSEN * HIDDEN * WIDTH
            rows.append((dtype, tokens, own, best, least[best], flops / own * 1e-9))
            others = ", ".join(f"{way} {1e3 * s:.1f} ms" for way, s in least.items())
            print(f"{dtype}, {tokens} tokens: hilbert {1e3 * own:.1f} ms; {others}", flush=True)
    save(rows, args)


def save(rows, args):
    text = (f"# A layer of {EXPERTS} experts on the CPU, {datetime.date.today()}\n\n`bench/mixture_cpu.py`; hidden "
            f"{HIDDEN}, width {WIDTH}, {CHOSEN} experts per token; forward and backward of router and "
            f"experts.\n{report.machine()}, {args.threads} threads; the least of {args.repeat} turns, "
            f"{'CPU time' if args.cpu_time else 'wall time'}. "
            f"transformers {transformers.__version__}, PyTorch {torch.__version__}.\n\n"
            "| dtype | tokens | hilbert | PyTorch, its fastest | ratio | hilbert's GFLOP/s |\n"
            "|---|---|---|---|---|---|\n")
    for dtype, tokens, own, best, other, gflops in rows:
        text += (f"| {dtype} | {tokens} | {1e3 * own:.1f} ms | {1e3 * other:.1f} ms ({best}) | "
                 f"{other / own:.2f} | {gflops:.0f} |\n")
    print(text)
    report.write(f"mixture cpu {report.machine()}", "md", text, args.results)


if __name__ == "__main__":
    main()
