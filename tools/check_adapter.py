#!/usr/bin/env python3
"""check_adapter.py - does an adapter folder load in PEFT and give the loss that hilbert gives?

    pip install torch transformers peft
    python tools/check_adapter.py HILBERT [MODELS]      (default: tests/golden/models)

Trains adapters of the golden models with the program HILBERT, loads each folder in PEFT, and
compares the losses of both on the same windows; then the other way round with PEFT's folders in
tests/golden/adapters. Exit status 1 where they differ by more than 1e-5.
"""
import os
import subprocess
import sys
import tempfile

import numpy as np
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM
from transformers.utils import logging

SEQ = 32
HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "..", "tests", "golden")
KINDS = [[], ["--rslora"], ["--dora"]]


def peft_loss(base, adapter):
    model = AutoModelForCausalLM.from_pretrained(base, attn_implementation="eager",
                                                 dtype=torch.float32)
    model = PeftModel.from_pretrained(model, adapter).eval()
    windows = torch.from_numpy(np.load(os.path.join(base, "tokens.npy")).astype(np.int64))
    windows = windows.view(-1, SEQ)
    with torch.no_grad():
        return model(input_ids=windows, labels=windows).loss.item()


def own_loss(hilbert, base, adapter):
    out = subprocess.run([hilbert, "eval", "--model", base, "--adapter", adapter, "--data",
                          os.path.join(base, "tokens.npy"), "--seq", str(SEQ), "--json"],
                         check=True, capture_output=True, text=True).stdout
    return float(out.split('"loss": ')[1].split(",")[0])


def compare(hilbert, base, adapter, name):
    a, b = own_loss(hilbert, base, adapter), peft_loss(base, adapter)
    print(f"{name:40} hilbert {a:.7f}  PEFT {b:.7f}  {abs(a - b):.1e}", flush=True)
    return abs(a - b) <= 1e-5


def main():
    hilbert = sys.argv[1]
    models = sys.argv[2] if len(sys.argv) > 2 else os.path.join(GOLDEN, "models")
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.set_num_threads(1)
    good = True
    with tempfile.TemporaryDirectory() as work:
        for name in ("gpt2", "llama", "mistral", "qwen2", "qwen3"):
            for kind in KINDS:
                base, out = os.path.join(models, name), os.path.join(work, name + "".join(kind))
                subprocess.run([hilbert, "train", "--model", base, "--data",
                                os.path.join(base, "tokens.npy"), "--seq", str(SEQ), "--batch", "4",
                                "--steps", "5", "--lr", "1e-2", "--dtype", "fp32", "--adapter",
                                "lora", "--rank", "3", "--quiet", "--out", out, *kind], check=True)
                good &= compare(hilbert, base, out, " ".join([name, *kind]) + " by hilbert")
    folders = os.path.join(GOLDEN, "adapters")
    for name in sorted(os.listdir(folders)):
        adapter = os.path.join(folders, name)
        with open(os.path.join(adapter, "base")) as file:
            base = os.path.join(models, file.read().strip())
        good &= compare(hilbert, base, adapter, name + " by PEFT")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
