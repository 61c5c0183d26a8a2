#!/usr/bin/env python3
"""peer_mixture.py - the peer of bench/mixture.py: steps of a Qwen3-MoE of transformers on one GPU.
Prints one line of JSON for each way.

    python3 bench/peer_mixture.py CONFIG [--layers N] [--batch N] [--seq N] [--steps N] [--limit S]

Weights and gradients in bf16, masters and moments in fp32 with fused AdamW (gpu_torch.py), SDPA,
gradients clipped to 1. Layers: as many as CONFIG has, or fewer until one micro-batch of one sequence
fits (--layers is how many to begin with). Ways: the implementations of experts that transformers
has, without and with gradient checkpointing, each with the largest micro-batches that fit.
"""
import argparse
import json
import os
import statistics
import time

os.environ.setdefault("PYTORCH_ALLOC_CONF", "expandable_segments:True")

import torch
import transformers

from gpu_torch import CUDA, DEVICE, Masters, synchronize


VERSIONS = f"transformers {transformers.__version__}, PyTorch {torch.__version__}"


def build(config, layers):
    config = transformers.AutoConfig.for_model(**{**config, "num_hidden_layers": layers,
                                                  "use_cache": False})
    with torch.device(DEVICE):
        model = transformers.AutoModelForCausalLM.from_config(
            config, dtype=torch.bfloat16, attn_implementation="sdpa")
    return model.train()


def step(model, optimizer, ids, micro):
    total = 0.0
    for part in ids.split(micro):
        loss = model(input_ids=part, labels=part).loss * len(part) / len(ids)
        loss.backward()
        total += loss.detach()
    torch.nn.utils.clip_grad_norm_(list(model.parameters()), 1.0, foreach=True)
    optimizer.step()
    return float(total)


def fitting(config, layers, seq):
    """Model and optimizer with as many layers as one sequence at a time leaves room for."""
    ids = torch.randint(0, config["vocab_size"], (2, seq), device=DEVICE)
    while True:
        model = optimizer = None
        try:
            model = build(config, layers)
            optimizer = Masters(model.parameters(), False)
            step(model, optimizer, ids, 1)
            return model, optimizer, layers
        except torch.cuda.OutOfMemoryError:
            layers -= 1
        del model, optimizer  # here, because the error refers to them
        torch.cuda.empty_cache()


def measure(model, optimizer, way, args):
    experts, checkpointing, micro = way
    model.set_experts_implementation(experts)
    if checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    else:
        model.gradient_checkpointing_disable()
    ids = torch.randint(0, 1 << 15, (args.batch, args.seq)) % model.config.vocab_size
    seconds, losses = [], []
    for _ in range(1 + args.steps):
        synchronize()
        begin = time.perf_counter()
        losses.append(step(model, optimizer, ids.to(DEVICE), micro))
        synchronize()
        seconds.append(time.perf_counter() - begin)
    return {"seconds": statistics.median(seconds[1:]), "all_seconds": seconds, "losses": losses,
            "peak": torch.cuda.max_memory_allocated() if CUDA else 0}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("config")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--seq", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--limit", type=float, default=100, help="seconds; no way begins after it")
    args = parser.parse_args()
    with open(args.config) as file:
        config = json.load(file)
    torch.manual_seed(1)
    end = time.monotonic() + args.limit
    model, optimizer, layers = fitting(config, args.layers or config["num_hidden_layers"], args.seq)
    for experts in ("grouped_mm", "eager"):
        for checkpointing in (False, True):
            for micro in (4, 2, 1):
                if time.monotonic() > end:
                    return
                line = {"layers": layers, "experts": experts, "checkpointing": checkpointing,
                        "micro_batch": micro, "versions": VERSIONS}
                try:
                    line.update(measure(model, optimizer, (experts, checkpointing, micro), args))
                except torch.cuda.OutOfMemoryError as error:
                    line["error"] = str(error).splitlines()[0].partition(". GPU 0")[0]
                print(json.dumps(line), flush=True)
                if "seconds" in line:
                    break
                model.zero_grad(set_to_none=True)
                torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
