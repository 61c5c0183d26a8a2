#!/usr/bin/env python3
"""check_folder.py - do saved folders load in transformers and give these logits?

    python tools/check_folder.py [--key logits_after] [--tolerance 1e-4] FOLDER GOLDEN ...

GOLDEN is a safetensors file with `tokens` [windows, seq] and the logits [n, seq, vocab] of its
first n windows under --key (`logits` by default). The error is max|a-b| / max|b|. If it has
`generated` [n] and the key is `logits`, generate() must continue the first 8 tokens with those
greedily. Exit status 1 where an error is above the tolerance, or where transformers misses or does
not know a tensor.
"""
import argparse
import os
import shutil
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.utils import logging

from unlisted import register

PROMPT = 8  # tokens before the generated ones


def check_logits(model, golden, args):
    expected = golden[args.key]
    with torch.no_grad():
        logits = model(input_ids=golden["tokens"][:len(expected)].long()).logits
    if logits.shape != expected.shape:
        return f"logits are {tuple(logits.shape)}, expected {tuple(expected.shape)}"
    error = ((logits - expected).abs().max() / expected.abs().max()).item()
    print(f"relative error of {args.key} {error:.2e}", end="")
    return None if error <= args.tolerance else f"above the tolerance {args.tolerance:g}"


def check_generated(model, golden):
    expected = golden["generated"].tolist()
    prompt = golden["tokens"][:1, :PROMPT].long()
    ids = model.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False,
                         max_new_tokens=len(expected), min_new_tokens=len(expected),
                         eos_token_id=-1, pad_token_id=0)
    same = ids[0, PROMPT:].tolist() == expected
    print(f", {len(expected)} tokens generated", end="")
    return None if same else "other tokens"


def complete(folder, room):
    """The folder, or a copy in `room` with what transformers 5 wants beside the published tensors:
    matrices of LongCat's identity experts, which it never reads."""
    config = AutoConfig.from_pretrained(folder)
    if config.model_type != "longcat_flash":
        return folder
    shutil.copytree(folder, room, dirs_exist_ok=True)
    path = os.path.join(room, "model.safetensors")
    weights, first = load_file(path), config.n_routed_experts
    for name, tensor in list(weights.items()):
        if ".experts.0.gate_proj." in name or ".experts.0.up_proj." in name:
            for expert in range(first, first + config.zero_expert_num):
                weights[name.replace(".experts.0.", f".experts.{expert}.")] = tensor.clone()
    save_file(weights, path, {"format": "pt"})
    return room


def check(folder, golden, args):
    """What is wrong with the folder; None: nothing."""
    with tempfile.TemporaryDirectory() as room:
        return check_complete(complete(folder, room), golden, args)


def check_complete(folder, golden, args):
    model, info = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager",
        experts_implementation="eager", output_loading_info=True)
    wrong = {name: sorted(map(str, names)) for name, names in info.items() if names}
    if wrong:
        return f"transformers complains: {wrong}"
    model.eval()
    wrong = check_logits(model, golden, args)
    if wrong or args.key != "logits" or "generated" not in golden:
        return wrong
    return check_generated(model, golden)


def main():
    parser = argparse.ArgumentParser(description="compare model folders with golden logits")
    parser.add_argument("pairs", nargs="+", metavar="FOLDER GOLDEN")
    parser.add_argument("--key", default="logits")
    parser.add_argument("--tolerance", type=float, default=1e-5)
    args = parser.parse_args()
    if len(args.pairs) % 2:
        parser.error("each folder needs a golden file")

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.set_num_threads(1)
    register()
    failed = 0
    for folder, golden in zip(args.pairs[::2], args.pairs[1::2]):
        print(f"{folder}: ", end="", flush=True)
        wrong = check(folder, load_file(golden), args)
        print(f": {wrong}" if wrong else "")
        failed += bool(wrong)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
