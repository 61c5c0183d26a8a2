#!/usr/bin/env python3
"""Speed of a transformers model through `hilbert.offload`, beside plain PyTorch with everything in
GPU memory and DeepSpeed ZeRO-3 with offload to RAM, on one GPU.

    bench/bridge.py [--tokens 65536 16384] [--ways hilbert resident plain deepspeed] [--layers N ...]

Before the first way a process imports what all ways do, so that Python's modules are compiled
(PYTHONPYCACHEPREFIX, where the packages' folder cannot be written), and lets hilbert measure the machine, which
it does once, as DeepSpeed compiles its operations: compile these before. A virtual machine that
has just started gets RAM from its host at first use, which takes longer than all else: with --touch
the time to start does not depend on which way comes first.

Ways: `hilbert` has its states in RAM and --device-memory of the GPU; `resident` has all of them in
GPU memory through the same hooks; `plain` is PyTorch alone, with fp32 masters; `kept` is `hilbert`
without recomputation, in micro-batches of half the size, and `deepspeed-kept` the same of DeepSpeed. Each runs in a process of its own, with
all numbers of tokens, the largest first. Prints a table, and writes every number to --out as JSON.
Llama 3B by default: bf16, fp32 masters, clipping, cuDNN attention.
"""

import argparse
import contextlib
import json
import os
import resource
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

WAYS = ("hilbert", "kept", "resident", "plain", "deepspeed", "deepspeed-kept")
RATES = {"lr": 1e-5, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    p.add_argument("--tokens", nargs="+", type=int, default=[65536, 16384], help="of a step")
    p.add_argument("--sequence", type=int, default=4096)
    p.add_argument("--micro", type=int, default=16384, help="tokens of a forward")
    p.add_argument("--steps", type=int, default=6, help="the first two are not counted")
    p.add_argument("--recompute", choices=["on", "off"], default="on")
    p.add_argument("--parts", choices=["on", "off"], default="off",
                   help="one more step, with a wait after each part of it")
    p.add_argument("--device-memory", default="20G", help="of the way hilbert")
    p.add_argument("--host-memory", default="90%")
    p.add_argument("--hidden", type=int, default=3072)
    p.add_argument("--layers", type=int, default=28)
    p.add_argument("--heads", type=int, default=24)
    p.add_argument("--intermediate", type=int, default=8192)
    p.add_argument("--vocabulary", type=int, default=128256)
    p.add_argument("--touch", type=float, default=0, metavar="GB",
                   help="write to so much RAM before, and free it")
    p.add_argument("--device", default="cuda", help="cpu: to try this script on a small model")
    p.add_argument("--out", default="bridge.json")
    p.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)  # of one measurement
    return p.parse_args()


def make_model(o, around=contextlib.nullcontext()):
    """In bf16, drawn on the device."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    config = LlamaConfig(
        vocab_size=o.vocabulary, hidden_size=o.hidden, intermediate_size=o.intermediate,
        num_hidden_layers=o.layers, num_attention_heads=o.heads, num_key_value_heads=o.heads // 3,
        max_position_embeddings=o.sequence, tie_word_embeddings=True, use_cache=False)
    config._attn_implementation = "sdpa"
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(o.device), around:
        model = LlamaForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    if o.recompute == "on":
        model.gradient_checkpointing_enable({"use_reentrant": False})
    return model.train()


class Plain:
    """AdamW on fp32 masters, everything in GPU memory."""

    def __init__(self, o):
        import torch
        self.model = make_model(o)
        self.params = list(self.model.parameters())
        self.masters = [p.detach().float() for p in self.params]
        self.optimizer = torch.optim.AdamW(self.masters, fused=o.device == "cuda", **RATES)

    def accumulate(self, count):
        """How many backward calls make a step from now on."""

    def loss(self, ids):
        return self.model(input_ids=ids, labels=ids).loss

    def backward(self, loss):
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

    def account(self):
        return {}


class Hilbert(Plain):
    def __init__(self, o):
        import hilbert
        model = make_model(o)
        states = sum(p.numel() for p in model.parameters()) * 18
        memory = int(1.1 * states) if o.way == "resident" else o.device_memory
        self.model = hilbert.offload(model, dtype="bf16", clip=1.0, device=o.device, saves=False,
                                     device_memory=memory, host_memory=o.host_memory, **RATES)

    def backward(self, loss):
        self.model.backward(loss)

    def step(self):
        self.model.step()

    def account(self):
        account = self.model.hilbert.store.account()
        waits = account.wait_seconds
        return {"to_device_gb": account.to_device_bytes / 1e9, "to_host_gb": account.to_host_bytes / 1e9,
                "exposed_update": account.exposed_update_seconds,
                "waits": {name: getattr(waits, name) for name, _ in waits._fields_}}


class DeepSpeed(Plain):
    def __init__(self, o):
        import deepspeed
        import torch
        rows, count = o.micro // o.sequence, o.tokens[0] // o.micro
        layer = o.hidden * (o.hidden * 8 // 3 + 3 * o.intermediate)
        config = {
            "train_micro_batch_size_per_gpu": rows, "gradient_accumulation_steps": count,
            "bf16": {"enabled": True, "check_grad_overflow": False}, "gradient_clipping": 1.0,
            "steps_per_print": 10**6,
            "zero_optimization": {
                "stage": 3, "overlap_comm": True, "contiguous_gradients": True,
                "reduce_bucket_size": max(500_000_000, int(o.vocabulary * o.hidden * 1.01)),
                "stage3_prefetch_bucket_size": max(100_000_000, 2 * layer),
                "stage3_max_live_parameters": 10**10, "stage3_max_reuse_distance": 10**10,
                "offload_optimizer": {"device": "cpu", "pin_memory": True},
                "offload_param": {"device": "cpu", "pin_memory": True}},
            "optimizer": {"type": "AdamW", "params": RATES}}
        model = make_model(o, deepspeed.zero.Init(config_dict_or_path=config))
        with torch.no_grad():  # transformers has drawn what was partitioned away
            for p in model.parameters():
                with deepspeed.zero.GatheredParameters([p], modifier_rank=0):
                    p.fill_(1.0) if p.dim() == 1 else p.normal_(0.0, 0.02)
        self.rows = rows
        self.model = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)[0]

    def accumulate(self, count):
        self.count = count
        self.model.set_train_batch_size(self.rows * count)

    def backward(self, loss):
        self.model.backward(loss * self.count)  # it divides
        self.model.step()

    def step(self):
        pass


def since_start():
    """Seconds since this process began."""
    with open("/proc/self/stat", encoding="ascii") as file:
        ticks = int(file.read().rsplit(")", 1)[1].split()[19])
    with open("/proc/uptime", encoding="ascii") as file:
        return float(file.read().split()[0]) - ticks / os.sysconf("SC_CLK_TCK")


PEERS = {"plain": Plain, "deepspeed": DeepSpeed, "deepspeed-kept": DeepSpeed}


def measure(o):
    """One way, in this process; prints a line of JSON for each number of tokens."""
    import torch
    way = PEERS.get(o.way, Hilbert)(o)
    made = since_start()
    n = sum(getattr(p, "ds_numel", p.numel()) for p in way.model.parameters())
    generator = torch.Generator().manual_seed(1)
    wait = torch.cuda.synchronize if o.device == "cuda" else lambda: None
    first = 0

    def one_step(count, parts=None):
        """A step; the seconds of its forwards, backwards and the rest are added to `parts`."""
        def lap(name):
            if parts is not None:
                wait()
                parts[name] = parts.get(name, 0) + time.time() - lap.last
                lap.last = time.time()
        ids = torch.randint(0, o.vocabulary, (count, o.micro // o.sequence, o.sequence),
                            generator=generator).to(o.device)
        wait()
        start = lap.last = time.time()
        for part in ids:
            loss = way.loss(part) / count
            lap("forward")
            way.backward(loss)
            lap("backward")
        way.step()
        lap("step")
        wait()
        return time.time() - start, float(loss.detach()) * count

    for tokens in o.tokens:
        count = tokens // o.micro
        way.accumulate(count)
        steps = []
        for i in range(o.steps):
            if i == 2:
                way.account()
            steps.append(one_step(count))
            first = first or since_start()
        account = way.account()
        mean = sum(seconds for seconds, _ in steps[2:]) / len(steps[2:])
        flops = 6 * n * tokens + 12 * o.layers * o.hidden * o.sequence * tokens / 2
        row = {"way": o.way, "tokens": tokens, "seconds": mean, "all_seconds": [s for s, _ in steps],
               "tflops": flops / mean / 1e12, "made": made, "first_step": first,
               "losses": [loss for _, loss in steps], "account": account, "steps": len(steps) - 2,
               "ram_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, "parts": {}}
        if o.device == "cuda":
            row["gpu_gb"] = torch.cuda.max_memory_allocated() / 1e9
            row["gpu"] = torch.cuda.get_device_name()
        if o.way not in PEERS:
            row["placed"] = way.model.hilbert.store.placed()
        if o.parts == "on":
            one_step(count, row["parts"])
        print("RESULT " + json.dumps(row), flush=True)


def attention(o):
    """cuDNN's attention where there is a GPU."""
    if o.device != "cuda":
        return contextlib.nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel
    return sdpa_kernel(SDPBackend.CUDNN_ATTENTION)


def run_way(o, way):
    """Rows of one way, measured by a process of its own."""
    left_out = ("ways", "way", "tokens", "out", "micro", "recompute")
    micro, recompute = (o.micro // 2, "off") if way.endswith("kept") else (o.micro, o.recompute)
    arguments = [a for name, value in vars(o).items() if name not in left_out
                 for a in ("--" + name.replace("_", "-"), str(value))]
    alone = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1",
             "MASTER_PORT": "29533"}
    run = subprocess.run([sys.executable, __file__, "--way", way, *arguments, "--recompute", recompute,
                          "--micro", str(micro), "--tokens", *map(str, o.tokens)],
                         stdout=subprocess.PIPE, text=True, check=False,
                         env={**os.environ, **(alone if way.startswith("deepspeed") else {})})
    rows = [json.loads(line[7:]) for line in run.stdout.splitlines() if line.startswith("RESULT ")]
    return rows or [{"way": way, "tokens": o.tokens[0], "failed": run.returncode}]


def prepare(o):
    """What is done once on a machine, in a process of its own."""
    code = "import torch\nfrom transformers import LlamaConfig, LlamaForCausalLM\n"
    if any(way.startswith("deepspeed") for way in o.ways):
        code += "import deepspeed\n"
    if any(way not in PEERS for way in o.ways):
        code += ("import sys, hilbert\ndevice, device_memory, host_memory = sys.argv[1:]\n"
                 "hilbert.offload(torch.nn.Linear(64, 64), device=device, dtype='bf16', saves=False,\n"
                 "                device_memory=device_memory, host_memory=host_memory)\n")
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python")
    subprocess.run([sys.executable, "-c", code, o.device, o.device_memory, o.host_memory], check=True,
                   env={**os.environ, "PYTHONPATH": os.pathsep.join([path, os.environ.get("PYTHONPATH", "")])})


def touch(gigabytes):
    """Writes to so much RAM by as many processes as there are cores, which then end."""
    code = "import sys; all = bytearray(int(sys.argv[1])); all[::4096] = bytes(len(all[::4096]))"
    each = str(int(gigabytes * 1e9 / os.cpu_count()))
    for process in [subprocess.Popen([sys.executable, "-c", code, each])
                    for _ in range(os.cpu_count())]:
        process.wait()


def main():
    o = options()
    o.tokens.sort(reverse=True)
    o.micro = min([o.micro, *o.tokens])
    if o.way:
        with attention(o):
            measure(o)
        return
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    prepare(o)
    touch(o.touch)
    rows = []
    for way in o.ways:
        rows += run_way(o, way)
        with open(o.out, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    rows.sort(key=lambda r: -r["tokens"])
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
