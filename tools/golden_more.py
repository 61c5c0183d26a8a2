"""golden_more.py - more of golden_configs.py; seeds follow from the names, so rows may stand in any order."""
from transformers import Mistral4Config

from golden_recent import DENSE, LATENT

MORE = {
    "mistral4": lambda: Mistral4Config(
        **{**DENSE, **LATENT}, q_lora_rank=6, n_routed_experts=6, num_experts_per_tok=2, n_group=2,
        topk_group=1, moe_intermediate_size=10, first_k_dense_replace=1,
        rope_parameters=dict(rope_type="yarn", rope_theta=1000.0, factor=4.0, beta_fast=4.0,
                             beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0,
                             llama_4_scaling_beta=0.3, original_max_position_embeddings=12)),
}
