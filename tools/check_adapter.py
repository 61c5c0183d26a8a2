#!/usr/bin/env python3
"""check_adapter.py - do PEFT, transformers and bitsandbytes compute what hilbert computes?

    pip install torch transformers peft bitsandbytes
    python tools/check_adapter.py HILBERT [MODELS]      (default: tests/golden/models)

Trains adapters of the golden models with the program HILBERT, loads each folder in PEFT, and
compares losses and all logits of both on the same windows; then the other way round with PEFT's
folders in tests/golden/adapters. The same for folders in nf4: those of `hilbert quantize` in
transformers with bitsandbytes, also with an adapter that was trained on them, and those of
bitsandbytes in hilbert. Exit status 1 where a loss differs by more than 1e-5, or a logit by more than that and by
more than twice what PEFT's logits in fp32 differ from PEFT's in fp64: the folders of tests/golden/adapters have random
numbers and are that sensitive, and two programs may err in opposite directions.

The logits are those of the program print_logits, which the build puts beside HILBERT.
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

from unlisted import register

SEQ = 32
MOST = 1e-5
HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "..", "tests", "golden")
NAMES = ("gpt2", "llama", "mistral", "qwen2", "qwen3")
KINDS = [[], ["--rslora"], ["--dora"]]


def windows_of(tokens):
    windows = np.load(tokens).astype(np.int64)
    return torch.from_numpy(windows[:len(windows) // SEQ * SEQ].reshape(-1, SEQ))


def loss_of(logits, windows):
    return torch.nn.functional.cross_entropy(logits[:, :-1].double().flatten(0, 1),
                                             windows[:, 1:].flatten()).item()


def their_logits(base, adapter, windows, dtype=torch.float32):
    model = AutoModelForCausalLM.from_pretrained(base, attn_implementation="eager",
                                                 experts_implementation="eager", dtype=dtype,
                                                 device_map="cpu")
    if adapter:
        model = PeftModel.from_pretrained(model, adapter).to(dtype)
    with torch.no_grad():
        return model.eval()(input_ids=windows).logits


def own_logits(hilbert, base, adapter, tokens, shape):
    program = os.path.join(os.path.dirname(os.path.abspath(hilbert)), "print_logits")
    out = subprocess.run([program, base, tokens, str(SEQ)] + ([adapter] if adapter else []),
                         check=True, capture_output=True).stdout
    return torch.from_numpy(np.frombuffer(out, dtype=np.float32).reshape(shape).copy())


def compare(hilbert, base, adapter, tokens, name):
    windows = windows_of(tokens)
    theirs = their_logits(base, adapter, windows)
    own = own_logits(hilbert, base, adapter, tokens, theirs.shape)
    worst, largest = (own - theirs).abs().max().item(), theirs.abs().max().item()
    a, b = loss_of(own, windows), loss_of(theirs, windows)
    line = f"{name:40} loss {a:.7f} {abs(a - b):.1e}  logits up to {largest:.1f}: {worst:.1e}"
    most = MOST
    if worst > MOST:
        exact = their_logits(base, adapter, windows, torch.float64)
        error = (theirs - exact).abs().max().item()
        most = 2 * error
        line += f", PEFT to fp64 {error:.1e}, hilbert to fp64 {(own - exact).abs().max().item():.1e}"
    print(line, flush=True)
    return abs(a - b) <= MOST and worst <= most


def train(hilbert, base, tokens, out, more):
    subprocess.run([hilbert, "train", "--model", base, "--data", tokens, "--seq", str(SEQ),
                    "--batch", "4", "--steps", "5", "--lr", "1e-2", "--dtype", "fp32", "--adapter",
                    "lora", "--rank", "3", "--quiet", "--out", out, *more], check=True)


def check_adapters(hilbert, models, work):
    good = True
    for name in NAMES:
        for kind in KINDS:
            base, out = os.path.join(models, name), os.path.join(work, name + "".join(kind))
            tokens = os.path.join(base, "tokens.npy")
            train(hilbert, base, tokens, out, kind)
            good &= compare(hilbert, base, out, tokens, " ".join([name, *kind]) + " by hilbert")
    for name in sorted(os.listdir(models)):
        base, out = os.path.join(models, name), os.path.join(work, name + "_all")
        tokens = os.path.join(base, "tokens.npy")
        if name not in NAMES and os.path.exists(tokens):
            train(hilbert, base, tokens, out, [])
            good &= compare(hilbert, base, out, tokens, name + " by hilbert")
    for name in ("mixtral", "qwen2_moe", "qwen3_moe", "qwen3_next", "olmoe", "granitemoe", "hy_v3",
                 "llama4", "gemma4_moe", "nemotron_h_moe"):
        base, out = os.path.join(models, name), os.path.join(work, name)
        tokens = os.path.join(base, "tokens.npy")
        train(hilbert, base, tokens, out, ["--targets", "q_proj,*.experts.*"])
        good &= compare(hilbert, base, out, tokens, name + " with experts by hilbert")
    folders = os.path.join(GOLDEN, "adapters")
    for name in sorted(os.listdir(folders)):
        adapter = os.path.join(folders, name)
        with open(os.path.join(adapter, "base")) as file:
            base = os.path.join(models, file.read().strip())
        good &= compare(hilbert, base, adapter, os.path.join(base, "tokens.npy"), name + " by PEFT")
    return good


def check_quantized(hilbert, models, work):
    good = True
    for name in NAMES:
        base, out = os.path.join(models, name), os.path.join(work, name + "_nf4")
        tokens = os.path.join(base, "tokens.npy")
        subprocess.run([hilbert, "quantize", base, out], check=True, capture_output=True)
        good &= compare(hilbert, out, None, tokens, name + " in nf4 by hilbert")
        for kind in KINDS:
            adapter = out + "_adapter" + "".join(kind)
            train(hilbert, out, tokens, adapter, kind)
            good &= compare(hilbert, out, adapter, tokens,
                            " ".join([name, *kind]) + " on nf4 by hilbert")
    for name in ("gpt2_nf4", "llama_nf4", "llama_plain"):
        tokens = os.path.join(models, name.split("_")[0], "tokens.npy")
        good &= compare(hilbert, os.path.join(GOLDEN, "quantized", name), None, tokens,
                        name + " by bitsandbytes")
    return good


def main():
    hilbert = sys.argv[1]
    models = sys.argv[2] if len(sys.argv) > 2 else os.path.join(GOLDEN, "models")
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.set_num_threads(1)
    register()
    with tempfile.TemporaryDirectory() as work:
        good = check_adapters(hilbert, models, work)
        good &= check_quantized(hilbert, models, work)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
