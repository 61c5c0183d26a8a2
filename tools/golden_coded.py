#!/usr/bin/env python3
"""Writes tests/golden/coded: small models with random codes in the forms of GPTQ and AWQ, and beside each FORM a folder
FORM.plain with the numbers that these codes are by the formulas of gptqmodel and AutoAWQ, computed with PyTorch."""
import json
import os
import shutil

import torch
from safetensors.torch import save_file

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden", "coded")
HIDDEN, INNER, VOCAB = 16, 32, 24
CONFIG = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": VOCAB, "hidden_size": HIDDEN,
    "intermediate_size": INNER, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
    "tie_word_embeddings": False, "eos_token_id": 0,
}
SHAPES = {"self_attn.q_proj": (HIDDEN, HIDDEN), "self_attn.k_proj": (HIDDEN, HIDDEN), "self_attn.v_proj": (HIDDEN, HIDDEN),
          "self_attn.o_proj": (HIDDEN, HIDDEN), "mlp.gate_proj": (INNER, HIDDEN), "mlp.up_proj": (INNER, HIDDEN),
          "mlp.down_proj": (HIDDEN, INNER)}
FORMS = {
    "gptq": (torch.float16, {"quant_method": "gptq", "bits": 4, "group_size": 8, "desc_act": False, "sym": False,
                             "checkpoint_format": "gptq"}),
    "gptq_order": (torch.float16, {"quant_method": "gptq", "bits": 4, "group_size": 8, "desc_act": True, "sym": False,
                                   "checkpoint_format": "gptq_v2"}),
    "gptq_8": (torch.bfloat16, {"quant_method": "gptq", "bits": 8, "group_size": -1, "desc_act": False, "sym": False}),
    "gptq_2": (torch.float32, {"quant_method": "gptq", "bits": 2, "group_size": 16, "desc_act": False, "sym": False}),
    "awq": (torch.float16, {"quant_method": "awq", "bits": 4, "group_size": 8, "version": "gemm", "zero_point": True}),
}
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def pack(codes, bits, order=None):
    """Codes of the last dimension in words of 32 bits."""
    each = 32 // bits
    parts = codes.to(torch.int64).reshape(*codes.shape[:-1], -1, each)
    words = sum(parts[..., order[i] if order else i] << (bits * i) for i in range(each))
    return words


def signed(words):
    return ((words + 2**31) % 2**32 - 2**31).to(torch.int32)


def gptq_numbers(qweight, qzeros, scales, g_idx, bits, first_form):
    """TorchQuantLinear.dequantize_weight of gptqmodel, which adds one to the words of zeros when it loads the first form."""
    most = 2**bits - 1
    wf = torch.arange(0, 32, bits, dtype=torch.int32)
    if first_form:
        one = sum(1 << shift for shift in range(0, 32, bits))
        qzeros = signed(qzeros.to(torch.int64) + one)
    zeros = torch.bitwise_and(torch.bitwise_right_shift(qzeros.unsqueeze(2), wf), most).reshape(scales.shape)
    weight = torch.bitwise_and(torch.bitwise_right_shift(qweight.unsqueeze(1), wf.unsqueeze(-1)), most)
    weight = weight.reshape(-1, weight.shape[2])
    return (scales[g_idx.long()] * (weight - zeros[g_idx.long()]).to(scales.dtype)).T.contiguous()


def awq_numbers(qweight, qzeros, scales, group):
    """unpack_awq, reverse_awq_order and dequantize_gemm of AutoAWQ."""
    shifts = torch.arange(0, 32, 4)
    columns = torch.tensor([0, 4, 1, 5, 2, 6, 3, 7])

    def unpack(words):
        numbers = torch.bitwise_and(torch.bitwise_right_shift(words[:, :, None], shifts), 15)
        return numbers[:, :, columns].reshape(words.shape[0], -1)

    weight, zeros = unpack(qweight), unpack(qzeros).repeat_interleave(group, 0)
    return ((weight - zeros).to(scales.dtype) * scales.repeat_interleave(group, 0)).T.contiguous()


def make(name, dtype, form):
    torch.manual_seed(5)
    bits, tensors, plain = form["bits"], {}, {}
    for part, (rows, cols) in SHAPES.items():
        stem = "model.layers.0." + part
        group = form["group_size"] if form["group_size"] > 0 else cols
        groups = -(-cols // group)
        codes, zeros = torch.randint(0, 2**bits, (cols, rows)), torch.randint(0, 2**bits, (groups, rows))
        scales = (torch.rand(groups, rows) * 0.3 / 2**bits).to(dtype)
        if form["quant_method"] == "awq":
            q = {"qweight": signed(pack(codes, 4, AWQ_ORDER)), "qzeros": signed(pack(zeros, 4, AWQ_ORDER)), "scales": scales}
            plain[stem + ".weight"] = awq_numbers(q["qweight"], q["qzeros"], scales, group)
        else:
            first = form.get("checkpoint_format", "gptq") == "gptq"
            one = sum(1 << shift for shift in range(0, 32, bits)) if first else 0
            g_idx = torch.arange(cols) // group
            if form["desc_act"]:
                g_idx = g_idx[torch.randperm(cols)]
            q = {"qweight": signed(pack(codes.T, bits).T.contiguous()), "qzeros": signed(pack(zeros, bits) - one),
                 "scales": scales, "g_idx": g_idx.to(torch.int32)}
            plain[stem + ".weight"] = gptq_numbers(q["qweight"], q["qzeros"], scales, q["g_idx"], bits, first)
        tensors.update({stem + "." + key: value for key, value in q.items()})
    rest = {"model.embed_tokens.weight": torch.randn(VOCAB, HIDDEN), "lm_head.weight": torch.randn(VOCAB, HIDDEN) / 4,
            "model.norm.weight": torch.ones(HIDDEN), "model.layers.0.input_layernorm.weight": torch.ones(HIDDEN),
            "model.layers.0.post_attention_layernorm.weight": torch.ones(HIDDEN)}
    rest = {key: value.to(dtype) for key, value in rest.items()}
    config = dict(CONFIG, torch_dtype=str(dtype).split(".")[1])
    for folder, weights, extra in ((name, tensors, {"quantization_config": form}), (name + ".plain", plain, {})):
        path = os.path.join(ROOT, folder)
        os.makedirs(path)
        save_file({**weights, **rest}, os.path.join(path, "model.safetensors"))
        os.chmod(os.path.join(path, "model.safetensors"), 0o644)
        with open(os.path.join(path, "config.json"), "w", encoding="utf-8") as f:
            json.dump({**config, **extra}, f, indent=1)
            f.write("\n")


def main():
    shutil.rmtree(ROOT, ignore_errors=True)
    for name, (dtype, form) in FORMS.items():
        make(name, dtype, form)


if __name__ == "__main__":
    main()
