#!/usr/bin/env python3
"""golden_models.py - tiny random models and what PyTorch computes with them.

    pip install torch transformers safetensors numpy
    python tools/golden_models.py [FOLDER [NAME ...]]        (default: tests/golden/models)

The same numbers each time on the same versions of the packages; with names only those folders. Each
model is a Hugging Face folder FOLDER/<name>/ (config.json, model.safetensors, all fp32; norm
weights and biases are random too, so that a forgotten one shows) with two more files:

  tokens.npy          the stream, uint16, one dimension: for `hilbert train --no-shuffle`
  golden.safetensors
    tokens            [80, 32]  int32, the same stream cut into windows
    logits            [2, 32, vocab]  of the first two windows, fresh model
    grad.<name>       gradient of the mean loss of the first batch, by the Hugging Face name
    loss_fp32         [20]  losses of twenty steps, as described below
    aux_loss          [20]  of mixtures: the auxiliary loss in the fp32 run
    grad_norm         [20]  norm of all gradients before clipping
    loss_bf16         [20]  the same run with fp32 parameters under bf16 autocast
    loss_bf16_pure    [20]  the same run in bf16 throughout, with fp32 master weights
    logits_after      [1, 32, vocab]  of the first window, after the fp32 run
    generated         [64]  what the fresh model continues the first 8 tokens with, greedily; of
                      the families only

Step s (from 1) trains on windows 4(s-1) .. 4s-1; each window predicts its own tokens after the
first; the loss is the mean over all predicted tokens. AdamW, lr 1e-3 constant, betas 0.9 / 0.95,
eps 1e-8, decay 0.1 on everything but norms and biases, gradients clipped to norm 1.0 (PyTorch
multiplies by min(1, 1 / (norm + 1e-6))). Eager attention, one thread.

Folders for the loader, with the weights of their namesakes and no golden file:
  gpt2_hub              as on the hub: no `transformer.` prefix, h.N.attn.bias mask buffers
  opt_hub               likewise, without the prefix `model.`
  qwen2_window_sharded  several shards and an index
The families, one small model each, have the same golden file; their pad id is one of the stream's.
llama3/config_v4.json is llama3/config.json as transformers 4 wrote it.


gpt2_untied, llama_bias and qwen2_window are smaller, with the same golden file: they use options
that the six do not (exact GELU, attention scaled by layer, biases, linear rope scaling, a window
from the second layer on).
"""
import json
import math
import os
import re
import shutil
import sys
import tempfile
import zlib

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.utils import logging

from golden_configs import FAMILIES, IMAGES, MIXTURES, MODELS, SPACES, VARIANTS, with_images
from golden_early import EARLY
from golden_more import MORE
from golden_recent import RECENT, own_name
from unlisted import register

SEQ, BATCH, STEPS = 32, 4, 20
STD = 0.15
PLAIN = dict(attn_implementation="eager", experts_implementation="eager")
# Norms with 1 + weight; that of linear attention has a plain one.
PLUS = ("gemma", "gemma2", "gemma3_text", "vaultgemma", "nemotron", "qwen3_next", "qwen3_5_text",
        "qwen3_5_moe_text")


def is_vector(name, p):
    """Also the norms of Command-R+, which have a row for each head."""
    return p.ndim == 1 or name.endswith(("_norm.weight", "A_log"))


def create(config, seed, pad=None):
    """A model in which every parameter matters."""
    config.initializer_range = STD
    config.bos_token_id, config.eos_token_id = config.vocab_size - 2, config.vocab_size - 1
    if pad is not None:
        config.pad_token_id = pad
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, **PLAIN)
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.normal_(0.0, STD, generator=random)
            if is_vector(name, p) and name.endswith("weight") \
                    and (config.model_type not in PLUS or "linear_attn" in name):
                p.add_(1.0)
            if name.endswith(("router.scale", "per_expert_scale")):
                p.add_(1.0)
            if config.model_type.startswith("gemma4") and name.endswith("q_norm.weight"):
                p.mul_(0.25)  # its scores are not divided by the root of the head's size
            if name.endswith("conv1d.weight"):
                p.mul_(4.0)  # else q and k, which are divided by their lengths, would be tiny
        if config.model_type == "youtu":
            model.get_input_embeddings().weight[pad] = 0  # as transformers does when it loads it
        for name, p in model.named_buffers():
            if name.endswith(("e_score_correction_bias", "expert_bias")):
                p.normal_(0.0, STD, generator=random)
            if name.endswith("layer_scalar"):
                p.uniform_(0.5, 1.5, generator=random)
    return model.eval()


def make_tokens(vocab, seed):
    """Half noise, half a rule that a model can learn; every id may occur."""
    random = np.random.Generator(np.random.PCG64(seed))
    noise = random.integers(0, vocab, STEPS * BATCH * SEQ)
    follow = random.random(noise.size) < 0.5
    stream = noise.copy()
    for i in range(1, stream.size):
        if follow[i]:
            stream[i] = (3 * stream[i - 1] + 7) % vocab
    return stream.astype(np.uint16)


def trained(model):
    """All but what corrects the choice of experts, which some models have as a parameter, and what
    chooses keys, which gets no gradient."""
    return [(name, p) for name, p in model.named_parameters()
            if not name.endswith(("e_score_correction_bias", "mlp.expert_bias"))
            and ".indexer." not in name]


def optimizer_of(named):
    decayed = lambda name, p: not is_vector(name, p) and not name.endswith("bias")
    decay = [p for name, p in named if decayed(name, p)]
    rest = [p for name, p in named if not decayed(name, p)]
    return torch.optim.AdamW([dict(params=decay, weight_decay=0.1),
                              dict(params=rest, weight_decay=0.0)],
                             lr=1e-3, betas=(0.9, 0.95), eps=1e-8, foreach=False)


def train(model, windows, autocast=False):
    """Twenty steps. A model in bf16 is updated through fp32 master weights."""
    named = trained(model)
    pure = named[0][1].dtype == torch.bfloat16
    masters = [(n, p.detach().float().requires_grad_()) for n, p in named] if pure else named
    optimizer = optimizer_of(masters)
    losses, norms, auxiliary = [], [], []
    for step in range(STEPS):
        batch = windows[step * BATCH:(step + 1) * BATCH]
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            out = model(input_ids=batch, labels=batch)
        loss = out.loss
        if getattr(out, "aux_loss", None) is not None:
            auxiliary.append(out.aux_loss.item())
        model.zero_grad()
        loss.backward()
        if pure:
            for (_, master), (_, p) in zip(masters, named):
                master.grad = p.grad.float()
        norms.append(torch.nn.utils.clip_grad_norm_([p for _, p in masters], 1.0).item())
        optimizer.step()
        if pure:
            with torch.no_grad():
                for (_, master), (_, p) in zip(masters, named):
                    p.copy_(master)
        losses.append(loss.item())
    return torch.tensor(losses), torch.tensor(norms), torch.tensor(auxiliary)


def load(folder, **options):
    return AutoModelForCausalLM.from_pretrained(folder, **PLAIN, **options).eval()


def logits_of(model, windows):
    with torch.no_grad():
        return model(input_ids=windows).logits.float().contiguous()


def unstack(name, tensor, kind):
    """The parts of a tensor that holds all experts, under the names they have in hilbert."""
    fused = name.endswith(("input_linear.weight", "gate_up_proj", "gate_up_proj_bias"))
    block, names = name.split(".input_linear")[0].split(".output_linear")[0], ["down_proj"]
    block = block.removesuffix(".experts.gate_up_proj").removesuffix(".experts.down_proj")
    block = block.removesuffix(".experts.gate_up_proj_bias").removesuffix(".experts.down_proj_bias")
    if fused and kind == "llama4_text":
        names, fused = ["gate_up_proj"], False
    if fused:
        names = ["gate_proj", "up_proj"]
    rows = [tensor]
    if fused:
        rows = (tensor[..., 0::2], tensor[..., 1::2]) if kind == "gpt_oss" else tensor.chunk(2, 1)
    if name.endswith("_bias"):
        return {f"{block}.experts.{n}.bias": r.flatten().clone() for n, r in zip(names, rows)}
    return {f"{block}.experts.{e}.{n}.weight": r[e].clone()
            for n, r in zip(names, rows) for e in range(len(tensor))}


def is_spare(config, name):
    """Whether it is a matrix of an identity expert, which transformers has and never reads."""
    expert = re.search(r"experts\.(\d+)\.", name)
    return config.model_type == "longcat_flash" and expert and \
        int(expert[1]) >= config.n_routed_experts


def cut_kernels(tensors, config):
    """OLMo Hybrid's kernels of q, k and v as published, also where transformers wrote thirds."""
    key = config.linear_num_key_heads * config.linear_key_head_dim
    value = config.linear_num_value_heads * config.linear_value_head_dim
    parts = "qkv"
    for name in [n for n in tensors if n.endswith(("attn.conv1d.weight", "q_conv1d.weight"))]:
        block = name.removesuffix("q_conv1d.weight").removesuffix("conv1d.weight")
        if name in tensors and name.endswith("q_conv1d.weight"):
            whole = torch.cat([tensors[f"{block}{p}_conv1d.weight"] for p in parts])
        else:
            whole = tensors.pop(name)
        for part, rows in zip(parts, whole.split([key, key, value])):
            tensors[f"{block}{part}_conv1d.weight"] = rows.clone()


def gradients_of(model):
    """Under the names that hilbert has, which are mostly those of files."""
    gradients = {name: p.grad.clone() for name, p in trained(model)}
    if model.config.model_type == "olmo_hybrid":
        cut_kernels(gradients, model.config)
    if model.config.model_type == "gpt_neox":
        gradients["embed_out.weight"] = gradients.pop("lm_head.weight")
    if not getattr(model.config, "num_experts_per_tok", None) and \
            not getattr(model.config, "enable_moe_block", False):
        return gradients
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder, state_dict=gradients)
        gradients = load_file(os.path.join(folder, "model.safetensors"))
    gradients = {own_name(model.config.model_type, n): g for n, g in gradients.items()
                 if not is_spare(model.config, n)}
    stacked = [n for n in gradients if ".shared_mlp." not in n and n.endswith(
        ("_linear.weight", "experts.down_proj", "experts.gate_up_proj", "_proj_bias"))]
    for name in stacked:
        gradients.update(unstack(name, gradients.pop(name), model.config.model_type))
    return gradients


def generate(model, prompt, count=64):
    ids = prompt.view(1, -1)
    for _ in range(count):
        ids = torch.cat([ids, logits_of(model, ids)[:, -1].argmax(-1, keepdim=True)], 1)
    return ids[0, prompt.numel():].to(torch.int32)


def make_golden(folder, config, seed, pad=None):
    model = create(config, seed, pad)
    model.save_pretrained(folder)
    if os.path.basename(folder) == "olmo_hybrid_turned":
        path = os.path.join(folder, "model.safetensors")
        weights = load_file(path)
        cut_kernels(weights, config)
        save_file(weights, path, {"format": "pt"})
    stream = make_tokens(config.vocab_size, seed)
    np.save(os.path.join(folder, "tokens.npy"), stream)
    windows = torch.from_numpy(stream.astype(np.int64)).view(-1, SEQ)
    golden = {"tokens": windows.to(torch.int32), "logits": logits_of(model, windows[:2])}
    if pad is not None and os.path.basename(folder) != "phi3_long":
        golden["generated"] = generate(model, windows[0, :8])

    model(input_ids=windows[:BATCH], labels=windows[:BATCH]).loss.backward()
    for name, gradient in gradients_of(model).items():
        golden["grad." + name] = gradient
    golden["loss_fp32"], golden["grad_norm"], auxiliary = train(model, windows)
    if len(auxiliary):
        golden["aux_loss"] = auxiliary
    golden["logits_after"] = logits_of(model, windows[:1])
    golden["loss_bf16"], *_ = train(load(folder), windows, autocast=True)
    golden["loss_bf16_pure"], *_ = train(load(folder, dtype=torch.bfloat16), windows)
    save_file(golden, os.path.join(folder, "golden.safetensors"))

    far = {k: (golden[k] - golden["loss_fp32"]).abs().max().item()
           for k in ("loss_bf16", "loss_bf16_pure")}
    print(f"{os.path.basename(folder):13} {model.num_parameters():6} parameters, "
          f"loss {golden['loss_fp32'][0]:.4f} -> {golden['loss_fp32'][-1]:.4f} "
          f"(uniform {math.log(config.vocab_size):.4f}), norm {golden['grad_norm'].min():.2f} .. "
          f"{golden['grad_norm'].max():.2f}, bf16 off by {far['loss_bf16']:.1e}, "
          f"pure {far['loss_bf16_pure']:.1e}", flush=True)


def stack_experts(folder):
    """As on the hub: one tensor for all experts, and a layer that predicts further tokens."""
    path = os.path.join(folder, "model.safetensors")
    weights = load_file(path)
    first = [n for n in weights if n.endswith("experts.0.gate_proj.weight")]
    for name in first:
        block = name.removesuffix("0.gate_proj.weight")
        count = sum(n.startswith(block) for n in weights) // 3
        take = lambda part: torch.stack(
            [weights.pop(f"{block}{e}.{part}_proj.weight") for e in range(count)])
        weights[block + "gate_up_proj"] = torch.cat([take("gate"), take("up")], 1)
        weights[block + "down_proj"] = take("down")
    weights["mtp.norm.weight"] = torch.zeros(weights["lm_head.weight"].shape[1])
    save_file(weights, path, {"format": "pt"})


def make_images(folder, seed):
    """What the text model of a folder with images computes: only tokens and logits are golden."""
    torch.manual_seed(seed)
    model = with_images(os.path.basename(folder)).float().eval()
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(0.0, STD)
    model.save_pretrained(folder)
    windows = torch.randint(0, 60, (2, SEQ))
    golden = {"tokens": windows.to(torch.int32), "logits": logits_of(model, windows)}
    save_file(golden, os.path.join(folder, "golden.safetensors"))
    if os.path.basename(folder) == "qwen3_5_moe_images":
        stack_experts(folder)


def pack_mxfp4(rows):
    """Codes of 4 bits, two in a byte, and a power of two for each 32 numbers of a row."""
    table = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    groups = rows.reshape(*rows.shape[:-1], -1, 32)
    power = torch.floor(torch.log2(groups.abs().amax(-1, keepdim=True))) - 2
    scaled = groups / 2.0 ** power
    codes = (scaled.abs()[..., None] - table).abs().argmin(-1) + 8 * (scaled < 0)
    blocks = codes[..., 0::2] + 16 * codes[..., 1::2]
    return blocks.to(torch.uint8), (power[..., 0] + 127).to(torch.uint8)


def make_mxfp4(source, folder):
    """gpt_oss with experts in MXFP4, as on the hub; golden is what their numbers give."""
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors
    os.makedirs(folder)
    weights, packed = load_file(os.path.join(source, "model.safetensors")), {}
    model = load(source)
    for name in [n for n in weights if n.endswith(("experts.gate_up_proj", "experts.down_proj"))]:
        blocks, scales = pack_mxfp4(weights.pop(name).transpose(1, 2))
        packed[name + "_blocks"], packed[name + "_scales"] = blocks, scales
        numbers = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)
        with torch.no_grad():
            model.get_parameter(name).copy_(numbers)
    save_file({**weights, **packed}, os.path.join(folder, "model.safetensors"), {"format": "pt"})
    with open(os.path.join(source, "config.json")) as file:
        config = json.load(file)
    config["quantization_config"] = dict(quant_method="mxfp4", modules_to_not_convert=["lm_head"])
    del config["dtype"]
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file, indent=2)
    tokens = load_file(os.path.join(source, "golden.safetensors"))["tokens"]
    golden = {"tokens": tokens, "logits": logits_of(model, tokens[:2].long())}
    save_file(golden, os.path.join(folder, "golden.safetensors"))


def make_hub(source, folder, prefix):
    """As on the hub, without a prefix of names; gpt2 with causal masks stored as if weights."""
    os.makedirs(folder)
    shutil.copy(os.path.join(source, "config.json"), folder)
    weights = load_file(os.path.join(source, "model.safetensors"))
    weights = {name.removeprefix(prefix): w for name, w in weights.items()}
    config = AutoConfig.from_pretrained(source)
    for layer in range(config.n_layer if config.model_type == "gpt2" else 0):
        mask = torch.tril(torch.ones(config.n_positions, config.n_positions))
        weights[f"h.{layer}.attn.bias"] = mask[None, None].contiguous()
    save_file(weights, os.path.join(folder, "model.safetensors"), {"format": "pt"})


def make_v4_config(folder):
    path = os.path.join(folder, "config.json")
    with open(path) as file:
        config = json.load(file)
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = rope
    config["torch_dtype"] = config.pop("dtype")
    config["transformers_version"] = "4.45.0"
    with open(os.path.join(folder, "config_v4.json"), "w") as file:
        json.dump(config, file, indent=2, sort_keys=True)
        file.write("\n")


def check_same(folder, like, config=None):
    """The folder gives the same logits as the one it was made from."""
    options = dict(config=AutoConfig.from_pretrained(config)) if config else {}
    golden = load_file(os.path.join(like, "golden.safetensors"))
    logits = logits_of(load(folder, **options), golden["tokens"][:2].long())
    assert torch.equal(logits, golden["logits"]), folder


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(
        os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden", "models")
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    register()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    path = lambda name: os.path.join(root, name)
    only = sys.argv[2:]
    for name in only or [""]:
        shutil.rmtree(path(name), ignore_errors=True)

    first = [(name, config, seed, None) for seed, (name, config) in
             enumerate({**MODELS, **VARIANTS, **MIXTURES}.items(), 1)]
    families = [(name, config, seed, 5) for seed, (name, config) in
                enumerate(FAMILIES.items(), 1 + len(MODELS) + len(VARIANTS))]
    families += [(name, config, seed, 5) for seed, (name, config) in enumerate(SPACES.items(), 200)]
    families += [(name, config, seed, 5) for seed, (name, config) in enumerate(RECENT.items(), 300)]
    families += [(name, config, zlib.crc32(name.encode()), 5) for name, config in {**MORE, **EARLY}.items()]
    for name, config, seed, pad in first + families:
        if not only or name in only:
            make_golden(path(name), config(), seed, pad)
            check_same(path(name), path(name))
    for seed, name in enumerate(IMAGES, 100):
        if not only or name in only:
            make_images(path(name), seed)
    if not only or "gpt_oss_mxfp4" in only:
        make_mxfp4(path("gpt_oss"), path("gpt_oss_mxfp4"))
    if not only or "opt_hub" in only:
        make_hub(path("opt"), path("opt_hub"), "model.")
        check_same(path("opt_hub"), path("opt"))
    if only:
        return
    make_hub(path("gpt2"), path("gpt2_hub"), "transformer.")
    check_same(path("gpt2_hub"), path("gpt2"))
    sharded = path("qwen2_window_sharded")
    load(path("qwen2_window")).save_pretrained(sharded, max_shard_size="15KB")
    check_same(sharded, path("qwen2_window"))
    make_v4_config(path("llama3"))
    check_same(path("llama3"), path("llama3"), path("llama3/config_v4.json"))


if __name__ == "__main__":
    main()
