#!/usr/bin/env python3
"""check_folder.py - does a saved folder load in transformers and give these logits?

    python tools/check_folder.py FOLDER GOLDEN [--key logits_after] [--tolerance 1e-4]

GOLDEN is a safetensors file with `tokens` [windows, seq] and the logits [n, seq, vocab] of its
first n windows under --key (`logits` by default). The error is max|a-b| / max|b|. Exit status 1
where it is above the tolerance, or where transformers misses or does not know a tensor.
"""
import argparse
import sys

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM
from transformers.utils import logging


def main():
    parser = argparse.ArgumentParser(description="compare a model folder with golden logits")
    parser.add_argument("folder")
    parser.add_argument("golden")
    parser.add_argument("--key", default="logits")
    parser.add_argument("--tolerance", type=float, default=1e-5)
    args = parser.parse_args()

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.set_num_threads(1)
    model, info = AutoModelForCausalLM.from_pretrained(
        args.folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    wrong = {name: sorted(map(str, names)) for name, names in info.items() if names}
    if wrong:
        sys.exit(f"{args.folder}: transformers complains: {wrong}")

    golden = load_file(args.golden)
    expected = golden[args.key]
    with torch.no_grad():
        logits = model.eval()(input_ids=golden["tokens"][:len(expected)].long()).logits
    if logits.shape != expected.shape:
        sys.exit(f"{args.folder}: logits are {tuple(logits.shape)}, "
                 f"expected {tuple(expected.shape)}")
    error = ((logits - expected).abs().max() / expected.abs().max()).item()
    print(f"{args.folder}: relative error of {args.key} {error:.2e}")
    if not error <= args.tolerance:
        sys.exit(f"{args.folder}: above the tolerance {args.tolerance:g}")


if __name__ == "__main__":
    main()
