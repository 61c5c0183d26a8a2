#!/usr/bin/env python3
"""Writes tests/golden/formats: small files made by NumPy, safetensors and transformers."""
import json
import os

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import CONFIG_MAPPING, LlamaConfig, LlamaForCausalLM

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden", "formats")


def npy():
    ids = [0, 1, 300, 65535, 7]
    for kind in ("u2", "u4", "i4", "i8"):
        np.save(os.path.join(ROOT, kind + ".npy"), np.array(ids, dtype="<" + kind))
    np.save(os.path.join(ROOT, "empty.npy"), np.array([], dtype="<u2"))
    np.save(os.path.join(ROOT, "matrix.npy"), np.zeros((2, 3), dtype="<i4"))
    np.save(os.path.join(ROOT, "scalar.npy"), np.array(3, dtype="<i4"))
    np.save(os.path.join(ROOT, "big.npy"), np.array(ids, dtype=">i4"))
    np.save(os.path.join(ROOT, "float.npy"), np.array(ids, dtype="<f4"))
    np.save(os.path.join(ROOT, "records.npy"), np.zeros(2, dtype=[("a", "<u2"), ("b", "<u4")]))
    for version in ((2, 0), (3, 0)):
        with open(os.path.join(ROOT, "version%d.npy" % version[0]), "wb") as f:
            np.lib.format.write_array(f, np.array(ids, dtype="<u2"), version=version)


def safetensors():
    """Every dtype that is written, names that need escaping, an empty tensor and a scalar."""
    ramp = torch.arange(12, dtype=torch.float32).reshape(3, 4) / 8
    save_file(
        {
            "b.half": (ramp[:1, :3] - 1).to(torch.float16),
            "a.brain": ramp.to(torch.bfloat16),
            'quote" back\\ \t\u00e9\U0001f600': ramp[0].clone(),
            "a.float": ramp,
            "scalar": torch.tensor(-2.5),
            "empty": torch.zeros(0, 5),
            "count": torch.tensor([1, -2, 3], dtype=torch.int32),
        },
        os.path.join(ROOT, "mixed.safetensors"),
        metadata={"format": "pt"},
    )


def config_cases():
    small = dict(vocab_size=96, hidden_size=64, intermediate_size=160, num_hidden_layers=5, num_attention_heads=4)
    gpt2 = dict(model_type="gpt2", vocab_size=96, n_embd=64, n_layer=3, n_head=4, n_positions=128)
    llama = dict(small, model_type="llama")
    mistral = dict(small, model_type="mistral", num_attention_heads=16)
    qwen2 = dict(small, model_type="qwen2", num_key_value_heads=2)
    qwen3 = dict(small, model_type="qwen3", num_key_value_heads=2)
    llama3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0)
    mixed = ["full_attention", "sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]
    return [
        gpt2,
        dict(gpt2, n_inner=100, activation_function="gelu", tie_word_embeddings=False, resid_pdrop=0, embd_pdrop=0.25,
             attn_pdrop=0.5, layer_norm_epsilon=1e-6, scale_attn_by_inverse_layer_idx=True, bos_token_id=1,
             eos_token_id=[2, 3], pad_token_id=4, initializer_range=0.01, torch_dtype="float16"),
        dict(model_type="gpt2", vocab_size=60000, hidden_size=64, num_hidden_layers=3, num_attention_heads=4,
             max_position_embeddings=32, activation_function="gelu_fast"),
        llama,
        dict(llama, num_key_value_heads=2, head_dim=32, rope_theta=500000.0, rope_scaling=None, torch_dtype="bfloat16",
             attention_bias=True, mlp_bias=True, tie_word_embeddings=True, rms_norm_eps=1e-5, attention_dropout=0.1,
             eos_token_id=[7, 8, 9], pad_token_id=0, bos_token_id=None, max_position_embeddings=77),
        dict(llama, rope_theta=500000.0, rope_scaling=dict(llama3, original_max_position_embeddings=512)),
        dict(llama, rope_parameters=dict(llama3, rope_theta=250000.0), max_position_embeddings=4096),
        dict(llama, rope_theta=1000, original_max_position_embeddings=99,
             rope_scaling=dict(llama3, original_max_position_embeddings=512)),
        dict(llama, rope_scaling=dict(type="linear", factor=2.5), num_key_value_heads=None, dtype="bfloat16"),
        dict(llama, rope_scaling=dict(type="linear", factor=2.5), rope_parameters=llama3),
        dict(llama, rope_parameters=dict(rope_type="default", rope_theta=123.0), rope_theta=9.0),
        dict(llama, eos_token_id=None, hidden_act="swish"),
        mistral,
        dict(mistral, sliding_window=None, head_dim=12),
        dict(mistral, num_key_value_heads=4, sliding_window=33, head_dim=6, rope_theta=1e9),
        qwen2,
        dict(qwen2, use_sliding_window=True, sliding_window=9, max_window_layers=3),
        dict(qwen2, use_sliding_window=True, max_window_layers=0),
        dict(qwen2, use_sliding_window=True, max_window_layers=0, sliding_window=None),
        dict(qwen2, use_sliding_window=False, sliding_window=9, max_window_layers=0, eos_token_id=5),
        dict(qwen2, use_sliding_window=True, sliding_window=9, layer_types=mixed),
        qwen3,
        dict(qwen3, head_dim=8, attention_bias=True, tie_word_embeddings=True, use_sliding_window=True,
             sliding_window=4, layer_types=mixed, num_key_value_heads=None),
        dict(qwen3, use_sliding_window=True, sliding_window=4, rope_parameters=dict(rope_type="default")),
    ]


def resolve(case):
    """What transformers makes of a config, as the numbers that hilbert keeps."""
    kind = case["model_type"]
    config = CONFIG_MAPPING[kind](**{k: v for k, v in json.loads(json.dumps(case)).items() if k != "model_type"})
    layers, gpt2 = config.num_hidden_layers, kind == "gpt2"
    window = getattr(config, "sliding_window", None) or 0
    types = getattr(config, "layer_types", None) or (["sliding_attention"] * layers if kind == "mistral" else [""] * layers)
    rope = getattr(config, "rope_parameters", None) or {}
    inside = lambda i: i if i is not None and 0 <= i < config.vocab_size else -1
    eos = config.eos_token_id if isinstance(config.eos_token_id, list) else [config.eos_token_id]
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return dict(
        vocab=config.vocab_size, hidden=config.hidden_size, layers=layers, heads=config.num_attention_heads,
        intermediate=(config.n_inner or 4 * config.n_embd) if gpt2 else config.intermediate_size,
        kv_heads=config.num_attention_heads if gpt2 else config.num_key_value_heads, head_dim=head_dim,
        max_positions=config.max_position_embeddings, init_std=config.initializer_range,
        norm_eps=config.layer_norm_epsilon if gpt2 else config.rms_norm_eps, tied=config.tie_word_embeddings,
        activation=config.activation_function if gpt2 else config.hidden_act,
        dropout_attention=config.attn_pdrop if gpt2 else config.attention_dropout,
        dropout_embed=config.embd_pdrop if gpt2 else 0, dropout_residual=config.resid_pdrop if gpt2 else 0,
        scale_by_layer=gpt2 and config.scale_attn_by_inverse_layer_idx,
        windows=[window if t == "sliding_attention" else 0 for t in types],
        rope_type=rope.get("rope_type", "default"), theta=rope.get("rope_theta", 10000), factor=rope.get("factor", 1),
        low_freq=rope.get("low_freq_factor", 0), high_freq=rope.get("high_freq_factor", 0),
        original=original(config, rope), bos=inside(config.bos_token_id), pad=inside(config.pad_token_id),
        eos=[inside(i) for i in eos], dtype=str(config.dtype or "torch.float32").replace("torch.", ""),
        qkv_bias=gpt2 or kind == "qwen2" or bool(getattr(config, "attention_bias", False)),
        output_bias=gpt2 or (kind != "qwen2" and bool(getattr(config, "attention_bias", False))),
        mlp_bias=gpt2 or bool(getattr(config, "mlp_bias", False)),
    )


def original(config, rope):
    """As the frequencies are computed: a number beside the rope parameters wins over one in them."""
    if rope.get("rope_type") != "llama3":
        return 0
    config.standardize_rope_params()
    return config.rope_parameters["original_max_position_embeddings"]


def configs():
    cases = [dict(config=case, expect=resolve(case)) for case in config_cases()]
    with open(os.path.join(ROOT, "configs.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


def folder():
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=16, hidden_size=8, intermediate_size=12, num_hidden_layers=2, num_attention_heads=2)
    LlamaForCausalLM(config).save_pretrained(os.path.join(ROOT, "sharded"), max_shard_size="2KB")


if __name__ == "__main__":
    os.makedirs(ROOT, exist_ok=True)
    npy()
    safetensors()
    configs()
    folder()
