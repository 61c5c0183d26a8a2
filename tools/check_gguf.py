#!/usr/bin/env python3
"""Reads a GGUF file with the `gguf` package and compares its tensors with the model folder that it was made from.

    python3 tools/check_gguf.py MODEL FILE.gguf        (pip install gguf safetensors numpy ml_dtypes)

Prints one line, or says what differs and exits with 1.
"""
import json
import os
import sys

import gguf
import ml_dtypes  # noqa: F401 (gives numpy bfloat16)
import numpy as np
from safetensors.numpy import load_file

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from golden_gguf import gpt2_tensors, llama_tensors  # noqa: E402

# The largest error of a number in a row whose largest magnitude is 1.
ERROR = {"F32": 0, "F16": 2.0 ** -11, "BF16": 2.0 ** -8, "Q8_0": 0.5 / 127 + 2.0 ** -10}


def main(folder, path):
    with open(os.path.join(folder, "config.json")) as file:
        config = json.load(file)
    weights = {k: v.astype(np.float32) for k, v in load_file(os.path.join(folder, "model.safetensors")).items()}
    expected = dict((gpt2_tensors if config["model_type"] == "gpt2" else llama_tensors)(config, weights))
    reader = gguf.GGUFReader(path)
    found = {t.name: t for t in reader.tensors}
    if set(found) != set(expected):
        sys.exit(f"{path}: tensors {sorted(set(found) ^ set(expected))} are only in one of the two")
    for name, tensor in found.items():
        x = gguf.quants.dequantize(tensor.data, tensor.tensor_type).reshape(expected[name].shape)
        bound = ERROR[tensor.tensor_type.name] * np.abs(expected[name]).max(axis=-1, keepdims=True)
        if not (np.abs(x - expected[name]) <= bound).all():
            sys.exit(f"{path}: {name} differs")
    tokens = reader.fields.get("tokenizer.ggml.tokens")
    print(f"{path}: {len(found)} tensors as in {folder}, {len(tokens.data) if tokens else 'no'} tokens")


if __name__ == "__main__":
    main(*sys.argv[1:])
