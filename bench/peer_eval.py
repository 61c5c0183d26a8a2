#!/usr/bin/env python3
"""peer_eval.py - the loss of one window in transformers from a cold start; run.py times it.

    python bench/peer_eval.py FOLDER TOKENS.npy SEQ THREADS
"""
import sys

import numpy
import torch
from transformers import AutoModelForCausalLM


def main():
    folder, path, seq, threads = sys.argv[1:]
    torch.set_num_threads(int(threads))
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokens = torch.from_numpy(numpy.load(path)[None, :int(seq)].astype(numpy.int64))
    with torch.no_grad():
        print(model(input_ids=tokens, labels=tokens).loss.item())


if __name__ == "__main__":
    main()
