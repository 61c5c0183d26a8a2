#!/usr/bin/env python3
"""peer_qlora.py - the peer of bench/finetune.py: QLoRA steps with transformers, PEFT and
bitsandbytes on one GPU. Prints one line of JSON for each way.

    python3 bench/peer_qlora.py SHAPE [--batch N] [--seq N] [--rank N] [--steps N] [--tiny]

What a good user would write: the base in NF4 with double quantization, computing in bf16, SDPA,
adapters of bf16 on all linear layers of the blocks, fused AdamW, gradients clipped to 1. Ways:
gradient checkpointing with the whole batch at once, and without it the largest micro-batches that
fit. Weights are random, quantized on the GPU.
"""
import argparse
import json
import os
import statistics
import sys
import time

os.environ.setdefault("PYTORCH_ALLOC_CONF", "expandable_segments:True")

import bitsandbytes
import peft
import torch
import transformers

import gpu_shapes

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"


def quantized(linear):
    """The same layer with its weight in NF4."""
    layer = bitsandbytes.nn.Linear4bit(
        linear.in_features, linear.out_features, bias=linear.bias is not None,
        compute_dtype=torch.bfloat16, compress_statistics=True, quant_type="nf4", device="meta")
    layer.weight = bitsandbytes.nn.Params4bit(
        linear.weight.data, requires_grad=False, compress_statistics=True, quant_type="nf4")
    layer.weight = layer.weight._quantize(linear.weight.device)
    layer.bias = linear.bias
    return layer


def build(config, rank):
    config = transformers.LlamaConfig(**{key: value for key, value in config.items()
                                         if key not in ("model_type", "dtype")})
    config._attn_implementation = "sdpa"
    config.use_cache = False
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(DEVICE):
        model = transformers.LlamaForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    for block in model.model.layers:
        for part in (block.self_attn, block.mlp):
            for name, child in list(part.named_children()):
                if isinstance(child, torch.nn.Linear):
                    setattr(part, name, quantized(child))
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    if CUDA:
        torch.cuda.empty_cache()
    targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    model = peft.get_peft_model(
        model, peft.LoraConfig(r=rank, lora_alpha=rank, lora_dropout=0.0, target_modules=targets,
                               task_type="CAUSAL_LM"), autocast_adapter_dtype=False)
    model.train()
    return model


def step(model, optimizer, ids, micro):
    parts = len(ids) // micro
    total = 0.0
    for part in ids.split(micro):
        loss = model(input_ids=part, labels=part).loss / parts
        loss.backward()
        total += loss.detach()
    torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return float(total)


def measure(model, args, batch, micro, checkpointing, vocab):
    if checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
        model.enable_input_require_grads()
    else:
        model.gradient_checkpointing_disable()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4,
                                  fused=CUDA)
    ids = torch.randint(0, min(vocab, 1 << 15), (batch, args.seq), device=DEVICE)
    times = []
    if CUDA:
        torch.cuda.reset_peak_memory_stats()
    for _ in range(args.warmup + args.steps):
        began = time.monotonic()
        step(model, optimizer, ids, micro)
        if CUDA:
            torch.cuda.synchronize()
        times.append(time.monotonic() - began)
    return {"seconds": statistics.median(times[args.warmup:]), "all_seconds": times,
            "gpu_bytes": torch.cuda.max_memory_reserved() if CUDA else 0}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("shape")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--seq", type=int, default=1024)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--tiny", action="store_true")
    args = parser.parse_args()
    config = gpu_shapes.shape_of(args.shape, args.tiny)[0]
    model = build(config, args.rank)
    versions = {"torch": torch.__version__, "transformers": transformers.__version__,
                "peft": peft.__version__, "bitsandbytes": bitsandbytes.__version__}
    ways = [("checkpointing", args.batch, True)]
    ways += [("kept", args.batch >> half, False) for half in (1, 2)]
    for name, micro, checkpointing in ways:
        found = {"way": name, "micro_batch": micro, "tokens": args.batch * args.seq, **versions}
        try:
            found.update(measure(model, args, args.batch, micro, checkpointing,
                                 config["vocab_size"]))
        except torch.OutOfMemoryError:
            found["error"] = "out of memory"
        model.zero_grad(set_to_none=True)
        if CUDA:
            torch.cuda.empty_cache()
        print(json.dumps(found), flush=True)
        if name == "kept" and "error" not in found:
            break


if __name__ == "__main__":
    sys.exit(main())
