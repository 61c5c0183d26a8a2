#!/usr/bin/env python3
"""mixture.py - a mixture of experts on one GPU: layers of the Qwen3-30B-A3B shape, hilbert against
transformers on PyTorch, as one table.

    python3 bench/mixture.py [--hilbert PROGRAM] [--only PART,PART...] [--disk DIR] [--brief] [--tiny]

Parts: memory (everything on the GPU, at the most layers that PyTorch can hold; PyTorch in the same
run), ram (all states in RAM, as many layers as fit there), disk (as many layers as have a plan with
GPU, RAM and disk; --brief: 12 layers in so little memory that some GiB are on disk). 64k tokens a
step. TFLOP/s are those of active parameters: 6 for each parameter that a token is multiplied with,
and causal attention. The bound of a step with a disk is its bytes over the rate of a raw loop
(gpu_disk.py). The table is printed and written to bench/results/<date>-mixture-<machine>.md.
"""
import datetime
import os
import re
import subprocess

import gpu_disk
import parts
import report
from gpu_hilbert import GIB, Failed, collect, free_memory, summary

PARTS = ("memory", "ram", "disk")
STATE_BYTES = 14  # of a parameter: bf16 weight and gradient, the master's rest, two fp32 moments


def shape(layers, tiny):
    """Qwen3-30B-A3B with so many layers."""
    hidden, heads, groups, dim, experts, chosen, inner, vocab = (
        (64, 4, 2, 16, 8, 2, 32, 512) if tiny else (2048, 32, 4, 128, 128, 8, 768, 151936))
    return dict(
        model_type="qwen3_moe", architectures=["Qwen3MoeForCausalLM"], vocab_size=vocab,
        hidden_size=hidden, intermediate_size=3 * hidden, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=groups, head_dim=dim, hidden_act="silu",
        max_position_embeddings=40960, rms_norm_eps=1e-6, initializer_range=0.02,
        tie_word_embeddings=False, bos_token_id=None, eos_token_id=None,
        rope_parameters=dict(rope_type="default", rope_theta=1e6), num_experts=experts,
        num_experts_per_tok=chosen, moe_intermediate_size=inner, norm_topk_prob=True,
        decoder_sparse_step=1, mlp_only_layers=[], output_router_logits=False, dtype="bfloat16")


def matrices(config, experts):
    """Parameters of a layer's matrices with so many experts."""
    c = config["hidden_size"]
    wide = config["num_attention_heads"] * config["head_dim"]
    narrow = config["num_key_value_heads"] * config["head_dim"]
    return (2 * c * (wide + narrow) + c * config["num_experts"] +
            3 * experts * c * config["moe_intermediate_size"])


def device_memory():
    """Bytes of the first GPU."""
    done = subprocess.run(["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"],
                          capture_output=True, text=True)
    return int(done.stdout.split()[0]) << 20


def parameters(config):
    table = config["vocab_size"] * config["hidden_size"]
    return config["num_hidden_layers"] * matrices(config, config["num_experts"]) + 2 * table


def token_flops(config, seq):
    layers, wide = config["num_hidden_layers"], config["num_attention_heads"] * config["head_dim"]
    active = layers * matrices(config, config["num_experts_per_tok"])
    return 6 * (active + config["vocab_size"] * config["hidden_size"]) + 6 * layers * wide * seq


class Bench(parts.Bench):
    def __init__(self, args):
        super().__init__(args)
        self.batch, self.seq = (4, 64) if args.tiny else (16, 4096)
        self.layers = args.layers

    def tokens(self):
        return self.batch * self.seq

    def train(self, part, layers, steps, *options):
        config = shape(layers, self.tiny)
        run = self.hilbert.train(config, self.batch, self.seq, steps, self.args.limit, options,
                                 watch=not self.tiny)
        found = summary(run, 1, token_flops(config, self.seq) * self.tokens())
        return {**found, "part": part, "who": "hilbert", "layers": layers,
                "how": " ".join(map(str, options))}

    def peer(self):
        path = self.hilbert.config(shape(self.args.layers or (2 if self.tiny else 12), self.tiny))
        words = [path, "--batch", self.batch, "--seq", self.seq, "--limit", self.args.limit / 2]
        for line in parts.peer_lines(self.args.python, "peer_mixture.py", words, self.args.limit):
            line.update(part="memory", who=line.pop("versions"), how=", ".join(
                [f"experts {line['experts']}", f"micro-batch {line['micro_batch']}"] +
                ["gradient checkpointing"] * line["checkpointing"]))
            if "seconds" in line:
                flops = token_flops(shape(line["layers"], self.tiny), self.seq) * self.tokens()
                line["tflops"] = flops / line["seconds"] * 1e-12
            yield line

    def part_memory(self):
        if not self.args.no_peer:
            lines = collect(self.peer(), {"part": "memory", "who": "PyTorch", "how": ""})
            self.layers = lines[0].get("layers", self.layers)
            yield from lines
        for micro in self.args.micro.split(","):
            yield self.attempt("memory", self.layers or 11, 3, "--micro-batch", micro)

    def part_ram(self):
        """The GPU has room for tensors and the layers in use; almost all states are in RAM."""
        room = free_memory() - 12 * GIB
        layer, rest = (parameters(shape(n, self.tiny)) for n in (1, 0))
        layers = 2 if self.tiny else int((room / STATE_BYTES - rest) / (layer - rest))
        yield self.train("ram", layers, 3, "--micro-batch", 1 if self.tiny else 4,
                         "--device-memory", "3M" if self.tiny else "48G", "--host-memory",
                         (64 << 20) if self.tiny else room + 3 * GIB)

    def part_disk(self):
        options = ["--micro-batch", 1 if self.tiny else 4, "--disk", self.args.disk]
        rate = gpu_disk.mixed_rate(self.args.disk, (64 << 20) if self.tiny else 4 * GIB,
                                   1 if self.tiny else 6)
        if self.tiny:
            options += ["--device-memory", "16M", "--host-memory", "8M"]
        if self.args.brief:
            options += ["--device-memory", "88G", "--host-memory", "24G"]
        layers = 2 if self.tiny else 12 if self.args.brief else self.most_layers()
        while layers > 1 and not self.hilbert.plan(shape(layers, self.tiny), self.batch, self.seq,
                                                   options):
            layers -= 1
        # The second step has waited for all of the first one's update.
        found = self.train("disk", layers, 3 if self.tiny or self.args.brief else 2, *options)
        moved = found["disk_read_bytes"] + found["disk_written_bytes"]
        yield {**found, "rate": rate, "bound": moved / rate / found["seconds"]}

    def most_layers(self):
        """As many as memory and the free disk hold beside tensors in use and what is left free; at least one."""
        disk = os.statvfs(self.args.disk)
        room = device_memory() + free_memory() - 32 * GIB + disk.f_bavail * disk.f_frsize
        layer, rest = (parameters(shape(n, self.tiny)) for n in (1, 0))
        return max(1, int((room / STATE_BYTES - rest) / (layer - rest)))

    def attempt(self, part, layers, steps, *options):
        try:
            return self.train(part, layers, steps, *options)
        except Failed as error:
            return {"part": part, "who": "hilbert", "layers": layers,
                    "how": " ".join(map(str, options)), "error": str(error)}


def table(lines, config):
    out = ["| part | who | how | layers | parameters | s/step | TFLOP/s | waiting | GPU GiB | RAM GiB | of the drive's bound |",
           "|---|---|---|---|---|---|---|---|---|---|---|"]
    for line in lines:
        def number(key, form="%.2f", scale=1.0):
            return form % (line[key] * scale) if line.get(key) is not None else ""
        size = parameters(shape(line["layers"], config.tiny)) if "layers" in line else 0
        waits = sum(line.get("waits", {}).values())
        cells = line.get("error") or " | ".join((
            str(line["layers"]), f"{size / 1e9:.1f}B", number("seconds", "%.3f"),
            number("tflops", "%.0f"), f"{100 * waits / line['seconds']:.0f}%" if waits else "",
            number("gpu_bytes", "%.1f", 1 / GIB) or number("peak", "%.1f", 1 / GIB),
            number("resident", "%.1f", 1 / GIB), number("bound") +
            (f" at {line['rate'] / 1e9:.2f} GB/s" if "rate" in line else "")))
        out.append(f"| {line['part']} | {line['who']} | {line['how']} | {cells} |")
    return "\n".join(out) + "\n"


def save(lines, args):
    name = re.sub("[^a-z0-9]+", "-", f"mixture {args.machine or report.machine()}".lower())
    today = datetime.date.today()
    path = os.path.join(args.results, f"{today}-{name.strip('-')}.md")
    os.makedirs(args.results, exist_ok=True)
    with open(path, "w") as file:
        file.write(f"# A mixture of experts on one GPU, {today}\n\n`bench/mixture.py`; layers of the "
                   "Qwen3-30B-A3B shape, bf16, 64k tokens a step; TFLOP/s of active parameters.\n"
                   f"{report.machine()}.\n\n{table(lines, args)}")
    print(f"saved to {path}")


def main():
    parser = parts.parser("mixture", "a mixture of experts on one GPU", PARTS)
    parser.add_argument("--layers", type=int, help="of the part memory (default: what fits PyTorch)")
    parser.add_argument("--micro", default="4", help="hilbert's micro-batches in memory, with commas")
    parser.add_argument("--no-peer", action="store_true", help="without PyTorch")
    parser.add_argument("--limit", type=float, default=300, help="seconds of one run")
    parser.add_argument("--machine", help="its name in the file of results")
    parser.add_argument("--results", default=os.path.join(parts.HERE, "results"))
    parser.add_argument("--brief", action="store_true", help="the part disk in less memory and time")
    args = parser.parse_args()
    lines = Bench(args).run("mixture.json",
                            lambda part: {"part": part, "who": "hilbert", "how": ""})
    print(table(lines, args))
    if not args.tiny:
        save(lines, args)


if __name__ == "__main__":
    main()
