#!/usr/bin/env python3
"""Writes what bitsandbytes makes of some matrices on a CPU, for tests/tensor/test_quant.c.

    tools/golden_quant.py tests/golden        formats/quant.safetensors

For each matrix NAME: NAME.in, the codes NAME.codes, the scales NAME.absmax (before double quantization),
NAME.scales (their codes), NAME.nested, NAME.offset, NAME.bf16 and NAME.fp16 (expanded). NAME.int8 and NAME.SCB
are those of int8. PyTorch has one thread, so that its sums have one order. Rows are whole blocks or no multiple of
16: on other ones bitsandbytes 0.50 takes wrong scales when it expands with AVX-512.
"""
import sys

import bitsandbytes.functional as bnb
import torch
from safetensors.torch import save_file

torch.set_num_threads(1)
torch.manual_seed(3)


def matrices():
    yield "bf16", (torch.randn(128, 192) * 0.02).to(torch.bfloat16)
    heavy = torch.randn(40, 448) * 0.05
    heavy[::7, ::11] *= 30
    yield "fp32", heavy
    yield "odd", torch.randn(67, 37).to(torch.float16)  # the last block is not whole
    zeros = torch.randn(8, 64) * 1e-3
    zeros[2:4] = 0
    yield "zeros", zeros.to(torch.bfloat16)
    yield "small", (torch.randn(3, 64) * 0.1).to(torch.bfloat16)  # fewer scales than lanes of a sum


out = {}
for name, w in matrices():
    codes, plain = bnb.quantize_4bit(w, quant_type="nf4")
    again, nested = bnb.quantize_4bit(w, quant_type="nf4", compress_statistics=True)
    assert torch.equal(codes, again)
    out[f"{name}.in"] = w
    out[f"{name}.codes"] = codes.reshape(-1)
    out[f"{name}.absmax"] = plain.absmax
    out[f"{name}.scales"] = nested.absmax
    out[f"{name}.nested"] = nested.state2.absmax
    out[f"{name}.offset"] = nested.offset.reshape(1)
    for dtype, torch_dtype in (("bf16", torch.bfloat16), ("fp16", torch.float16)):
        nested.dtype = torch_dtype
        out[f"{name}.{dtype}"] = bnb.dequantize_4bit(codes, nested)
    nested.dtype = torch.float32
    # In fp32 an expanded number is the product itself.
    whole = bnb.dequantize_4bit(codes, nested)
    assert torch.equal(whole.to(torch.bfloat16), out[f"{name}.bf16"])
    if name in ("odd", "small"):
        out[f"{name}.fp32"] = whole
    rows, scb, _ = bnb.int8_vectorwise_quant(w.to(torch.float16))
    if torch.isfinite(scb).all() and (scb > 0).all():
        out[f"{name}.int8"] = rows
        out[f"{name}.SCB"] = scb
save_file({k: v.contiguous() for k, v in out.items()}, sys.argv[1] + "/formats/quant.safetensors")
