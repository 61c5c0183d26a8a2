#!/usr/bin/env python3
"""Writes tests/golden/fp8.safetensors: a linear layer whose factors are rounded to 8 bits by PyTorch's
own types, and losses of tiny models with such layers in their blocks.

    python tools/golden_fp8.py      (PyTorch with float8, transformers, numpy, safetensors)

The rule is [Note: FP8] in src/tensor/fp8.h: a tensor is multiplied by the largest power of two with
which no number passes the largest one of float8_e4m3fn (of gradients: float8_e5m2), cast, and divided
again. The gradient passes the rounding unchanged.

  x, weight, dy     [24, 40], [96, 40], [24, 96]  fp32, all of them bf16 numbers of many magnitudes
  y, dx, dweight    what the layer makes of them, not rounded
  tile.<name>       the same where the weight is two tensors of 64 and 32 rows, each with its scale
  loss.<model>      [20]  golden_models.py's run in bf16 with fp32 masters and such layers
"""
import math
import os

import numpy as np
import torch
from golden_models import BATCH, SEQ, STEPS, load, train
from safetensors.torch import save_file

FOLDER = os.path.join(os.path.dirname(__file__), "..", "tests", "golden")
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


def rounded(x, dtype):
    most = x.abs().max().double().item()
    if most == 0:
        return x
    scale = 2.0 ** math.floor(math.log2(torch.finfo(dtype).max / most))
    return ((x.double() * scale).float().to(dtype).double() / scale).to(x.dtype)


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        x8, w8 = rounded(x, E4M3), rounded(weight, E4M3)
        ctx.save_for_backward(x8, w8)
        ctx.biased = bias is not None
        return torch.nn.functional.linear(x8, w8, bias)

    @staticmethod
    def backward(ctx, dy):
        x8, w8 = ctx.saved_tensors
        dy8 = rounded(dy, E5M2)
        rows = lambda t: t.reshape(-1, t.shape[-1])
        return dy8 @ w8, rows(dy8).T @ rows(x8), rows(dy).sum(0) if ctx.biased else None


def layer(x, weights, dy):
    """In double, so that only the roundings to 8 bits are left."""
    x8, dy8 = rounded(x.double(), E4M3), rounded(dy.double(), E5M2)
    w8 = torch.cat([rounded(w.double(), E4M3) for w in weights])
    return x8 @ w8.T, dy8 @ w8, dy8.T @ x8


def numbers(generator, *shape):
    """Of both signs and many powers of two, as bf16 has them; some zeros."""
    x = torch.randn(*shape, generator=generator) * 2.0 ** (3 * torch.randn(*shape, generator=generator))
    x[torch.rand(*shape, generator=generator) < 0.05] = 0
    return x.bfloat16().float()


def losses_of(name):
    folder = os.path.join(FOLDER, "models", name)
    model = load(folder, dtype=torch.bfloat16)
    for path, module in model.named_modules():
        if isinstance(module, torch.nn.Linear) and any(part.isdigit() for part in path.split(".")):
            module.forward = lambda x, m=module: Product.apply(x, m.weight, m.bias)
    stream = np.load(os.path.join(folder, "tokens.npy")).astype(np.int64)
    windows = torch.from_numpy(stream[:STEPS * BATCH * SEQ].reshape(-1, SEQ))
    return train(model, windows)[0]


def main():
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(8)
    x, weight, dy = (numbers(generator, *s) for s in ((24, 40), (96, 40), (24, 96)))
    dy *= 2.0 ** -20
    golden = dict(x=x, weight=weight, dy=dy)
    for prefix, parts in ("", [weight]), ("tile.", [weight[:64], weight[64:]]):
        for name, value in zip(("y", "dx", "dweight"), layer(x, parts, dy)):
            golden[prefix + name] = value.float()
    for name in "llama", "qwen3", "llama_bias":
        golden["loss." + name] = losses_of(name).float()
    save_file({k: v.contiguous() for k, v in golden.items()}, os.path.join(FOLDER, "fp8.safetensors"))


if __name__ == "__main__":
    main()
