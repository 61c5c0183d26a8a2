#!/usr/bin/env python3
"""peer_train.py - seconds per training step of the same model in PyTorch, as one line of JSON.

transformers' own model, eager mode, SDPA attention, fused AdamW, gradients clipped to 1.0. bf16 is
fp32 parameters under bf16 autocast.
"""
import argparse
import json
import statistics
import time

import torch
import transformers

import shapes


def main():
    parser = argparse.ArgumentParser(description="time a training step in PyTorch")
    parser.add_argument("shape", choices=shapes.SHAPES)
    parser.add_argument("dtype", choices=["fp32", "bf16"])
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--seq", type=int, default=512)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    model = shapes.create(args.shape, attn_implementation="sdpa").train()
    decay = [p for p in model.parameters() if p.ndim >= 2]
    rest = [p for p in model.parameters() if p.ndim < 2]
    optimizer = torch.optim.AdamW([dict(params=decay, weight_decay=0.1),
                                   dict(params=rest, weight_decay=0.0)],
                                  lr=1e-4, betas=(0.9, 0.95), eps=1e-8, fused=True)
    vocab = model.config.vocab_size
    seconds, busy = [], []
    for _ in range(args.warmup + args.steps):
        tokens = torch.randint(0, vocab, (args.batch, args.seq))
        start, working = time.perf_counter(), time.process_time()
        with torch.autocast("cpu", torch.bfloat16, enabled=args.dtype == "bf16"):
            loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()
        seconds.append(time.perf_counter() - start)
        busy.append(time.process_time() - working)
    seconds, busy = seconds[args.warmup:], busy[args.warmup:]
    print(json.dumps({"shape": args.shape, "dtype": args.dtype, "threads": args.threads,
                      "parameters": model.num_parameters(), "seconds": statistics.median(seconds),
                      "all_seconds": seconds, "cpu_seconds": min(busy), "torch": torch.__version__,
                      "transformers": transformers.__version__}))


if __name__ == "__main__":
    main()
