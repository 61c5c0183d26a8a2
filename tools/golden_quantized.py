#!/usr/bin/env python3
"""golden_quantized.py - tiny quantized folders, and what transformers, PEFT and bitsandbytes compute with them.

    pip install torch transformers peft bitsandbytes safetensors numpy
    python tools/golden_quantized.py [FOLDER]      (default: tests/golden/quantized)

FOLDER/<base>_<kind>/ is a model of tests/golden/models as transformers saves it: nf4 with and without double
quantization (nf4, plain), int8; fp8 is written here by the formula of transformers' own quantizer. In
golden.safetensors: loss, of all windows of tokens.npy; for nf4 also qlora and qdora, the losses of twenty steps of the
adapters tests/golden/adapters/<base>_lora and <base>_dora on this base, and magnitude, the norms with which a new DoRA
adapter begins in one layer.
"""
import json
import os
import shutil
import sys

import numpy
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from transformers.utils import logging

import golden_adapters

SEQ = 32
GOLDEN = golden_adapters.GOLDEN
FOUR = dict(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.float32)
KINDS = {"nf4": dict(FOUR, bnb_4bit_use_double_quant=True), "plain": FOUR, "int8": dict(load_in_8bit=True)}


def load(path, **more):
    return AutoModelForCausalLM.from_pretrained(path, attn_implementation="eager", dtype=torch.float32,
                                                device_map="cpu", **more).eval()


def loss_of(model, base):
    tokens = numpy.load(os.path.join(GOLDEN, "models", base, "tokens.npy")).astype(numpy.int64).reshape(-1)
    windows = torch.tensor(tokens[:len(tokens) // SEQ * SEQ].reshape(-1, SEQ))
    with torch.no_grad():
        logits = model(windows).logits.float()
    return torch.nn.functional.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]),
                                             windows[:, 1:].reshape(-1)).reshape(1)


def squares(w):
    rows, cols = -(-w.shape[0] // 128), -(-w.shape[1] // 128)
    scale, codes = torch.empty(rows, cols), torch.empty_like(w, dtype=torch.float8_e4m3fn)
    for r in range(rows):
        for c in range(cols):
            part = (slice(r * 128, r * 128 + 128), slice(c * 128, c * 128 + 128))
            steps = 448.0 / w[part].abs().max()
            codes[part] = (w[part] * steps).clamp(-448, 448).to(torch.float8_e4m3fn)
            scale[r, c] = steps.reciprocal()
            w[part] = codes[part].float() * scale[r, c]
    return codes, scale


def make_fp8(base, folder):
    """Returns the model with expanded weights."""
    source = os.path.join(GOLDEN, "models", base)
    model, tensors = load(source), {}
    for name, w in model.state_dict().items():
        if ".layers." in name and w.ndim == 2:
            tensors[name], tensors[name + "_scale_inv"] = squares(w)
        else:
            tensors[name] = w.clone()
    os.makedirs(folder)
    save_file(tensors, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    with open(os.path.join(source, "config.json")) as file:
        config = json.load(file)
    config["quantization_config"] = {"quant_method": "fp8", "activation_scheme": "dynamic",
                                     "weight_block_size": [128, 128]}
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file, indent=2)
    return model


def new_magnitude(source, options, base):
    target = {"llama": "model.layers.1.mlp.down_proj", "gpt2": "transformer.h.1.mlp.c_proj"}[base]
    model = load(source, quantization_config=BitsAndBytesConfig(**options))
    model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", r=2, use_dora=True, target_modules=[target]))
    (vector,) = [p for n, p in model.named_parameters() if "magnitude" in n]
    return vector.detach().float().reshape(-1).clone()


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(GOLDEN, "quantized")
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.set_num_threads(1)
    shutil.rmtree(root, ignore_errors=True)
    for base in ("llama", "gpt2"):
        source = os.path.join(GOLDEN, "models", base)
        for kind, options in KINDS.items():
            if base == "gpt2" and kind != "nf4":
                continue
            folder = os.path.join(root, f"{base}_{kind}")
            model = load(source, quantization_config=BitsAndBytesConfig(**options))
            model.save_pretrained(folder)
            golden = {"loss": loss_of(model, base)}
            if kind == "nf4":
                golden["magnitude"] = new_magnitude(source, options, base)
                windows = load_file(os.path.join(source, "golden.safetensors"))["tokens"].long()
                for which in ("lora", "dora"):
                    model = load(source, quantization_config=BitsAndBytesConfig(**options))
                    model = PeftModel.from_pretrained(model, os.path.join(GOLDEN, "adapters", f"{base}_{which}"),
                                                      is_trainable=True).eval()
                    golden["q" + which] = golden_adapters.train(model, windows)
            save_file(golden, os.path.join(folder, "golden.safetensors"))
            print(base, kind, golden)
    folder = os.path.join(root, "llama_fp8")
    model = make_fp8("llama", folder)
    save_file({"loss": loss_of(model, "llama")}, os.path.join(folder, "golden.safetensors"))
    for folder, _, files in os.walk(root):
        for name in files:
            os.chmod(os.path.join(folder, name), 0o644)


if __name__ == "__main__":
    main()
