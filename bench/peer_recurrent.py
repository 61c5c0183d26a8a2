#!/usr/bin/env python3
"""peer_recurrent.py - what PyTorch takes for the recurrent operations of bench_ops.

    pip install torch transformers
    python bench/peer_recurrent.py [THREADS]

The same shapes, forward and backward, in milliseconds (the best of seven): the convolution with
SiLU, and the gated delta rule and the state space of Mamba-2 as transformers computes them without
kernels of others, in chunks of its default sizes.
"""
import sys
import time

import torch
import torch.nn.functional as F
from transformers.models.mamba2.modeling_mamba2 import mamba2_chunk_scan
from transformers.models.qwen3_next.modeling_qwen3_next import torch_chunk_gated_delta_rule

LENGTH, HEADS, KEYS, DIM, SPACES, SPACE, STATES, REPEAT = 1024, 16, 8, 128, 48, 64, 128, 7


def measure(name, dtype, function, *inputs):
    forward, backward = [], []
    for _ in range(REPEAT):
        for x in inputs:
            x.grad = None
        start = time.perf_counter()
        out = function(*inputs)
        middle = time.perf_counter()
        out.backward(torch.ones_like(out))
        forward.append(middle - start)
        backward.append(time.perf_counter() - middle)
    name = f"{name} {str(dtype).split('.')[-1]}"
    print(f"{name:24} forward {min(forward) * 1e3:8.2f} ms  backward {min(backward) * 1e3:8.2f} ms",
          flush=True)


def wave(*shape, dtype):
    count = torch.Size(shape).numel()
    return torch.sin(torch.arange(count)).reshape(shape).to(dtype).requires_grad_()


def check(dtype):
    channels = (2 * KEYS + HEADS) * DIM
    kernel = wave(channels, 1, 4, dtype=dtype)
    measure("causal_conv", dtype, lambda x: F.silu(F.conv1d(
        x.transpose(1, 2), kernel, padding=3, groups=channels)[..., :LENGTH]).transpose(1, 2),
        wave(1, LENGTH, channels, dtype=dtype))

    def delta(q, k, v, g, beta):
        share = HEADS // KEYS
        return torch_chunk_gated_delta_rule(
            q.repeat_interleave(share, 2), k.repeat_interleave(share, 2), v, -F.softplus(g),
            beta.sigmoid(), use_qk_l2norm_in_kernel=True)[0]
    measure("delta_rule", dtype, delta, wave(1, LENGTH, KEYS, DIM, dtype=dtype),
            wave(1, LENGTH, KEYS, DIM, dtype=dtype), wave(1, LENGTH, HEADS, DIM, dtype=dtype),
            wave(1, LENGTH, HEADS, dtype=dtype), wave(1, LENGTH, HEADS, dtype=dtype))

    def space(x, t, b, c):
        return mamba2_chunk_scan(x, t, rate, b, c, chunk_size=256, D=direct, dt_bias=bias,
                                 dt_softplus=True)
    rate, direct, bias = (wave(SPACES, dtype=torch.float32) for _ in range(3))
    rate = -rate.detach().exp().requires_grad_()
    measure("state_space", dtype, space, wave(1, LENGTH, SPACES, SPACE, dtype=dtype),
            wave(1, LENGTH, SPACES, dtype=dtype), wave(1, LENGTH, 1, STATES, dtype=dtype),
            wave(1, LENGTH, 1, STATES, dtype=dtype))


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
    for kind in (torch.float32, torch.bfloat16):
        check(kind)
