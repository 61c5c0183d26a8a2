#!/usr/bin/env python3
"""gpu_torch.py - the peer of bench/gpu.py: training steps in PyTorch, and the time of the library
kernels alone. Prints one line of JSON for each result.

    python3 bench/gpu_torch.py train SHAPE [--modes eager,compiled] [--pure] [--recompute] [--float8]
    python3 bench/gpu_torch.py ceiling SHAPE[,SHAPE...]
    python3 bench/gpu_torch.py frozen CONFIG.json --batch N --seq N
    python3 bench/gpu_torch.py versions

What a good user would write: weights and gradients in bf16, masters and moments in fp32 with fused
AdamW, gradients clipped to 1, SDPA through cuDNN where it takes the shape, fused norms. Eager, the
head and its cross-entropy go in chunks that compute their gradient at once; compiled, blocks and
head are compiled one by one ("compiled"), or all at once ("whole"). GPT-2's vocabulary is padded
to a multiple of 64. --pure is AdamW in bf16 without masters; --float8 multiplies the blocks'
matrices in 8 bits with one scale per tensor, found anew each time, as torchao's default does.
"""
import argparse
import json
import os
import statistics
import sys
import time

STARTED = time.time()
os.environ.setdefault("PYTORCH_ALLOC_CONF", "expandable_segments:True")

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

import gpu_shapes

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
IDS = 1 << 15  # token ids below, as in gpu.py
REPEAT_HEADS = False  # where cuDNN refuses grouped heads: still faster than FlashAttention-2
CHUNK = 4096   # tokens of the head at once, eager
GROUP = 400_000_000  # parameters whose fp32 gradients exist at once


def synchronize():
    if CUDA:
        torch.cuda.synchronize()


def padded(vocab):
    return -(-vocab // 64) * 64


def attend(q, k, v):
    """Causal, of (batch, tokens, heads, width), grouped heads; (batch, tokens, heads * width)."""
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    if REPEAT_HEADS and q.shape[1] != k.shape[1]:
        k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True,
                                         enable_gqa=q.shape[1] != k.shape[1])
    return out.transpose(1, 2).flatten(2)


def cudnn_takes_groups():
    q, k, v = (torch.randn(1, 128, n, 64, device=DEVICE, dtype=torch.bfloat16,
                           requires_grad=True) for n in (4, 2, 2))
    try:
        with sdpa_kernel([SDPBackend.CUDNN_ATTENTION]):
            attend(q, k, v).sum().backward()
        return True
    except RuntimeError:
        return False


def in_8_bits(x, dtype):
    """Codes, and what they are multiplied by."""
    scale = torch.finfo(dtype).max / x.abs().amax().float().clamp(min=1e-12)
    return (x.float() * scale).to(dtype), scale.reciprocal()


def by_columns(x):
    return x.t().contiguous().t()


def multiply_8_bits(a, b, fast=False):
    (a, a_scale), (b, b_scale) = a, b
    if not CUDA:  # for --tiny: not every CPU has PyTorch's
        return ((a.float() @ b.float()) * (a_scale * b_scale)).bfloat16()
    return torch._scaled_mm(a, b, scale_a=a_scale, scale_b=b_scale, out_dtype=torch.bfloat16,
                            use_fast_accum=fast)


class Float8(torch.autograd.Function):
    """x @ weight.T: e4m3 in forward, e5m2 for the gradient of the result."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        a, (b, b_scale) = (in_8_bits(t, torch.float8_e4m3fn) for t in (x, weight))
        return multiply_8_bits(a, (b.t(), b_scale), fast=True)

    @staticmethod
    def backward(ctx, grad):
        (a, a_scale), (b, b_scale) = (in_8_bits(t, torch.float8_e4m3fn) for t in ctx.saved_tensors)
        g, g_scale = in_8_bits(grad, torch.float8_e5m2)
        return (multiply_8_bits((g, g_scale), (by_columns(b), b_scale)),
                multiply_8_bits((g.t().contiguous(), g_scale), (by_columns(a), a_scale)))


class Linear(torch.nn.Linear):
    float8 = False

    def __init__(self, inputs, outputs, bias=False):
        super().__init__(inputs, outputs, bias=bias, device=DEVICE, dtype=torch.bfloat16)

    def forward(self, x):
        if not self.float8:
            return super().forward(x)
        y = Float8.apply(x.flatten(0, -2), self.weight).unflatten(0, x.shape[:-1])
        return y if self.bias is None else y + self.bias

    def reset_parameters(self):
        torch.nn.init.normal_(self.weight, std=0.02)
        if self.bias is not None:
            torch.nn.init.zeros_(self.bias)


def vector(value, size):
    return torch.nn.Parameter(torch.full((size,), value, device=DEVICE, dtype=torch.bfloat16))


class LlamaBlock(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        c, inner = config["hidden_size"], config["intermediate_size"]
        self.width = config["head_dim"]
        wide = config["num_attention_heads"] * self.width
        narrow = config["num_key_value_heads"] * self.width
        self.split = [wide, narrow, narrow]
        self.qkv, self.o = Linear(c, wide + 2 * narrow), Linear(wide, c)
        self.gate, self.up, self.down = Linear(c, inner), Linear(c, inner), Linear(inner, c)
        self.norm1, self.norm2 = vector(1.0, c), vector(1.0, c)

    def turn(self, x, cos, sin):
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat((-b, a), -1) * sin

    def forward(self, x, cos, sin):
        y = self.qkv(F.rms_norm(x, x.shape[-1:], self.norm1, 1e-5))
        q, k, v = (t.unflatten(-1, (-1, self.width)) for t in y.split(self.split, -1))
        x = x + self.o(attend(self.turn(q, cos, sin), self.turn(k, cos, sin), v))
        y = F.rms_norm(x, x.shape[-1:], self.norm2, 1e-5)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class GptBlock(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        c = config["n_embd"]
        self.width = c // config["n_head"]
        self.qkv, self.o = Linear(c, 3 * c, True), Linear(c, c, True)
        self.up, self.down = Linear(c, 4 * c, True), Linear(4 * c, c, True)
        self.norm1, self.bias1 = vector(1.0, c), vector(0.0, c)
        self.norm2, self.bias2 = vector(1.0, c), vector(0.0, c)

    def forward(self, x):
        y = self.qkv(F.layer_norm(x, x.shape[-1:], self.norm1, self.bias1))
        x = x + self.o(attend(*(t.unflatten(-1, (-1, self.width)) for t in y.chunk(3, -1))))
        y = F.layer_norm(x, x.shape[-1:], self.norm2, self.bias2)
        return x + self.down(F.gelu(self.up(y), approximate="tanh"))


class ChunkedLoss(torch.autograd.Function):
    """Mean cross-entropy of x @ weight.T; the gradients are computed on the way."""

    @staticmethod
    def forward(ctx, x, weight, targets):
        count, loss = len(targets), torch.zeros((), device=x.device)
        dx, dw = torch.empty_like(x), torch.zeros_like(weight)
        for at in range(0, count, CHUNK):
            part, ids = x[at:at + CHUNK], targets[at:at + CHUNK, None]
            p = torch.softmax(part @ weight.t(), -1, dtype=torch.float32)
            loss -= p.gather(1, ids).log().sum()
            g = p.scatter_add_(1, ids, torch.full_like(ids, -1, dtype=p.dtype))
            g = g.mul_(1 / count).to(x.dtype)
            torch.mm(g, weight, out=dx[at:at + CHUNK])
            dw.addmm_(g.t(), part)
        ctx.save_for_backward(dx, dw)
        return loss / count

    @staticmethod
    def backward(ctx, grad):
        dx, dw = ctx.saved_tensors
        return dx.mul_(grad), dw.mul_(grad), None


class Model(torch.nn.Module):
    def __init__(self, config, seq):
        super().__init__()
        self.gpt = config["model_type"] == "gpt2"
        layers, c = gpu_shapes.sizes(config)
        self.table = Linear(c, padded(config["vocab_size"]))
        self.head = self.table if config["tie_word_embeddings"] else Linear(
            c, padded(config["vocab_size"]))
        self.positions = Linear(c, seq) if self.gpt else None
        block = GptBlock if self.gpt else LlamaBlock
        self.blocks = torch.nn.ModuleList(block(config) for _ in range(layers))
        self.norm, self.bias = vector(1.0, c), vector(0.0, c) if self.gpt else None
        self.rotary = ()
        if not self.gpt:
            width = config["head_dim"]
            rate = config["rope_parameters"]["rope_theta"] ** (
                -torch.arange(0, width, 2, device=DEVICE) / width)
            angle = torch.outer(torch.arange(seq, device=DEVICE), rate).repeat(1, 2)[:, None]
            self.rotary = angle.cos().bfloat16(), angle.sin().bfloat16()

    def normed(self, x):
        if self.gpt:
            return F.layer_norm(x, x.shape[-1:], self.norm, self.bias)
        return F.rms_norm(x, x.shape[-1:], self.norm, 1e-5)

    def loss_eager(self, x, targets):
        return ChunkedLoss.apply(self.normed(x).flatten(0, 1), self.head.weight, targets.flatten())

    def loss_plain(self, x, targets):
        logits = self.head(self.normed(x)).float()
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def forward(self, tokens, targets, blocks, loss, recompute):
        x = F.embedding(tokens, self.table.weight)
        if self.gpt:
            x = x + self.positions.weight
        for block in blocks:
            x = (checkpoint(block, x, *self.rotary, use_reentrant=False) if recompute
                 else block(x, *self.rotary))
        return loss(x, targets)


class Masters:
    """fp32 masters and moments of bf16 parameters, in groups: their gradients come and go."""

    def __init__(self, parameters, pure):
        self.pure, self.groups = pure, []
        lists, room = [[]], GROUP
        for p in parameters:
            if room < p.numel() and lists[-1]:
                lists.append([])
                room = GROUP
            lists[-1].append(p)
            room -= p.numel()
        for own in lists:
            masters = own if pure else [torch.nn.Parameter(p.detach().float()) for p in own]
            kinds = [dict(params=[m for m in masters if m.ndim >= 2], weight_decay=0.1),
                     dict(params=[m for m in masters if m.ndim < 2], weight_decay=0.0)]
            self.groups.append((own, masters, torch.optim.AdamW(
                [k for k in kinds if k["params"]], lr=1e-4, betas=(0.9, 0.95), fused=True)))

    def step(self):
        for own, masters, optimizer in self.groups:
            if not self.pure:
                for p, m in zip(own, masters):
                    m.grad, p.grad = p.grad.float(), None
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            if not self.pure:
                with torch.no_grad():
                    torch._foreach_copy_(own, masters)


def measure(args, model, optimizer, mode, batch, seq):
    """Seconds of each step after the warm-up; wall time of the first step's end."""
    blocks, loss = model.blocks, model.loss_eager
    step = model
    if mode == "whole":
        step, loss = torch.compile(model), model.loss_plain
    if mode == "compiled":
        blocks = [torch.compile(b) for b in model.blocks]
        loss = torch.compile(model.loss_plain)
    parameters = list(model.parameters())
    seconds, losses, first = [], [], None
    for _ in range(args.warmup + args.steps):
        ids = torch.randint(0, min(IDS, model.table.weight.shape[0] // 2), (batch, seq + 1))
        synchronize()
        begin = time.perf_counter()
        ids = ids.to(DEVICE, non_blocking=True)
        value = step(ids[:, :-1], ids[:, 1:], blocks, loss, args.recompute)
        value.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)
        optimizer.step()
        losses.append(value.item())
        synchronize()
        seconds.append(time.perf_counter() - begin)
        first = first or time.time()
        if mode == "eager" and args.first:
            break
    return dict(mode=mode, seconds=statistics.median(seconds[args.warmup:] or seconds),
                all_seconds=seconds, losses=losses, first_step=first - args.since,
                peak=torch.cuda.max_memory_allocated() if CUDA else 0)


def train(args):
    config, batch, seq = gpu_shapes.shape_of(args.shapes, args.tiny)
    torch.manual_seed(1)
    model = Model(config, seq)
    for module in model.blocks.modules():
        module.float8 = args.float8 and isinstance(module, Linear)
    optimizer = Masters(model.parameters(), args.pure)
    for mode in args.modes.split(","):
        try:
            result = measure(args, model, optimizer, mode, batch, seq)
            result["tflops"] = (gpu_shapes.token_flops(config, seq) * batch * seq
                                / result["seconds"] * 1e-12)
        except (RuntimeError, torch.cuda.OutOfMemoryError) as error:
            result = dict(mode=mode, error=str(error).splitlines()[0])
            model.zero_grad(set_to_none=True)
            if CUDA:
                torch.cuda.empty_cache()
        print(json.dumps(result), flush=True)


def timed(work, repeats):
    """Median seconds of one call."""
    for _ in range(3):
        work()
    if not CUDA:
        begin = time.perf_counter()
        work()
        return time.perf_counter() - begin
    events = [torch.cuda.Event(enable_timing=True) for _ in range(repeats + 1)]
    events[0].record()
    for event in events[1:]:
        work()
        event.record()
    torch.cuda.synchronize()
    return statistics.median(a.elapsed_time(b) for a, b in zip(events, events[1:])) * 1e-3


def product(tokens, inputs, outputs, repeats):
    """Seconds of one matrix: of forward, of the input's gradient, of the weight's gradient."""
    x, w, dy = (torch.randn(*size, device=DEVICE, dtype=torch.bfloat16)
                for size in ((tokens, inputs), (outputs, inputs), (tokens, outputs)))
    return (timed(lambda: F.linear(x, w), repeats),
            timed(lambda: dy @ w, repeats), timed(lambda: dy.t() @ x, repeats))


def attention(config, batch, seq, repeats):
    heads = config.get("num_attention_heads") or config["n_head"]
    groups = config.get("num_key_value_heads", heads)
    width = gpu_shapes.sizes(config)[1] // heads
    q, k, v = (torch.randn(batch, seq, n, width, device=DEVICE, dtype=torch.bfloat16,
                           requires_grad=True) for n in (heads, groups, groups))
    with torch.no_grad():
        forward = timed(lambda: attend(q, k, v), repeats)
    out = attend(q, k, v)
    dy = torch.randn_like(out)
    return forward, timed(lambda: torch.autograd.grad(out, (q, k, v), dy, retain_graph=True),
                          repeats)


def heat(seconds):
    """Products for so long: the clocks come down to what a long run has."""
    x = torch.randn(8192, 8192, device=DEVICE, dtype=torch.bfloat16)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(10):
            x @ x
        synchronize()


def ceiling(args):
    """What a step would take if only its products and its attention took time, one after the other
    without a pause."""
    repeats = 3 if args.tiny else 20
    if CUDA:
        heat(3)
    for name in args.shapes.split(","):
        config, batch, seq = gpu_shapes.shape_of(name, args.tiny)
        layers, c = gpu_shapes.sizes(config)
        blocks = [layers * n for n in attention(config, batch, seq, repeats)]
        attending = sum(blocks)
        for inputs, outputs, count in gpu_shapes.block_products(config):
            ahead, *back = product(batch * seq, inputs, outputs, repeats)
            blocks[0] += layers * count * ahead
            blocks[1] += layers * count * sum(back)
        ahead, *back = product(batch * seq, c, padded(config["vocab_size"]), repeats)
        forward, backward = blocks[0] + ahead, blocks[1] + sum(back)
        flops = gpu_shapes.token_flops(config, seq) * batch * seq * 1e-12
        print(json.dumps(dict(shape=name, tokens=batch * seq, forward=forward, backward=backward,
                              attention=attending, again=blocks[0],
                              tflops=flops / (forward + backward),
                              tflops_recompute=flops / (forward + backward + blocks[0]))),
              flush=True)


def frozen(args):
    """The same for a config file whose weights are not trained, in micro-batches: no products for
    weights' gradients, and blocks are computed again in backward."""
    repeats = 3 if args.tiny else 5
    with open(args.shapes) as file:
        config = json.load(file)
    if CUDA:
        heat(3)
    micro = max(1, min(args.batch, args.micro_tokens // args.seq))
    layers, c = gpu_shapes.sizes(config)
    blocks = [layers * n for n in attention(config, micro, args.seq, repeats)]
    for inputs, outputs, count in gpu_shapes.block_products(config):
        for i, each in enumerate(product(micro * args.seq, inputs, outputs, repeats)[:2]):
            blocks[i] += layers * count * each
    head = product(micro * args.seq, c, padded(config["vocab_size"]), repeats)[:2]
    micros = args.batch / micro
    print(json.dumps(dict(tokens=args.batch * args.seq, micro_batch=micro, again=micros * blocks[0],
                          seconds=micros * (2 * blocks[0] + blocks[1] + sum(head)))), flush=True)


def versions():
    found = dict(torch=torch.__version__, python=sys.version.split()[0])
    if CUDA:
        found.update(gpu=torch.cuda.get_device_name(), cuda=torch.version.cuda,
                     cudnn=torch.backends.cudnn.version(),
                     gpu_bytes=torch.cuda.mem_get_info()[1])
    print(json.dumps(found))


def main():
    global REPEAT_HEADS
    parser = argparse.ArgumentParser(description="training steps in PyTorch")
    parser.add_argument("what", choices=["train", "ceiling", "frozen", "versions"])
    parser.add_argument("shapes", nargs="?", default="", help="frozen: the path of a config.json")
    parser.add_argument("--batch", type=int, default=1, help="frozen: sequences of a step")
    parser.add_argument("--seq", type=int, default=1024, help="frozen: tokens of a sequence")
    parser.add_argument("--micro-tokens", type=int, default=8192, help="frozen: at once")
    parser.add_argument("--modes", default="eager,compiled")
    parser.add_argument("--pure", action="store_true", help="AdamW in bf16, no masters")
    parser.add_argument("--recompute", action="store_true", help="blocks again in backward")
    parser.add_argument("--float8", action="store_true", help="the blocks' products in 8 bits")
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--first", action="store_true", help="eager: only the first step")
    parser.add_argument("--since", type=float, default=STARTED, help="when the command was given")
    parser.add_argument("--tiny", action="store_true", help="small shapes, on any processor")
    args = parser.parse_args()
    if not CUDA and not args.tiny and args.what != "versions":
        sys.exit("no GPU that PyTorch can use; --tiny runs on any processor")
    kernels = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]
    if CUDA and args.what != "versions":
        REPEAT_HEADS = not cudnn_takes_groups()
    with sdpa_kernel(kernels, set_priority=True):
        if args.what == "versions":
            versions()
        else:
            {"train": train, "ceiling": ceiling, "frozen": frozen}[args.what](args)


if __name__ == "__main__":
    main()
