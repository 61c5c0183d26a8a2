#!/usr/bin/env python3
"""Speed of a transformers model through `hilbert.offload`, beside plain PyTorch with everything in
GPU memory and DeepSpeed ZeRO-3 with offload to RAM, on one GPU.

    bench/bridge.py [--tokens 65536 16384] [--ways hilbert resident plain deepspeed] [--layers N ...]

Ways: `hilbert` has its states in RAM and --device-memory of the GPU; `resident` has all of them in
GPU memory through the same hooks; `plain` is PyTorch alone, with fp32 masters. Each runs in a
process of its own. Prints a table, and writes every number to --out as JSON. Llama 3B by default:
bf16, fp32 masters, clipping, cuDNN attention.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

WAYS = ("hilbert", "resident", "plain", "deepspeed")
RATES = {"lr": 1e-5, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    p.add_argument("--tokens", nargs="+", type=int, default=[65536, 16384], help="of a step")
    p.add_argument("--sequence", type=int, default=4096)
    p.add_argument("--micro", type=int, default=16384, help="tokens of a forward")
    p.add_argument("--steps", type=int, default=6, help="the first two are not counted")
    p.add_argument("--recompute", choices=["on", "off"], default="on")
    p.add_argument("--device-memory", default="20G", help="of the way hilbert")
    p.add_argument("--host-memory", default="90%")
    p.add_argument("--hidden", type=int, default=3072)
    p.add_argument("--layers", type=int, default=28)
    p.add_argument("--heads", type=int, default=24)
    p.add_argument("--intermediate", type=int, default=8192)
    p.add_argument("--vocabulary", type=int, default=128256)
    p.add_argument("--device", default="cuda", help="cpu: to try this script on a small model")
    p.add_argument("--out", default="bridge.json")
    p.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)  # of one measurement
    return p.parse_args()


def make_model(o):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    config = LlamaConfig(
        vocab_size=o.vocabulary, hidden_size=o.hidden, intermediate_size=o.intermediate,
        num_hidden_layers=o.layers, num_attention_heads=o.heads, num_key_value_heads=o.heads // 3,
        max_position_embeddings=o.sequence, tie_word_embeddings=True, use_cache=False)
    config._attn_implementation = "sdpa"
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    where = o.device if o.way in ("plain", "resident") else "cpu"
    with torch.device(where):
        model = LlamaForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    if o.recompute == "on":
        model.gradient_checkpointing_enable({"use_reentrant": False})
    return model.train()


class Plain:
    """AdamW on fp32 masters, everything in GPU memory."""

    def __init__(self, model, o):
        import torch
        self.model = model.to(o.device)
        self.params = list(model.parameters())
        self.masters = [p.detach().float() for p in self.params]
        self.optimizer = torch.optim.AdamW(self.masters, fused=o.device == "cuda", **RATES)

    def loss(self, ids):
        return self.model(input_ids=ids, labels=ids).loss

    def backward(self, loss, last):
        loss.backward()

    def step(self):
        import torch
        for master, param in zip(self.masters, self.params):
            master.grad = param.grad.float()
            param.grad = None
        torch.nn.utils.clip_grad_norm_(self.masters, 1.0, foreach=True)
        self.optimizer.step()
        self.optimizer.zero_grad()
        with torch.no_grad():
            torch._foreach_copy_(self.params, self.masters)


class Hilbert(Plain):
    def __init__(self, model, o):
        import hilbert
        states = sum(p.numel() for p in model.parameters()) * 18
        memory = o.device_memory if o.way == "hilbert" else int(1.1 * states)
        self.model = hilbert.offload(model, dtype="bf16", clip=1.0, device=o.device, saves=False,
                                     device_memory=memory, host_memory=o.host_memory, **RATES)

    def backward(self, loss, last):
        self.model.backward(loss)

    def step(self):
        self.model.step()


class DeepSpeed(Plain):
    def __init__(self, model, o):
        import deepspeed
        rows, count = o.micro // o.sequence, o.tokens[0] // o.micro
        self.model = deepspeed.initialize(model=model, model_parameters=model.parameters(), config={
            "train_micro_batch_size_per_gpu": rows, "gradient_accumulation_steps": count,
            "bf16": {"enabled": True}, "gradient_clipping": 1.0,
            "zero_optimization": {"stage": 3, "overlap_comm": True,
                                  "offload_optimizer": {"device": "cpu", "pin_memory": True},
                                  "offload_param": {"device": "cpu", "pin_memory": True}},
            "optimizer": {"type": "AdamW", "params": RATES}})[0]
        self.count = count

    def backward(self, loss, last):
        self.model.backward(loss * self.count)  # it divides
        self.model.step()

    def step(self):
        pass


def measure(o):
    """One way and one number of tokens, in this process; prints a line of JSON."""
    import torch
    begun = time.time()
    way = {"plain": Plain, "deepspeed": DeepSpeed}.get(o.way, Hilbert)(make_model(o), o)
    tokens, count = o.tokens[0], o.tokens[0] // o.micro
    generator = torch.Generator().manual_seed(1)
    wait = torch.cuda.synchronize if o.device == "cuda" else lambda: None
    seconds, losses = [], []
    for _ in range(o.steps):
        ids = torch.randint(0, o.vocabulary, (count, o.micro // o.sequence, o.sequence),
                            generator=generator).to(o.device)
        wait()
        start = time.time()
        for i, part in enumerate(ids):
            loss = way.loss(part) / count
            way.backward(loss, i + 1 == count)
        way.step()
        wait()
        seconds.append(time.time() - start)
        losses.append(float(loss.detach()) * count)
        if len(seconds) == 1:
            first = time.time() - begun
    n = sum(p.numel() for p in way.model.parameters()) if o.way != "deepspeed" else sum(
        p.ds_numel for p in way.model.parameters())
    mean = sum(seconds[2:]) / len(seconds[2:])
    flops = 6 * n * tokens + 12 * o.layers * o.hidden * o.sequence * tokens / 2
    row = {"way": o.way, "tokens": tokens, "seconds": mean, "all_seconds": seconds,
           "tflops": flops / mean / 1e12, "first_step": first, "losses": losses,
           "ram_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6}
    if o.device == "cuda":
        row["gpu_gb"] = torch.cuda.max_memory_allocated() / 1e9
        row["gpu"] = torch.cuda.get_device_name()
    if o.way in ("hilbert", "resident"):
        row["placed"] = way.model.hilbert.store.placed()
        account = way.model.hilbert.store.account()
        row["waits"] = {name: getattr(account.wait_seconds, name)
                        for name, _ in account.wait_seconds._fields_}
    print("RESULT " + json.dumps(row), flush=True)


def attention(o):
    """cuDNN's attention where there is a GPU."""
    import contextlib
    if o.device != "cuda":
        return contextlib.nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel
    return sdpa_kernel(SDPBackend.CUDNN_ATTENTION)


def main():
    o = options()
    o.micro = min([o.micro, *o.tokens])
    if o.way:
        with attention(o):
            measure(o)
        return
    rows = []
    for tokens in o.tokens:
        for way in o.ways:
            arguments = [a for name, value in vars(o).items() if name not in ("ways", "way", "tokens", "out")
                         for a in ("--" + name.replace("_", "-"), str(value))]
            run = subprocess.run([sys.executable, __file__, "--way", way, "--tokens", str(tokens),
                                  *arguments], stdout=subprocess.PIPE, text=True)
            lines = [line for line in run.stdout.splitlines() if line.startswith("RESULT ")]
            rows.append(json.loads(lines[-1][7:]) if lines else
                        {"way": way, "tokens": tokens, "failed": run.returncode})
            with open(o.out, "w", encoding="utf-8") as file:
                json.dump(rows, file, indent=1)
    print("| tokens | way | s per step | TFLOP/s | first step after | RAM | GPU, PyTorch |")
    print("|---|---|---|---|---|---|---|")
    for r in rows:
        if "failed" in r:
            print(f"| {r['tokens']} | {r['way']} | failed ({r['failed']}) | | | | |")
            continue
        print(f"| {r['tokens']} | {r['way']} | {r['seconds']:.2f} | {r['tflops']:.0f} | "
              f"{r['first_step']:.0f} s | {r['ram_gb']:.0f} GB | {r.get('gpu_gb', 0):.0f} GB |")


if __name__ == "__main__":
    main()
