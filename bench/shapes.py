#!/usr/bin/env python3
"""shapes.py - the models of the benchmarks, as config.json for both sides.

    python bench/shapes.py SHAPE FOLDER     writes a random model of that shape, fp32, as a folder
"""
import sys

SHAPES = {
    "gpt2-124m": dict(
        model_type="gpt2", architectures=["GPT2LMHeadModel"], vocab_size=50257, n_positions=1024,
        n_embd=768, n_layer=12, n_head=12, activation_function="gelu_new", resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0, layer_norm_epsilon=1e-5, initializer_range=0.02,
        tie_word_embeddings=True, bos_token_id=None, eos_token_id=None, dtype="float32"),
    "llama-100m": dict(
        model_type="llama", architectures=["LlamaForCausalLM"], vocab_size=32000, hidden_size=768,
        intermediate_size=2048, num_hidden_layers=12, num_attention_heads=12,
        num_key_value_heads=4, hidden_act="silu", max_position_embeddings=2048, rms_norm_eps=1e-5,
        initializer_range=0.02, tie_word_embeddings=True, bos_token_id=None, eos_token_id=None,
        rope_parameters=dict(rope_type="default", rope_theta=10000.0), dtype="float32"),
}


def create(shape, **options):
    """The transformers model of a shape, with random weights that are the same each time."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM
    torch.manual_seed(1)
    return AutoModelForCausalLM.from_config(AutoConfig.for_model(**SHAPES[shape]), **options)


if __name__ == "__main__":
    create(sys.argv[1]).save_pretrained(sys.argv[2])
