#!/usr/bin/env python3
"""Writes tests/golden/gguf: tiny models with random weights, and the GGUF file that each becomes.

    python3 tools/golden_gguf.py tests/golden        (pip install gguf safetensors numpy ml_dtypes)

The files are written with the `gguf` package; names, permutation and types of tensors are worked out here, in numpy.
tests/format/test_gguf.c compares hilbert's files with these byte by byte.
"""
import json
import math
import os
import sys

import gguf
import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

F32, F16, BF16, Q8_0 = (gguf.GGMLQuantizationType[n] for n in ("F32", "F16", "BF16", "Q8_0"))
FILE_TYPE = {F32: 0, F16: 1, Q8_0: 7, BF16: 32}
CHAT = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"

LLAMA_BLOCK = [("input_layernorm.weight", "attn_norm.weight"), ("self_attn.q_proj.weight", "attn_q.weight"),
               ("self_attn.q_proj.bias", "attn_q.bias"), ("self_attn.k_proj.weight", "attn_k.weight"),
               ("self_attn.k_proj.bias", "attn_k.bias"), ("self_attn.v_proj.weight", "attn_v.weight"),
               ("self_attn.v_proj.bias", "attn_v.bias"), ("self_attn.q_norm.weight", "attn_q_norm.weight"),
               ("self_attn.k_norm.weight", "attn_k_norm.weight"), ("self_attn.o_proj.weight", "attn_output.weight"),
               ("post_attention_layernorm.weight", "ffn_norm.weight"), ("mlp.gate_proj.weight", "ffn_gate.weight"),
               ("mlp.up_proj.weight", "ffn_up.weight"), ("mlp.down_proj.weight", "ffn_down.weight")]
GPT2_BLOCK = [("ln_1", "attn_norm"), ("attn.c_attn", "attn_qkv"), ("attn.c_proj", "attn_output"), ("ln_2", "ffn_norm"),
              ("mlp.c_fc", "ffn_up"), ("mlp.c_proj", "ffn_down")]


def llama_weights(c, rng):
    d, f, hd = c["hidden_size"], c["intermediate_size"], c["head_dim"]
    q, kv = c["num_attention_heads"] * hd, c["num_key_value_heads"] * hd
    w = {"model.embed_tokens.weight": (c["vocab_size"], d), "model.norm.weight": (d,)}
    if not c["tie_word_embeddings"]:
        w["lm_head.weight"] = (c["vocab_size"], d)
    for n in range(c["num_hidden_layers"]):
        p = f"model.layers.{n}."
        w |= {p + "input_layernorm.weight": (d,), p + "post_attention_layernorm.weight": (d,),
              p + "self_attn.q_proj.weight": (q, d), p + "self_attn.k_proj.weight": (kv, d),
              p + "self_attn.v_proj.weight": (kv, d), p + "self_attn.o_proj.weight": (d, q),
              p + "mlp.gate_proj.weight": (f, d), p + "mlp.up_proj.weight": (f, d), p + "mlp.down_proj.weight": (d, f)}
        if c["model_type"] == "qwen2":
            w |= {p + f"self_attn.{x}_proj.bias": (q if x == "q" else kv,) for x in "qkv"}
        if c["model_type"] == "qwen3":
            w |= {p + f"self_attn.{x}_norm.weight": (hd,) for x in "qk"}
    return {k: rng.standard_normal(s).astype(np.float32) for k, s in w.items()}


def gpt2_weights(c, rng):
    d = c["n_embd"]
    w = {"transformer.wte.weight": (c["vocab_size"], d), "transformer.wpe.weight": (c["n_positions"], d),
         "transformer.ln_f.weight": (d,), "transformer.ln_f.bias": (d,)}
    for n in range(c["n_layer"]):
        for name, rows, cols in (("attn.c_attn", d, 3 * d), ("attn.c_proj", d, d), ("mlp.c_fc", d, 4 * d),
                                 ("mlp.c_proj", 4 * d, d)):
            w |= {f"transformer.h.{n}.{name}.weight": (rows, cols), f"transformer.h.{n}.{name}.bias": (cols,)}
        for name in ("ln_1", "ln_2"):
            w |= {f"transformer.h.{n}.{name}.weight": (d,), f"transformer.h.{n}.{name}.bias": (d,)}
    return {k: rng.standard_normal(s).astype(np.float32) for k, s in w.items()}


def interleave(x, heads):
    """Rows of a head in the order in which llama.cpp rotates them: pairs instead of halves."""
    split = x.reshape(heads, 2, x.shape[0] // heads // 2, *x.shape[1:])
    return split.swapaxes(1, 2).reshape(x.shape)


def llama_tensors(c, w):
    pairs = c["model_type"] in ("llama", "mistral")
    yield "token_embd.weight", w["model.embed_tokens.weight"]
    for n in range(c["num_hidden_layers"]):
        for hf, name in LLAMA_BLOCK:
            x = w.get(f"model.layers.{n}.{hf}")
            if x is None:
                continue
            if pairs and "q_proj" in hf:
                x = interleave(x, c["num_attention_heads"])
            if pairs and "k_proj" in hf:
                x = interleave(x, c["num_key_value_heads"])
            yield f"blk.{n}.{name}", x
    yield "output_norm.weight", w["model.norm.weight"]
    if "lm_head.weight" in w:
        yield "output.weight", w["lm_head.weight"]
    rope = c.get("rope_parameters", {})
    if rope.get("rope_type") == "llama3":
        factors = []
        for i in range(0, c["head_dim"], 2):
            wave = 2 * math.pi * rope["rope_theta"] ** (i / c["head_dim"])
            old, low, high = (rope[k] for k in ("original_max_position_embeddings", "low_freq_factor",
                                                "high_freq_factor"))
            if wave < old / high:
                factors.append(1)
            elif wave > old / low:
                factors.append(rope["factor"])
            else:
                smooth = (old / wave - low) / (high - low)
                factors.append(1 / ((1 - smooth) / rope["factor"] + smooth))
        yield "rope_freqs.weight", np.array(factors, dtype=np.float32)


def gpt2_tensors(c, w):
    yield "token_embd.weight", w["transformer.wte.weight"]
    yield "position_embd.weight", w["transformer.wpe.weight"]
    for n in range(c["n_layer"]):
        for hf, name in GPT2_BLOCK:
            yield f"blk.{n}.{name}.weight", w[f"transformer.h.{n}.{hf}.weight"].T.copy()
            yield f"blk.{n}.{name}.bias", w[f"transformer.h.{n}.{hf}.bias"]
    yield "output_norm.weight", w["transformer.ln_f.weight"]
    yield "output_norm.bias", w["transformer.ln_f.bias"]


def add_tokenizer(writer, tokenizer, c, rule):
    model = tokenizer["model"]
    tokens = {i: t for t, i in model["vocab"].items()}
    added = {a["id"]: a for a in tokenizer["added_tokens"]}
    spm = rule == "default"
    merges = [m if isinstance(m, list) else m.split(" ") for m in model["merges"]]
    names, kinds = [], []
    for i in range(c["vocab_size"]):
        text = added[i]["content"] if i in added else tokens.get(i, f"[PAD{i}]")
        names.append(text)
        if i not in added and i not in tokens:
            kinds.append(5)
        elif spm and text == "<unk>":
            kinds.append(2)
        elif spm and i in tokens and text.startswith("<0x"):
            kinds.append(6)
        elif i in added:
            kinds.append(3 if added[i]["special"] or (text.startswith("<|") and text.endswith("|>")) else 4)
        else:
            kinds.append(1)
    writer.add_tokenizer_model("llama" if spm else "gpt2")
    writer.add_tokenizer_pre(rule)
    writer.add_token_list(names)
    writer.add_token_types(kinds)
    if spm:
        scores = [0.0] * c["vocab_size"]
        for rank in reversed(range(len(merges))):
            scores[model["vocab"]["".join(merges[rank])]] = -(rank + 1.0)
        writer.add_token_scores(scores)
        writer.add_add_space_prefix(True)
    else:
        writer.add_token_merges([" ".join(m) for m in merges])


def write_case(folder, case, tokenizers):
    c, rng = case["config"], np.random.default_rng(case["seed"])
    os.makedirs(folder, exist_ok=True)
    gpt2 = c["model_type"] == "gpt2"
    weights = (gpt2_weights if gpt2 else llama_weights)(c, rng)
    stored = {k: v.astype(ml_dtypes.bfloat16) for k, v in weights.items()} if case["bf16"] else weights
    save_file(stored, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    weights = {k: v.astype(np.float32) for k, v in stored.items()}
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(c, file, indent=1)
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as file:
        json.dump(case["tokens"] | {"chat_template": CHAT}, file, indent=1)
    with open(os.path.join(tokenizers, case["tokenizer"], "tokenizer.json")) as file:
        tokenizer = json.load(file)

    arch = {"mistral": "llama"}.get(c["model_type"], c["model_type"])
    writer = gguf.GGUFWriter(os.path.join(folder, "model.gguf"), arch)
    writer.add_type("model")
    writer.add_name(os.path.basename(folder))
    writer.add_file_type(FILE_TYPE[case["type"]])
    writer.add_quantization_version(2)
    writer.add_vocab_size(c["vocab_size"])
    writer.add_context_length(c["n_positions"] if gpt2 else c["max_position_embeddings"])
    writer.add_embedding_length(c["n_embd"] if gpt2 else c["hidden_size"])
    writer.add_block_count(c["n_layer"] if gpt2 else c["num_hidden_layers"])
    writer.add_feed_forward_length(4 * c["n_embd"] if gpt2 else c["intermediate_size"])
    writer.add_head_count(c["n_head"] if gpt2 else c["num_attention_heads"])
    if gpt2:
        writer.add_layer_norm_eps(1e-5)
    else:
        writer.add_head_count_kv(c["num_key_value_heads"])
        writer.add_key_length(c["head_dim"])
        writer.add_value_length(c["head_dim"])
        writer.add_layer_norm_rms_eps(c["rms_norm_eps"])
        writer.add_rope_dimension_count(c["head_dim"])
        rope = c["rope_parameters"]
        writer.add_rope_freq_base(rope["rope_theta"])
        if rope["rope_type"] == "linear":
            writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
            writer.add_rope_scaling_factor(rope["factor"])
    add_tokenizer(writer, tokenizer, c, case["rule"])
    ids = {t["content"]: t["id"] for t in tokenizer["added_tokens"]} | tokenizer["model"]["vocab"]
    for name, token in case["tokens"].items():
        text = token["content"] if isinstance(token, dict) else token
        getattr(writer, f"add_{name}_id")(ids[text])
    writer.add_add_bos_token(case["bos"])
    writer.add_add_eos_token(case.get("eos", False))
    writer.add_chat_template(CHAT)
    for name, x in (gpt2_tensors if gpt2 else llama_tensors)(c, weights):
        kind = case["type"]
        if x.ndim == 1 or name.startswith("position"):
            kind = F32
        elif kind == Q8_0 and x.shape[-1] % 32:
            kind = F16
        writer.add_tensor(name, gguf.quants.quantize(x, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def llama(kind, vocab, tied, rope, **more):
    return {"model_type": kind, "vocab_size": vocab, "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2,
            "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 64,
            "rms_norm_eps": 1e-6, "tie_word_embeddings": tied, "rope_parameters": rope} | more


DEFAULT = {"rope_type": "default", "rope_theta": 10000.0}
CASES = {
    "llama3_q8_0": {"type": Q8_0, "bf16": True, "seed": 1, "tokenizer": "llama3", "rule": "llama-bpe", "bos": True,
                    "tokens": {"bos_token": "<|begin|>", "eos_token": {"content": "<|end|>"}},
                    "config": llama("llama", 424, False, {
                        "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
                        "high_freq_factor": 4.0, "original_max_position_embeddings": 32})},
    "mistral_f16": {"type": F16, "bf16": True, "seed": 2, "tokenizer": "llama2", "rule": "default", "bos": True, "eos": True,
                    "tokens": {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"},
                    "config": llama("mistral", 490, False, DEFAULT, sliding_window=None)},
    "qwen2_bf16": {"type": BF16, "bf16": False, "seed": 3, "tokenizer": "qwen2", "rule": "qwen2", "bos": False,
                   "tokens": {"eos_token": "<|end|>", "pad_token": "<|endless|>"},
                   "config": llama("qwen2", 430, True, DEFAULT | {"rope_type": "linear", "factor": 2.0})},
    "qwen3_f32": {"type": F32, "bf16": True, "seed": 4, "tokenizer": "qwen2", "rule": "qwen2", "bos": False,
                  "tokens": {"eos_token": "<|end|>"}, "config": llama("qwen3", 430, True, DEFAULT)},
    "gpt2_f16": {"type": F16, "bf16": False, "seed": 5, "tokenizer": "gpt2", "rule": "gpt-2", "bos": False,
                 "tokens": {"eos_token": "<|end|>"},
                 "config": {"model_type": "gpt2", "vocab_size": 421, "n_positions": 32, "n_embd": 32, "n_layer": 2,
                            "n_head": 4, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5}},
}

if __name__ == "__main__":
    for name, case in CASES.items():
        write_case(os.path.join(sys.argv[1], "gguf", name), case, os.path.join(sys.argv[1], "tokenizers"))
