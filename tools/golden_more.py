"""golden_more.py - more of golden_configs.py; seeds follow from the names, so rows may stand in any order."""
from transformers import (BailingHybridConfig, Cohere2MoeConfig, DeepseekV32Config,
                          GlmMoeDsaConfig, LagunaConfig, LongcatFlashConfig, MiMoV2FlashConfig,
                          Mistral4Config, OlmoHybridConfig)

GROUPED = dict(q_lora_rank=6, n_routed_experts=6, num_experts_per_tok=2, n_group=2, topk_group=1,
               moe_intermediate_size=10, first_k_dense_replace=1)
# All keys are chosen: what is generated has 72 positions.
INDEXER = dict(index_topk=80, index_head_dim=6, index_n_heads=3)

MORE = {
    "deepseek_v32": lambda: DeepseekV32Config(
        **{**DENSE, **LATENT}, **GROUPED, **INDEXER, routed_scaling_factor=1.5,
        rope_parameters=dict(rope_type="yarn", rope_theta=1000.0, factor=4.0, beta_fast=4.0,
                             beta_slow=1.0, mscale=1.0, mscale_all_dim=0.8,
                             original_max_position_embeddings=12)),
    "glm_moe_dsa": lambda: GlmMoeDsaConfig(
        **{**THREE, **LATENT}, **GROUPED, **INDEXER, attention_bias=True, index_topk_freq=2,
        index_skip_topk_offset=1, mlp_layer_types=["dense", "sparse", "dense"]),
    "longcat_flash": lambda: LongcatFlashConfig(
        vocab_size=67, hidden_size=16, num_layers=2, num_attention_heads=4, ffn_hidden_size=18,
        q_lora_rank=6, kv_lora_rank=10, qk_nope_head_dim=6, qk_rope_head_dim=4, head_dim=4,
        v_head_dim=8, max_position_embeddings=96, attention_bias=True, n_routed_experts=4,
        zero_expert_num=2, moe_topk=3, expert_ffn_hidden_size=10, routed_scaling_factor=1.5),
    "mistral4": lambda: Mistral4Config(
        **{**DENSE, **LATENT}, q_lora_rank=6, n_routed_experts=6, num_experts_per_tok=2, n_group=2,
        topk_group=1, moe_intermediate_size=10, first_k_dense_replace=1,
        rope_parameters=dict(rope_type="yarn", rope_theta=1000.0, factor=4.0, beta_fast=4.0,
                             beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0,
                             llama_4_scaling_beta=0.3, original_max_position_embeddings=12)),
    "olmo_hybrid": lambda: OlmoHybridConfig(
        **THREE, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=3,
        rope_parameters=dict(rope_type="default", rope_theta=None),
        layer_types=["full_attention", "linear_attention", "full_attention"]),
    "olmo_hybrid_turned": lambda: OlmoHybridConfig(
        **DENSE, attention_bias=True, linear_num_key_heads=2, linear_allow_neg_eigval=False,
        rope_parameters=dict(rope_type="default", rope_theta=1000.0),
        layer_types=["full_attention", "linear_attention"]),
    "cohere2_moe": lambda: Cohere2MoeConfig(
        **THREE, **EXPERTS, head_dim=8, attention_bias=True, sliding_window=5,
        sliding_window_pattern=2, first_k_dense_replace=1, prefix_dense_intermediate_size=22,
        num_shared_experts=2, expert_selection_fn="sigmoid", norm_topk_prob=False),
    "cohere2_moe_norms": lambda: Cohere2MoeConfig(
        **DENSE, **EXPERTS, head_dim=8, rms_norm_eps=1e-6, sliding_window=5,
        prefix_dense_sliding_window_pattern=2, mlp_layer_types=["dense", "sparse"],
        layer_types=["full_attention", "sliding_attention"], num_shared_experts=1,
        shared_expert_combination_strategy="sum", tie_word_embeddings=False),
    "mimo_v2_flash": lambda: MiMoV2FlashConfig(
        **{**THREE, "num_key_value_heads": 1}, head_dim=12, v_head_dim=8, sliding_window=5,
        attention_bias=True, n_routed_experts=6, num_experts_per_tok=2, n_group=2, topk_group=1,
        moe_intermediate_size=10, routed_scaling_factor=1.5),
    "laguna": lambda: LagunaConfig(
        **THREE, num_experts=6, num_experts_per_tok=2, head_dim=8, moe_intermediate_size=10,
        shared_expert_intermediate_size=6, sliding_window=5, moe_router_logit_softcapping=0.7,
        moe_routed_scaling_factor=1.5, num_attention_heads_per_layer=[4, 6, 4],
        layer_types=["full_attention", "sliding_attention", "full_attention"]),
    "laguna_elements": lambda: LagunaConfig(
        **DENSE, **EXPERTS, head_dim=8, moe_intermediate_size=10, sliding_window=5,
        shared_expert_intermediate_size=6, gating="per-element", attention_bias=True,
        mlp_layer_types=["sparse", "dense"],
        layer_types=["sliding_attention", "full_attention"],
        rope_parameters=dict(
            full_attention=dict(rope_type="yarn", rope_theta=1000.0, factor=4.0, beta_fast=4.0,
                                beta_slow=1.0, original_max_position_embeddings=12),
            sliding_attention=dict(rope_type="default", rope_theta=500.0,
                                   partial_rotary_factor=0.5))),
    "bailing_hybrid": lambda: BailingHybridConfig(
        **{**DENSE, **LATENT}, head_dim=12, linear_num_heads=2, attention_bias=True,
        num_local_experts=6, num_experts_per_tok=2, n_group=2, topk_group=1,
        moe_intermediate_size=10, layer_group_size=2, first_k_dense_replace=1,
        kda_lower_bound=-2.0),
}
