"""golden_configs.py - the tiny models of golden_models.py: a config for each. Seeds follow their order."""
from transformers import (
    AfmoeConfig, ApertusConfig, ArceeConfig, BambaConfig, Cohere2Config, CohereConfig, CwmConfig,
    DeepseekV2Config, DeepseekV3Config, Dots1Config, Ernie4_5_MoeConfig, Ernie4_5Config,
    Exaone4Config, ExaoneMoeConfig, FalconH1Config, FlexOlmoConfig, Gemma2Config, Gemma3Config,
    Gemma3ForConditionalGeneration, Gemma3TextConfig, Gemma4Config, Gemma4ForConditionalGeneration,
    Gemma4TextConfig, Gemma4UnifiedTextConfig, GemmaConfig, Glm4Config, Glm4MoeConfig,
    Glm4MoeLiteConfig, GlmConfig, GPT2Config, GPTJConfig, GPTNeoXConfig, GptOssConfig,
    GraniteConfig, GraniteMoeConfig, GraniteMoeHybridConfig, GraniteMoeSharedConfig,
    GraniteMoeSWAConfig, GraniteSWAConfig, HeliumConfig, HunYuanDenseV1Config, HunYuanMoEV1Config,
    HyperCLOVAXConfig, HYV3Config, InternLM3Config, IQuestCoderConfig, Jais2Config, Lfm2Config,
    Lfm2MoeConfig, Llama4Config, Llama4ForConditionalGeneration, Llama4TextConfig, LlamaConfig,
    Mamba2Config, MellumConfig, MiniCPM3Config, MiniMaxM2Config, Ministral3Config, MinistralConfig,
    Mistral3Config, Mistral3ForConditionalGeneration, MistralConfig, MixtralConfig, NanoChatConfig,
    NemotronConfig, NemotronHConfig, Olmo2Config, Olmo3Config, OlmoConfig, OlmoeConfig, Phi3Config,
    PhiConfig, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration, Qwen2Config, Qwen2MoeConfig,
    Qwen3_5MoeConfig, Qwen3_5MoeForConditionalGeneration, Qwen3_5MoeTextConfig, Qwen3_5TextConfig,
    Qwen3Config, Qwen3MoeConfig, Qwen3NextConfig, SeedOssConfig, SmolLM3Config, SolarOpenConfig,
    StableLmConfig, Starcoder2Config, VaultGemmaConfig, YoutuConfig)

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
LONG = dict(rope_type="longrope", rope_theta=10000.0, partial_rotary_factor=0.75,
            short_factor=[1.0, 1.1, 1.3], long_factor=[1.0, 2.5, 4.0])
LATENT = {**SMALL, "num_key_value_heads": 4, "kv_lora_rank": 14, "qk_nope_head_dim": 6,
          "qk_rope_head_dim": 4, "v_head_dim": 8, "moe_intermediate_size": 14}
MSCALE = dict(rope_type="yarn", rope_theta=1000.0, factor=4.0, beta_fast=4.0, beta_slow=1.0,
              mscale=0.9, mscale_all_dim=0.6, original_max_position_embeddings=24)
DELTA = dict(linear_num_key_heads=2, linear_key_head_dim=8, linear_num_value_heads=4,
             linear_value_head_dim=10, linear_conv_kernel_dim=4, rms_norm_eps=1e-3,
             layer_types=["linear_attention", "full_attention", "linear_attention"])
MAMBA = dict(mamba_n_heads=6, mamba_n_groups=2, mamba_d_state=10, mamba_d_conv=4)
TINY = dict(vocab_size=67, hidden_size=16, intermediate_size=18, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=96)
LATENT_TINY = {**TINY, "num_key_value_heads": 4, "kv_lora_rank": 10, "qk_nope_head_dim": 6,
               "qk_rope_head_dim": 4, "v_head_dim": 8}
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
    # That of 26B-A4B: experts beside the MLP.
    "gemma4_moe": lambda: Gemma4TextConfig(
        **SMALL, head_dim=8, global_head_dim=12, sliding_window=5, num_global_key_value_heads=1,
        layer_types=["sliding_attention", "full_attention"], hidden_size_per_layer_input=0,
        attention_k_eq_v=True, enable_moe_block=True, num_experts=6, top_k_experts=2,
        moe_intermediate_size=14),
    # The middle layer does not turn and sees all; the others see chunks; the last has an MLP.
    "llama4": lambda: Llama4TextConfig(
        **{**SMALL, "num_hidden_layers": 3, "intermediate_size": 14}, head_dim=12,
        intermediate_size_mlp=26, num_local_experts=4, interleave_moe_layer_step=2,
        no_rope_layers=[1, 0, 1], attention_chunk_size=9, floor_scale=5, attn_scale=0.3,
        moe_layers=[0, 1]),
    # Two experts for each token; without norms of queries and keys.
    "llama4_two": lambda: Llama4TextConfig(
        **{**SMALL, "intermediate_size": 14}, head_dim=12, intermediate_size_mlp=26,
        num_local_experts=4, num_experts_per_tok=2, use_qk_norm=False, attention_bias=True,
        attn_temperature_tuning=False, interleave_moe_layer_step=2),
    "apertus": lambda: ApertusConfig(**SMALL, rope_parameters=dict(LLAMA3_ROPE)),
    "jais2": lambda: Jais2Config(**TINY),
    "nanochat": lambda: NanoChatConfig(**TINY, final_logit_softcapping=3.0),
    "iquestcoder": lambda: IQuestCoderConfig(**TINY, head_dim=10),
    "hyperclovax": lambda: HyperCLOVAXConfig(
        **TINY, embedding_multiplier=6.0, logits_scaling=0.4, residual_multiplier=0.7,
        attention_multiplier=0.3),
    "granite_swa": lambda: GraniteSWAConfig(
        **{**TINY, "num_hidden_layers": 3}, logits_scaling=0.4, attention_multiplier=0.3,
        sliding_window=5, layer_types=["full_attention"] + 2 * ["sliding_attention"],
        layer_rope_theta=[0, 500.0, 500.0]),
    "gptj": lambda: GPTJConfig(vocab_size=67, n_embd=20, n_layer=2, n_head=2, n_positions=96,
                               n_inner=26, rotary_dim=6),
    "youtu": lambda: YoutuConfig(**LATENT_TINY, q_lora_rank=8),
    "minicpm3": lambda: MiniCPM3Config(**LATENT_TINY, q_lora_rank=8, dim_model_base=20),
    "mellum": lambda: MellumConfig(
        **{**TINY, "num_hidden_layers": 3}, **MIXED, head_dim=8, num_experts=5,
        num_experts_per_tok=2, moe_intermediate_size=10, sliding_window=5,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        mlp_layer_types=["sparse", "dense", "sparse"]),
    "afmoe": lambda: AfmoeConfig(
        **{**TINY, "num_hidden_layers": 3}, head_dim=8, num_experts=5, num_experts_per_tok=2,
        moe_intermediate_size=6, sliding_window=5, global_attn_every_n_layers=2, route_scale=1.5,
        mup_enabled=True),
    "hy_v3": lambda: HYV3Config(**TINY, head_dim=8, num_experts=5, num_experts_per_tok=2,
                                moe_intermediate_size=10),
    "granitemoe_swa": lambda: GraniteMoeSWAConfig(
        **{**TINY, "intermediate_size": 10}, **MIXED, num_local_experts=4, num_experts_per_tok=2,
        shared_intermediate_size=6, attention_multiplier=0.3, logits_scaling=0.4,
        sliding_window=5, layer_rope_theta=[500.0, 100.0]),
}
NEMOTRON_H = dict(vocab_size=67, hidden_size=24, intermediate_size=26, num_attention_heads=4,
                  num_key_value_heads=2, head_dim=8, max_position_embeddings=96, mamba_num_heads=6,
                  mamba_head_dim=5, n_groups=2, ssm_state_size=10, pad_token_id=None)
# With state spaces.
SPACES = {
    # Granite 4: attention without positions, experts and one that all tokens have.
    "granitemoehybrid": lambda: GraniteMoeHybridConfig(
        **{**SMALL, "num_hidden_layers": 3, "intermediate_size": 10}, **MAMBA, **MIXED,
        num_local_experts=5, num_experts_per_tok=2, shared_intermediate_size=18,
        embedding_multiplier=6.0, logits_scaling=3.0, residual_multiplier=0.6, attention_multiplier=0.3,
        layer_types=["mamba", "attention", "mamba"], mamba_proj_bias=True),
    # Without experts; all attention turns.
    "granitemoehybrid_dense": lambda: GraniteMoeHybridConfig(
        **SMALL, **{**MAMBA, "mamba_n_groups": 1}, num_local_experts=0, shared_intermediate_size=26,
        position_embedding_type="rope", layer_types=["linear_attention", "full_attention"],
        tie_word_embeddings=True, mamba_conv_bias=False, attention_bias=True,
        embedding_multiplier=6.0, logits_scaling=3.0, residual_multiplier=0.6,
        attention_multiplier=0.3),
    # Layers have one part each.
    "nemotron_h": lambda: NemotronHConfig(
        **NEMOTRON_H, layers_block_type=["mamba", "mlp", "attention", "mamba"], mlp_bias=True,
        use_bias=True),
    # Nemotron 3: experts without gates, and one that all tokens have.
    "nemotron_h_moe": lambda: NemotronHConfig(
        **NEMOTRON_H, layers_block_type=["mamba", "moe", "attention", "mlp", "moe"],
        n_routed_experts=6, moe_intermediate_size=14, moe_shared_expert_intermediate_size=18,
        moe_latent_size=12, n_group=2, topk_group=1, routed_scaling_factor=1.5),
    # Attention beside a state space, and factors everywhere.
    "falcon_h1": lambda: FalconH1Config(
        **SMALL, **MAMBA, mamba_d_ssm=30, attention_in_multiplier=0.9, attention_out_multiplier=0.8,
        ssm_in_multiplier=1.2, ssm_out_multiplier=0.7, ssm_multipliers=[0.9, 1.1, 1.2, 0.8, 1.3],
        mlp_multipliers=[1.4, 0.6], key_multiplier=0.7, embedding_multiplier=3.0,
        lm_head_multiplier=0.5, projectors_bias=True, attention_bias=True, mlp_bias=True),
    "falcon_h1_norm": lambda: FalconH1Config(
        **SMALL, **MAMBA, mamba_d_ssm=None, mamba_rms_norm=True, mamba_proj_bias=True,
        mamba_norm_before_gate=True, ssm_multipliers=[1.0, 1.3, 1.3, 1.3, 1.0],
        tie_word_embeddings=True),
    "bamba": lambda: BambaConfig(**SMALL, **MAMBA, attn_layer_indices=[1], head_dim=8),
    "mamba2": lambda: Mamba2Config(
        vocab_size=67, hidden_size=24, num_hidden_layers=2, num_heads=6, head_dim=8, n_groups=2,
        state_size=10, use_bias=True, layer_norm_epsilon=1e-2, pad_token_id=None),
}


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
    if kind == "llama4_images":
        return Llama4ForConditionalGeneration(Llama4Config(
            text_config=dict(text, head_dim=12, intermediate_size_mlp=20, num_local_experts=3,
                             interleave_moe_layer_step=3, attention_chunk_size=7),
            vision_config=dict(sight, vision_output_dim=8, projector_input_dim=8,
                               projector_output_dim=8, pixel_shuffle_ratio=0.5),
            image_token_index=66))
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
          "qwen3_5_moe_images", "llama4_images")
