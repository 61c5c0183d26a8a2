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
import shutil
import sys
import tempfile

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import (ArceeConfig, AutoConfig, AutoModelForCausalLM, Cohere2Config,
                          CohereConfig, CwmConfig, DeepseekV2Config, DeepseekV3Config, Dots1Config,
                          Ernie4_5_MoeConfig, Ernie4_5Config, Exaone4Config, ExaoneMoeConfig,
                          FlexOlmoConfig, Gemma2Config, Gemma3Config,
                          Gemma3ForConditionalGeneration, Gemma3TextConfig, Gemma4Config,
                          Gemma4ForConditionalGeneration, Gemma4TextConfig, Gemma4UnifiedTextConfig,
                          GemmaConfig, Glm4Config, Glm4MoeConfig, Glm4MoeLiteConfig, GlmConfig,
                          GPT2Config, GPTNeoXConfig, GptOssConfig, GraniteConfig, GraniteMoeConfig,
                          GraniteMoeSharedConfig, HeliumConfig, HunYuanDenseV1Config,
                          HunYuanMoEV1Config, InternLM3Config, Lfm2Config, Lfm2MoeConfig, LlamaConfig, MiniMaxM2Config,
                          Ministral3Config, MinistralConfig, Mistral3Config,
                          Mistral3ForConditionalGeneration, MistralConfig, MixtralConfig,
                          NemotronConfig, Olmo2Config, Olmo3Config, OlmoConfig, OlmoeConfig,
                          Phi3Config, PhiConfig, Qwen2_5_VLConfig,
                          Qwen2_5_VLForConditionalGeneration, Qwen2Config, Qwen2MoeConfig,
                          Qwen3_5MoeConfig, Qwen3_5MoeForConditionalGeneration,
                          Qwen3_5MoeTextConfig, Qwen3_5TextConfig, Qwen3Config, Qwen3MoeConfig, Qwen3NextConfig,
                          SeedOssConfig, SmolLM3Config,
                          SolarOpenConfig, StableLmConfig, Starcoder2Config, VaultGemmaConfig)
from transformers.utils import logging

SEQ, BATCH, STEPS = 32, 4, 20
STD = 0.15
PLAIN = dict(attn_implementation="eager", experts_implementation="eager")

GPT2 = dict(n_positions=40, n_layer=2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
            bos_token_id=0, eos_token_id=0)
LLAMA3_ROPE = dict(rope_type="llama3", rope_theta=10000.0, factor=4.0, low_freq_factor=1.0,
                   high_freq_factor=4.0, original_max_position_embeddings=64)
MODELS = {
    "gpt2": lambda: GPT2Config(vocab_size=257, n_embd=26, n_head=2, **GPT2),
    "llama": lambda: LlamaConfig(
        vocab_size=261, hidden_size=30, intermediate_size=46, num_hidden_layers=2,
        num_attention_heads=3, num_key_value_heads=3, max_position_embeddings=64,
        rms_norm_eps=1e-5),
    # Head size 10: wavelengths 6, 40 and 250 fall into the three ranges of llama3 scaling.
    "llama3": lambda: LlamaConfig(
        vocab_size=291, hidden_size=40, intermediate_size=42, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
        rms_norm_eps=1e-5, rope_parameters=dict(LLAMA3_ROPE), tie_word_embeddings=True),
    "mistral": lambda: MistralConfig(
        vocab_size=259, hidden_size=22, intermediate_size=34, num_hidden_layers=3,
        num_attention_heads=3, num_key_value_heads=1, head_dim=14, sliding_window=7,
        max_position_embeddings=64, rms_norm_eps=1e-5),
    "qwen2": lambda: Qwen2Config(
        vocab_size=271, hidden_size=36, intermediate_size=46, num_hidden_layers=2,
        num_attention_heads=6, num_key_value_heads=2, max_position_embeddings=64,
        rope_parameters=dict(rope_type="default", rope_theta=1000000.0), tie_word_embeddings=True),
    "qwen3": lambda: Qwen3Config(
        vocab_size=263, hidden_size=30, intermediate_size=46, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=14, max_position_embeddings=64,
        rope_parameters=dict(rope_type="default", rope_theta=1000000.0), tie_word_embeddings=True),
}
VARIANTS = {
    "gpt2_untied": lambda: GPT2Config(
        vocab_size=61, n_embd=20, n_head=1, n_inner=30, activation_function="gelu",
        scale_attn_by_inverse_layer_idx=True, tie_word_embeddings=False, **GPT2),
    "llama_bias": lambda: LlamaConfig(
        vocab_size=67, hidden_size=20, intermediate_size=26, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=64,
        attention_bias=True, mlp_bias=True,
        rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=2.0)),
    "qwen2_window": lambda: Qwen2Config(
        vocab_size=71, hidden_size=18, intermediate_size=22, num_hidden_layers=3,
        num_attention_heads=3, num_key_value_heads=3, max_position_embeddings=64,
        use_sliding_window=True, sliding_window=5, max_window_layers=1),
}
# Mixtures of experts; their losses have the auxiliary loss.
MIXTURES = {
    "mixtral": lambda: MixtralConfig(
        vocab_size=259, hidden_size=20, intermediate_size=18, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=64,
        num_local_experts=5, num_experts_per_tok=2, output_router_logits=True,
        router_aux_loss_coef=0.05, sliding_window=9),
    # The middle layer has no experts.
    "qwen3_moe": lambda: Qwen3MoeConfig(
        vocab_size=67, hidden_size=18, intermediate_size=22, moe_intermediate_size=14,
        num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=1, head_dim=12,
        max_position_embeddings=64, num_experts=8, num_experts_per_tok=3, mlp_only_layers=[1],
        output_router_logits=True, router_aux_loss_coef=0.03, tie_word_embeddings=True),
}

SMALL = dict(vocab_size=67, hidden_size=24, intermediate_size=26, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=96)
WITHOUT_KV = {k: v for k, v in SMALL.items() if k != "num_key_value_heads"}
MIXED = dict(output_router_logits=True, router_aux_loss_coef=0.04)
# Norms with 1 + weight; that of linear attention has a plain one.
PLUS = ("gemma", "gemma2", "gemma3_text", "vaultgemma", "nemotron", "qwen3_next", "qwen3_5_text",
        "qwen3_5_moe_text")
LONG = dict(rope_type="longrope", rope_theta=10000.0, partial_rotary_factor=0.75,
            short_factor=[1.0, 1.1, 1.3], long_factor=[1.0, 2.5, 4.0])
LATENT = {**SMALL, "num_key_value_heads": 4, "kv_lora_rank": 14, "qk_nope_head_dim": 6,
          "qk_rope_head_dim": 4, "v_head_dim": 8, "moe_intermediate_size": 14}
MSCALE = dict(rope_type="yarn", rope_theta=1000.0, factor=4.0, beta_fast=4.0, beta_slow=1.0,
              mscale=0.9, mscale_all_dim=0.6, original_max_position_embeddings=24)
DELTA = dict(linear_num_key_heads=2, linear_key_head_dim=8, linear_num_value_heads=4,
             linear_value_head_dim=10, linear_conv_kernel_dim=4, rms_norm_eps=1e-3,
             layer_types=["linear_attention", "full_attention", "linear_attention"])
FAMILIES = {
    "qwen3_pad": lambda: Qwen3Config(**SMALL, head_dim=10),
    "gemma": lambda: GemmaConfig(**SMALL, head_dim=10),
    "gemma2": lambda: Gemma2Config(**{**SMALL, "num_hidden_layers": 3}, head_dim=10,
                                   query_pre_attn_scalar=6, sliding_window=7,
                                   attn_logit_softcapping=2.0, final_logit_softcapping=3.0),
    "gemma3": lambda: Gemma3TextConfig(**{**SMALL, "num_hidden_layers": 3}, head_dim=10,
                                       query_pre_attn_scalar=12, sliding_window=5,
                                       layer_types=["sliding_attention", "full_attention",
                                                    "sliding_attention"],
                                       rope_parameters=dict(
                                           full_attention=dict(rope_type="linear", factor=4.0,
                                                               rope_theta=100000.0),
                                           sliding_attention=dict(rope_type="default",
                                                                  rope_theta=100.0))),
    "phi3": lambda: Phi3Config(**{**SMALL, "hidden_size": 32}, sliding_window=9,
                               original_max_position_embeddings=80, rope_parameters=dict(LONG)),
    # Sequences are longer than the original length; what it generates would pass that on its way.
    "phi3_long": lambda: Phi3Config(**{**SMALL, "hidden_size": 32}, rope_parameters=dict(LONG),
                                    original_max_position_embeddings=24),
    "llama_yarn": lambda: LlamaConfig(
        **SMALL, rope_parameters=dict(rope_type="yarn", rope_theta=1000.0, factor=4.0,
                                      beta_fast=4.0, beta_slow=1.0,
                                      original_max_position_embeddings=24)),
    "phi": lambda: PhiConfig(**{**SMALL, "hidden_size": 32}),
    "gpt_neox": lambda: GPTNeoXConfig(**{**WITHOUT_KV, "hidden_size": 32}, rope_parameters=dict(
        rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5)),
    "gpt_neox_serial": lambda: GPTNeoXConfig(
        **{**WITHOUT_KV, "hidden_size": 32}, use_parallel_residual=False, attention_bias=False,
        hidden_act="gelu_new", rope_parameters=dict(rope_type="default", rope_theta=500.0,
                                                    partial_rotary_factor=0.75)),
    "olmo2": lambda: Olmo2Config(**SMALL),
    "olmo3": lambda: Olmo3Config(**{**SMALL, "num_hidden_layers": 4}, sliding_window=6,
                                 rope_parameters=dict(
                                     full_attention=dict(rope_type="yarn", factor=3.0,
                                                         rope_theta=5000.0, beta_fast=4.0,
                                                         original_max_position_embeddings=32),
                                     sliding_attention=dict(rope_type="default",
                                                            rope_theta=5000.0))),
    "granite": lambda: GraniteConfig(**SMALL, embedding_multiplier=6.0, logits_scaling=3.0,
                                     residual_multiplier=0.4, attention_multiplier=0.3),
    "smollm3": lambda: SmolLM3Config(**{**SMALL, "num_hidden_layers": 3}, no_rope_layers=[1, 0, 1]),
    "stablelm": lambda: StableLmConfig(**{**SMALL, "hidden_size": 32}, use_qkv_bias=True),
    "stablelm_parallel": lambda: StableLmConfig(
        **SMALL, use_parallel_residual=True, rope_parameters=dict(
            rope_type="default", rope_theta=10000.0, partial_rotary_factor=1.0)),
    "cohere": lambda: CohereConfig(**SMALL, logit_scale=0.25),
    "cohere2": lambda: Cohere2Config(**{**SMALL, "num_hidden_layers": 3}, logit_scale=0.25,
                                     sliding_window=6,
                                     layer_types=["sliding_attention", "full_attention",
                                                  "sliding_attention"]),
    "mistral_nemo": lambda: MistralConfig(**SMALL, head_dim=10, sliding_window=None),
    "olmoe": lambda: OlmoeConfig(**SMALL, **MIXED, num_experts=7, num_experts_per_tok=3),
    # The first and the last layer have no experts.
    "qwen2_moe": lambda: Qwen2MoeConfig(
        **{**SMALL, "num_hidden_layers": 5}, **MIXED, num_experts=6, num_experts_per_tok=2,
        moe_intermediate_size=14, shared_expert_intermediate_size=18, decoder_sparse_step=2,
        mlp_only_layers=[3], norm_topk_prob=True, use_sliding_window=True, sliding_window=7,
        max_window_layers=3),
    "granitemoe": lambda: GraniteMoeConfig(
        **SMALL, **MIXED, num_local_experts=5, num_experts_per_tok=2, embedding_multiplier=6.0,
        logits_scaling=3.0, residual_multiplier=0.4, attention_multiplier=0.3),
    "gpt_oss": lambda: GptOssConfig(
        **{**SMALL, "hidden_size": 32, "intermediate_size": 32}, **MIXED, head_dim=10,
        num_local_experts=4, num_experts_per_tok=2, sliding_window=6, swiglu_limit=0.5,
        rope_parameters=dict(rope_type="yarn", rope_theta=1000.0, factor=4.0, beta_fast=4.0,
                             beta_slow=1.0, truncate=False, original_max_position_embeddings=24)),
    "exaone4": lambda: Exaone4Config(**{**SMALL, "num_hidden_layers": 3}, head_dim=10,
                                     sliding_window=6, sliding_window_pattern=2),
    "deepseek_v2": lambda: DeepseekV2Config(
        **{**LATENT, "num_hidden_layers": 3}, q_lora_rank=10, first_k_dense_replace=1,
        n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=2,
        topk_method="group_limited_greedy", n_group=3, topk_group=2, routed_scaling_factor=1.7,
        rope_parameters=dict(MSCALE)),
    # The shape of V2-Lite: queries without a latent vector, experts from all groups.
    "deepseek_v2_lite": lambda: DeepseekV2Config(
        **LATENT, q_lora_rank=None, attention_bias=True, n_routed_experts=5,
        num_experts_per_tok=2, n_shared_experts=1, rms_norm_eps=1e-5),
    "deepseek_v3": lambda: DeepseekV3Config(
        **{**LATENT, "num_hidden_layers": 3}, q_lora_rank=10, first_k_dense_replace=1,
        n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=1, n_group=4, topk_group=2,
        routed_scaling_factor=2.5, rope_parameters=dict(MSCALE)),
    # The shape of Moonlight: one group; the halves of a head turn.
    "deepseek_v3_plain": lambda: DeepseekV3Config(
        **LATENT, q_lora_rank=None, first_k_dense_replace=0, n_routed_experts=6,
        num_experts_per_tok=2, n_shared_experts=2, n_group=1, topk_group=1, norm_topk_prob=False,
        rope_interleave=False, rms_norm_eps=1e-5),
    "glm4_moe": lambda: Glm4MoeConfig(
        **{**SMALL, "num_hidden_layers": 3}, head_dim=12, moe_intermediate_size=14,
        n_routed_experts=6, num_experts_per_tok=2, first_k_dense_replace=1, attention_bias=True,
        use_qk_norm=True, routed_scaling_factor=1.5),
    "glm4_moe_lite": lambda: Glm4MoeLiteConfig(
        **{**LATENT, "num_hidden_layers": 3}, q_lora_rank=10, n_routed_experts=6,
        num_experts_per_tok=2, mlp_layer_types=["sparse", "dense", "sparse"]),
    "dots1": lambda: Dots1Config(
        **{**SMALL, "num_hidden_layers": 3}, head_dim=12, moe_intermediate_size=14,
        n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=2, first_k_dense_replace=1,
        norm_topk_prob=True, routed_scaling_factor=1.5, sliding_window=6, max_window_layers=2),
    "phi_norms": lambda: PhiConfig(**{**SMALL, "hidden_size": 32}, qk_layernorm=True),
    # The shapes of Command-R+ and of StableLM 2 12B.
    "cohere_norms": lambda: CohereConfig(**SMALL, logit_scale=0.25, use_qk_norm=True),
    "stablelm_norms": lambda: StableLmConfig(
        **{**SMALL, "hidden_size": 32}, use_parallel_residual=True, qk_layernorm=True),
    "glm": lambda: GlmConfig(**SMALL, head_dim=12),
    "glm4": lambda: Glm4Config(**SMALL, head_dim=12),
    "seed_oss": lambda: SeedOssConfig(**SMALL, head_dim=10, attention_dropout=0.0,
                                      residual_dropout=0.0),
    "ministral": lambda: MinistralConfig(**{**SMALL, "num_hidden_layers": 3}, head_dim=10,
                                         sliding_window=6,
                                         layer_types=["full_attention", "sliding_attention",
                                                      "full_attention"]),
    "starcoder2": lambda: Starcoder2Config(**SMALL, sliding_window=9),
    "helium": lambda: HeliumConfig(**SMALL, head_dim=6, attention_bias=True),
    "vaultgemma": lambda: VaultGemmaConfig(**{**SMALL, "num_hidden_layers": 3}, head_dim=10,
                                           query_pre_attn_scalar=6, sliding_window=7,
                                           attn_logit_softcapping=2.0,
                                           final_logit_softcapping=3.0),
    # Without a key for rotary embedding: that is the one of Llama 3.
    "cwm": lambda: CwmConfig(**SMALL, head_dim=10, sliding_window=6),
    "internlm3": lambda: InternLM3Config(**SMALL, head_dim=10, attention_bias=True, mlp_bias=True),
    "ernie4_5": lambda: Ernie4_5Config(**SMALL, head_dim=10, use_bias=True),
    "ernie4_5_moe": lambda: Ernie4_5_MoeConfig(
        **{**SMALL, "num_hidden_layers": 3}, moe_intermediate_size=14, moe_num_experts=6, moe_k=2,
        moe_num_shared_experts=2),
    "minimax_m2": lambda: MiniMaxM2Config(
        **{**SMALL, "intermediate_size": 14}, head_dim=12, rotary_dim=6, num_local_experts=6,
        num_experts_per_tok=2),
    "solar_open": lambda: SolarOpenConfig(
        **{k: v for k, v in SMALL.items() if k != "intermediate_size"}, head_dim=12,
        moe_intermediate_size=14, n_routed_experts=6, num_experts_per_tok=2,
        routed_scaling_factor=1.5),
    "exaone_moe": lambda: ExaoneMoeConfig(
        **{**SMALL, "num_hidden_layers": 3}, head_dim=12, sliding_window=6,
        sliding_window_pattern=2, moe_intermediate_size=14, num_experts=6, num_experts_per_tok=2),
    "flex_olmo": lambda: FlexOlmoConfig(**{**SMALL, "intermediate_size": 14}, **MIXED,
                                        num_experts=6, num_experts_per_tok=3),
    "granitemoeshared": lambda: GraniteMoeSharedConfig(
        **{**SMALL, "intermediate_size": 14}, **MIXED, num_local_experts=5, num_experts_per_tok=2,
        shared_intermediate_size=18, embedding_multiplier=6.0, logits_scaling=3.0,
        residual_multiplier=0.4, attention_multiplier=0.3),
    "hunyuan_v1_dense": lambda: HunYuanDenseV1Config(
        **SMALL, head_dim=10, rope_parameters=dict(rope_type="dynamic", rope_theta=10000.0,
                                                   alpha=50.0, factor=1.0)),
    "hunyuan_v1_moe": lambda: HunYuanMoEV1Config(
        **{**SMALL, "intermediate_size": 14}, head_dim=10, num_experts=5, moe_topk=2),
    "ministral3": lambda: Ministral3Config(**SMALL, head_dim=10, rope_parameters=dict(
        rope_type="yarn", rope_theta=1000.0, factor=4.0, beta_fast=4.0, beta_slow=1.0, mscale=1.0,
        mscale_all_dim=1.0, original_max_position_embeddings=24, llama_4_scaling_beta=0.3)),
    "nemotron": lambda: NemotronConfig(**{**SMALL, "hidden_size": 32}, mlp_bias=True),
    "arcee": lambda: ArceeConfig(**SMALL),
    "olmo": lambda: OlmoConfig(**SMALL),
    # The shape of E2B: a part of a second embedding for each layer, and keys of earlier layers.
    "gemma4": lambda: Gemma4TextConfig(
        **{**SMALL, "num_hidden_layers": 4}, head_dim=8, global_head_dim=12, sliding_window=5,
        layer_types=["sliding_attention", "full_attention"] * 2, hidden_size_per_layer_input=16,
        vocab_size_per_layer_input=67, num_kv_shared_layers=2, use_double_wide_mlp=True),
    # That of 31B: values are the keys, of fewer heads, in layers with full attention.
    "gemma4_values": lambda: Gemma4TextConfig(
        **SMALL, head_dim=8, global_head_dim=12, sliding_window=5, num_global_key_value_heads=1,
        layer_types=["sliding_attention", "full_attention"], hidden_size_per_layer_input=0,
        attention_k_eq_v=True, final_logit_softcapping=3.0),
    "gemma4_unified": lambda: Gemma4UnifiedTextConfig(
        **SMALL, head_dim=8, global_head_dim=12, sliding_window=5,
        layer_types=["sliding_attention", "full_attention"]),
    # The second layer has no experts. Files interleave the projections by the heads of keys.
    "qwen3_next": lambda: Qwen3NextConfig(
        **{**SMALL, "num_hidden_layers": 3}, **DELTA, **MIXED, head_dim=16, num_experts=6,
        num_experts_per_tok=2, moe_intermediate_size=14, shared_expert_intermediate_size=18,
        mlp_only_layers=[1]),
    "qwen3_5": lambda: Qwen3_5TextConfig(
        **{**SMALL, "num_hidden_layers": 3}, **DELTA, head_dim=16, attention_bias=True,
        tie_word_embeddings=True),
    "qwen3_5_moe": lambda: Qwen3_5MoeTextConfig(
        **{**{k: v for k, v in SMALL.items() if k != "intermediate_size"}, "num_hidden_layers": 3},
        **DELTA, **MIXED, head_dim=16, num_experts=6, num_experts_per_tok=2,
        moe_intermediate_size=14, shared_expert_intermediate_size=18),
    "lfm2": lambda: Lfm2Config(
        **{**SMALL, "num_hidden_layers": 3}, block_multiple_of=10, block_ffn_dim_multiplier=1.3,
        layer_types=["conv", "full_attention", "conv"]),
    "lfm2_moe": lambda: Lfm2MoeConfig(
        **{**SMALL, "num_hidden_layers": 3}, num_dense_layers=1, moe_intermediate_size=14,
        num_experts=6, num_experts_per_tok=2, routed_scaling_factor=1.5,
        layer_types=["conv", "full_attention", "conv"]),
}


def is_vector(name, p):
    """Also the norms of Command-R+, which have a row for each head."""
    return p.ndim == 1 or name.endswith("_norm.weight")


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
            if config.model_type.startswith("gemma4") and name.endswith("q_norm.weight"):
                p.mul_(0.25)  # its scores are not divided by the root of the head's size
            if name.endswith("conv1d.weight"):
                p.mul_(4.0)  # else q and k, which are divided by their lengths, would be tiny
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
    """All but what corrects the choice of experts, which some models have as a parameter."""
    return [(name, p) for name, p in model.named_parameters()
            if not name.endswith("e_score_correction_bias")]


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


def unstack(name, tensor):
    """The parts of a tensor that holds all experts, under the names they have in hilbert."""
    plain = name.endswith("_linear.weight")
    fused = name.endswith(("input_linear.weight", "gate_up_proj", "gate_up_proj_bias"))
    block, names = name.split(".input_linear")[0].split(".output_linear")[0], ["down_proj"]
    block = block.removesuffix(".experts.gate_up_proj").removesuffix(".experts.down_proj")
    block = block.removesuffix(".experts.gate_up_proj_bias").removesuffix(".experts.down_proj_bias")
    if fused:
        names = ["gate_proj", "up_proj"]
    rows = [tensor]
    if fused:
        rows = tensor.chunk(2, 1) if plain else (tensor[..., 0::2], tensor[..., 1::2])
    if name.endswith("_bias"):
        return {f"{block}.experts.{n}.bias": r.flatten().clone() for n, r in zip(names, rows)}
    return {f"{block}.experts.{e}.{n}.weight": r[e].clone()
            for n, r in zip(names, rows) for e in range(len(tensor))}


def gradients_of(model):
    """Under the names that hilbert has, which are mostly those of files."""
    gradients = {name: p.grad.clone() for name, p in trained(model)}
    if model.config.model_type == "gpt_neox":
        gradients["embed_out.weight"] = gradients.pop("lm_head.weight")
    if not hasattr(model.config, "num_experts_per_tok"):
        return gradients
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder, state_dict=gradients)
        gradients = load_file(os.path.join(folder, "model.safetensors"))
    stacked = [n for n in gradients if ".shared_mlp." not in n and n.endswith(
        ("_linear.weight", "experts.down_proj", "experts.gate_up_proj", "_proj_bias"))]
    for name in stacked:
        gradients.update(unstack(name, gradients.pop(name)))
    return gradients


def generate(model, prompt, count=64):
    ids = prompt.view(1, -1)
    for _ in range(count):
        ids = torch.cat([ids, logits_of(model, ids)[:, -1].argmax(-1, keepdim=True)], 1)
    return ids[0, prompt.numel():].to(torch.int32)


def make_golden(folder, config, seed, pad=None):
    model = create(config, seed, pad)
    model.save_pretrained(folder)
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


def with_images(kind):
    """A tiny model of text and images, its text model like those above."""
    text = {**SMALL, "num_hidden_layers": 3}
    sight = dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1,
                 image_size=28, patch_size=14)
    if kind == "gemma3_images":
        return Gemma3ForConditionalGeneration(Gemma3Config(
            text_config=dict(text, head_dim=10, query_pre_attn_scalar=12, sliding_window=5,
                             layer_types=["sliding_attention", "full_attention",
                                          "sliding_attention"]),
            vision_config=sight, mm_tokens_per_image=4, image_token_index=66))
    if kind == "gemma4_images":
        return Gemma4ForConditionalGeneration(Gemma4Config(
            text_config=dict(text, head_dim=8, global_head_dim=12, sliding_window=5,
                             hidden_size_per_layer_input=4, vocab_size_per_layer_input=67),
            vision_config=dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                               num_attention_heads=1, num_key_value_heads=1, head_dim=8,
                               patch_size=4, position_embedding_size=16),
            image_token_id=66, video_token_id=65, audio_token_id=64))
    if kind == "mistral3_images":
        return Mistral3ForConditionalGeneration(Mistral3Config(
            text_config=dict(text, model_type="mistral", head_dim=10, sliding_window=None),
            vision_config=dict(sight, model_type="pixtral", head_dim=8), image_token_index=66))
    if kind == "qwen3_5_moe_images":
        del text["intermediate_size"]
        return Qwen3_5MoeForConditionalGeneration(Qwen3_5MoeConfig(
            text_config=dict(text, **DELTA, head_dim=16, num_experts=6, num_experts_per_tok=2,
                             moe_intermediate_size=16, shared_expert_intermediate_size=18,
                             rope_parameters=dict(rope_type="yarn", rope_theta=1000.0, factor=4.0,
                                                  partial_rotary_factor=0.5, beta_fast=4.0,
                                                  original_max_position_embeddings=24,
                                                  mrope_section=[2, 1, 1],
                                                  mrope_interleaved=True)),
            vision_config=dict(depth=1, hidden_size=8, intermediate_size=8, num_heads=1,
                               out_hidden_size=24, num_position_embeddings=16),
            image_token_id=66, video_token_id=65, vision_start_token_id=64,
            vision_end_token_id=63))
    return Qwen2_5_VLForConditionalGeneration(Qwen2_5_VLConfig(
        text_config=dict(text, rope_parameters=dict(rope_type="default", rope_theta=1000.0,
                                                    mrope_section=[1, 1, 1])),
        vision_config=dict(depth=1, hidden_size=8, intermediate_size=8, num_heads=1,
                           out_hidden_size=24, fullatt_block_indexes=[0]),
        image_token_id=66, video_token_id=65, vision_start_token_id=64, vision_end_token_id=63))


IMAGES = ("gemma3_images", "mistral3_images", "qwen2_5_vl_images", "gemma4_images",
          "qwen3_5_moe_images")


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


def make_hub_gpt2(source, folder):
    """The file of the hub's gpt2: older names, and the causal masks stored as if weights."""
    os.makedirs(folder)
    shutil.copy(os.path.join(source, "config.json"), folder)
    weights = load_file(os.path.join(source, "model.safetensors"))
    weights = {name.removeprefix("transformer."): w for name, w in weights.items()}
    config = AutoConfig.from_pretrained(source)
    for layer in range(config.n_layer):
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
    for name, config, seed, pad in first + families:
        if not only or name in only:
            make_golden(path(name), config(), seed, pad)
            check_same(path(name), path(name))
    for seed, name in enumerate(IMAGES, 100):
        if not only or name in only:
            make_images(path(name), seed)
    if not only or "gpt_oss_mxfp4" in only:
        make_mxfp4(path("gpt_oss"), path("gpt_oss_mxfp4"))
    if only:
        return
    make_hub_gpt2(path("gpt2"), path("gpt2_hub"))
    check_same(path("gpt2_hub"), path("gpt2"))
    sharded = path("qwen2_window_sharded")
    load(path("qwen2_window")).save_pretrained(sharded, max_shard_size="15KB")
    check_same(sharded, path("qwen2_window"))
    make_v4_config(path("llama3"))
    check_same(path("llama3"), path("llama3"), path("llama3/config_v4.json"))


if __name__ == "__main__":
    main()
