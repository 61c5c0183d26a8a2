#!/usr/bin/env python3
"""peer_generate.py - greedy tokens per second of transformers' generate, as one line of JSON.

The rate is that of all tokens after the first: (tokens - 1) / (time for all - time for one), so
loading and reading the prompt do not count. The model comes from a folder.
"""
import argparse
import json
import statistics
import time

import torch
from transformers import AutoModelForCausalLM
from transformers.utils import logging


def main():
    parser = argparse.ArgumentParser(description="time greedy generation in transformers")
    parser.add_argument("folder")
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="bf16")
    parser.add_argument("--prompt-tokens", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.set_num_threads(args.threads)
    dtype = torch.bfloat16 if args.dtype == "bf16" else torch.float32
    model = AutoModelForCausalLM.from_pretrained(args.folder, dtype=dtype).eval()
    prompt = torch.arange(args.prompt_tokens)[None] + 65

    def seconds(tokens):
        start = time.perf_counter()
        out = model.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False,
                             use_cache=True, max_new_tokens=tokens)
        assert out.shape[1] == args.prompt_tokens + tokens
        return time.perf_counter() - start

    seconds(args.tokens)
    rates = [(args.tokens - 1) / (seconds(args.tokens) - seconds(1)) for _ in range(args.runs)]
    print(json.dumps({"tokens_per_second": statistics.median(rates), "all": rates}))


if __name__ == "__main__":
    main()
