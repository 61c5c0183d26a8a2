#!/usr/bin/env python3
"""golden_adapters.py - adapters of the tiny golden models, and what PEFT computes with them.

    pip install torch transformers peft safetensors numpy
    python tools/golden_adapters.py [FOLDER [NAME ...]]      (default: tests/golden/adapters)

The bases are the folders of tests/golden/models (tools/golden_models.py). Each adapter is a folder
FOLDER/<name>/ as PEFT saves it, with random numbers in every tensor (B too, so that no gradient is
zero), and a file more:

  golden.safetensors, all fp32
    logits           [1, 2, vocab]  of the last two positions of the first window
    grad.<name>      gradient of the mean loss of the first batch, by the name in the folder
    loss             [20]  losses of twenty steps, as in golden_models.py; everything is decayed but
                     norms and biases
    merged.<name>    a weight of the base after PEFT's merge, by its Hugging Face name
  base               name of the base, in a file of one line
"""
import json
import os
import shutil
import sys

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM
from transformers.utils import logging

BATCH, STEPS = 4, 20
TOOLS = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(TOOLS, "..", "tests", "golden")
ALL = dict(r=2, lora_alpha=6, target_modules="all-linear")
KINDS = {"lora": {}, "rslora": dict(use_rslora=True), "dora": dict(use_dora=True)}
ADAPTERS = {f"{base}_{kind}": (base, dict(ALL, **more))
            for base in ("gpt2", "llama", "qwen2", "qwen3")
            for kind, more in KINDS.items()}
ADAPTERS |= {
    # What a config can say of single layers.
    "patterns": ("qwen2", dict(
        r=3, lora_alpha=4, target_modules=["q_proj", "v_proj", "mlp.up_proj", "mlp.down_proj"],
        rank_pattern={"v_proj": 1, r"layers\.1\.mlp\..*_proj": 5}, alpha_pattern={"q_proj": 7},
        exclude_modules=["layers.0.mlp.up_proj"])),
    "layers": ("mistral", dict(
        r=2, lora_alpha=5, target_modules=["q_proj", "down_proj"], layers_to_transform=[0, 2],
        layers_pattern="layers")),
    "expression": ("llama_bias", dict(
        r=2, lora_alpha=2, target_modules=r"model\.layers\.\d+\.(self_attn|mlp)\.(?:k|o|gate)_proj",
        bias="lora_only", use_dora=True)),
    "saved": ("gpt2_untied", dict(
        r=2, lora_alpha=3, target_modules=["c_attn", "c_fc"], bias="all",
        modules_to_save=["lm_head", "ln_f"])),
    # Projections that are fused in files are one matrix to PEFT.
    "fused": ("phi3", dict(
        r=3, lora_alpha=4, target_modules=["qkv_proj", "o_proj", "gate_up_proj"])),
    "gemma": ("gemma2", dict(r=2, lora_alpha=3, target_modules="all-linear", use_dora=True)),
    # Experts are 3-D parameters to PEFT: one pair of stacked matrices for all of a layer.
    "experts": ("qwen3_moe", dict(
        r=2, lora_alpha=3, target_modules=["q_proj"],
        target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"],
        rank_pattern={r"layers\.2\.mlp\.experts\.down_proj": 3}, alpha_pattern={"gate_up_proj": 5})),
    # Of a mixture that has linear layers in transformers 4 these are experts and routers as well.
    "experts_all": ("mixtral", ALL),
    "experts_only": ("mixtral", dict(
        r=3, lora_alpha=4, target_modules=[], target_parameters=["layers.1.mlp.experts.down_proj"],
        use_rslora=True)),
    # The columns of gate and up alternate.
    "experts_alternating": ("gpt_oss", dict(
        r=2, lora_alpha=3, target_modules=["q_proj"],
        target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"])),
    # Linear attention: its projections are linear layers, its convolution is none.
    "linear_attention": ("qwen3_5", ALL),
    # There they are fused, and interleaved by the heads of keys.
    "linear_attention_fused": ("qwen3_next", dict(
        r=2, lora_alpha=3, use_dora=True,
        target_modules=["in_proj_qkvz", "in_proj_ba", "out_proj", "q_proj", "shared_expert_gate"])),
    # State spaces, and experts beside one for all tokens.
    "state_space": ("granitemoehybrid", dict(
        ALL, target_parameters=["experts.gate_up_proj", "experts.down_proj"])),
    # Modules have other names in memory than in files, out_proj is refused, experts have a latent.
    "state_space_renamed": ("nemotron_h_moe", dict(
        r=2, lora_alpha=3, target_modules=["in_proj", "q_proj", "layers.1.mixer.fc1_latent_proj"],
        target_parameters=["mixer.experts.up_proj", "mixer.experts.down_proj"])),
    # PEFT takes the names of the shared expert's layers in target_modules for experts.
    "linear_attention_all": ("qwen3_next", dict(ALL, lora_alpha=2)),
    "beside_experts": ("deepseek_v3", dict(
        r=2, lora_alpha=3, target_modules=["q_a_proj", "kv_b_proj"],
        target_parameters=["gate_proj.weight", "up_proj.weight", "down_proj.weight"])),
    # Of transposed experts PEFT takes rows for columns.
    "experts_swapped": ("llama4", dict(
        r=2, lora_alpha=3, target_modules=["q_proj", "shared_expert.up_proj"],
        target_parameters=["experts.gate_up_proj", "experts.down_proj"])),
    # The router is a linear layer.
    "experts_router": ("gemma4_moe", dict(
        r=2, lora_alpha=3, target_modules=["q_proj", "router.proj"],
        target_parameters=["experts.gate_up_proj", "experts.down_proj"])),
    # A linear layer before the blocks.
    "inputs": ("gemma4", ALL),
    "convolution": ("lfm2", dict(ALL, use_dora=True)),
}
# Of experts: the name in files, that of the parameter, the expert, and its rows.
EXPERTS = {"experts": ("model.layers.2.mlp.experts.5.up_proj.weight",
                       "model.layers.2.mlp.experts.gate_up_proj", 5, slice(14, 28)),
           "experts_all": ("model.layers.0.block_sparse_moe.experts.1.w1.weight",
                           "model.layers.0.mlp.experts.gate_up_proj", 1, slice(18)),
           "experts_only": ("model.layers.1.block_sparse_moe.experts.2.w2.weight",
                            "model.layers.1.mlp.experts.down_proj", 2, slice(None)),
           "linear_attention_all": ("model.layers.0.mlp.experts.3.up_proj.weight",
                                    "model.layers.0.mlp.experts.gate_up_proj", 3, slice(14, 28)),
           "state_space_renamed": ("backbone.layers.1.mixer.experts.1.down_proj.weight",
                                   "model.layers.1.mixer.experts.down_proj", 1, slice(None))}
MERGED = {"qwen3_next": "model.layers.0.linear_attn.in_proj_qkvz.weight",
          "qwen3_5": "model.layers.0.linear_attn.in_proj_a.weight",
          "gpt2": "transformer.h.1.mlp.c_proj.weight",
          "gpt_oss": "model.layers.1.mlp.experts.gate_up_proj",
          "experts_swapped": "model.layers.0.feed_forward.experts.gate_up_proj",
          "experts_router": "model.layers.1.experts.down_proj",
          "inputs": "model.per_layer_model_projection.weight",
          "beside_experts": "model.layers.0.mlp.down_proj.weight",
          "state_space": "model.layers.0.mamba.in_proj.weight",
          "convolution": "model.layers.0.conv.in_proj.weight",
          "layers": "model.layers.2.mlp.down_proj.weight", "expression": "model.layers.1.self_attn.o_proj.weight", "saved": "lm_head.weight"}


def load(base):
    return AutoModelForCausalLM.from_pretrained(
        os.path.join(GOLDEN, "models", base), attn_implementation="eager",
        experts_implementation="eager", dtype=torch.float32).eval()


def randomise(model, seed):
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if not p.requires_grad:
                continue
            noise = torch.empty_like(p).normal_(0.0, 0.1, generator=random)
            if "lora_A" in name or "lora_B" in name:
                p.copy_(2 * noise)
            else:
                p.add_(noise)


def saved_name(name):
    for part in (".default", ".modules_to_save"):
        name = name.replace(part, "")
    return name.replace("lora_magnitude_vector.weight", "lora_magnitude_vector")


def optimizer_of(named):
    def decays(name, p):
        return p.ndim >= 2 or "magnitude" in name
    return torch.optim.AdamW(
        [dict(params=[p for n, p in named if decays(n, p)], weight_decay=0.1),
         dict(params=[p for n, p in named if not decays(n, p)], weight_decay=0.0)],
        lr=1e-3, betas=(0.9, 0.95), eps=1e-8, foreach=False)


def train(model, windows):
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    optimizer = optimizer_of(named)
    losses = []
    for step in range(STEPS):
        batch = windows[step * BATCH:(step + 1) * BATCH]
        loss = model(input_ids=batch, labels=batch).loss
        model.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_([p for _, p in named], 1.0)
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses)


def make(folder, name, base, options, seed):
    model = get_peft_model(load(base), LoraConfig(task_type="CAUSAL_LM", **options)).eval()
    for p in model.parameters():
        if p.requires_grad:
            p.data = p.data.clone()
    randomise(model, seed)
    model.save_pretrained(folder)
    os.remove(os.path.join(folder, "README.md"))
    os.chmod(os.path.join(folder, "adapter_model.safetensors"), 0o644)
    path = os.path.join(folder, "adapter_config.json")
    with open(path) as file:
        config = json.load(file)
    config["base_model_name_or_path"] = base
    for key in ("target_modules", "target_parameters", "modules_to_save"):
        if isinstance(config.get(key), list):
            config[key].sort()
    with open(path, "w") as file:
        json.dump(config, file, indent=2, sort_keys=True)
        file.write("\n")
    with open(os.path.join(folder, "base"), "w") as file:
        file.write(base + "\n")

    windows = load_file(os.path.join(GOLDEN, "models", base, "golden.safetensors"))["tokens"].long()
    golden = {}
    with torch.no_grad():
        golden["logits"] = model(input_ids=windows[:1]).logits[:, -2:].clone()
    model(input_ids=windows[:BATCH], labels=windows[:BATCH]).loss.backward()
    tensors = load_file(os.path.join(folder, "adapter_model.safetensors"))
    for n, p in model.named_parameters():
        if p.requires_grad:
            assert saved_name(n) in tensors, saved_name(n)
            golden["grad." + saved_name(n)] = p.grad.clone()
    golden["loss"] = train(model, windows)
    merged = PeftModel.from_pretrained(load(base), folder).merge_and_unload()
    which = MERGED.get(name, MERGED.get(base, "model.layers.1.mlp.down_proj.weight"))
    if name in EXPERTS:
        which, stack, expert, rows = EXPERTS[name]
        golden["merged." + which] = merged.state_dict()[stack][expert, rows].detach().clone()
    else:
        golden["merged." + which] = merged.state_dict()[which].detach().clone()
    with torch.no_grad():
        far = (merged(input_ids=windows[:1]).logits[:, -2:] - golden["logits"]).abs().max()
    save_file({k: v.contiguous() for k, v in golden.items()},
              os.path.join(folder, "golden.safetensors"))
    os.chmod(os.path.join(folder, "golden.safetensors"), 0o644)
    print(f"{name:14} {len(tensors):3} tensors, loss {golden['loss'][0]:.4f} -> "
          f"{golden['loss'][-1]:.4f}, merged logits off by {far:.1e}", flush=True)


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(GOLDEN, "adapters")
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    only = sys.argv[2:]
    for name in only or [""]:
        shutil.rmtree(os.path.join(root, name), ignore_errors=True)
    for seed, (name, (base, options)) in enumerate(ADAPTERS.items(), 1):
        if only and name not in only:
            continue
        torch.manual_seed(seed)
        make(os.path.join(root, name), name, base, options, seed)


if __name__ == "__main__":
    main()
