"""golden_recent.py - more of golden_configs.py: models of later versions of transformers."""
from transformers import AXK1Config, FlintConfig, KimiLinearConfig, Kolibri1Config, Lfm3Config

TINY = dict(vocab_size=67, hidden_size=16, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=96)
DENSE = {**TINY, "intermediate_size": 18}
THREE = {**DENSE, "num_hidden_layers": 3}
LATENT = dict(num_key_value_heads=4, kv_lora_rank=10, qk_nope_head_dim=6, qk_rope_head_dim=4,
              v_head_dim=8)
EXPERTS = dict(num_experts=5, num_experts_per_tok=2)
RECENT = {
    "lfm3": lambda: Lfm3Config(
        **THREE, head_dim=8, sliding_window=5, conv_L_cache=5,
        layer_types=["conv", "full_attention", "sliding_attention"]),
    "axk1": lambda: AXK1Config(
        **{**DENSE, **LATENT}, q_lora_rank=6, n_routed_experts=6, num_experts_per_tok=2, n_group=2,
        topk_group=1, moe_intermediate_size=10),
    "flint": lambda: FlintConfig(
        **THREE, **EXPERTS, head_dim=8, moe_intermediate_size=6, shared_expert_intermediate_size=10,
        sliding_window=5, mlp_only_layers=[0],
        layer_types=["full_attention", "sliding_attention", "sliding_attention"]),
    "kolibri1": lambda: Kolibri1Config(
        **TINY, **EXPERTS, head_dim=8, moe_intermediate_size=10, shared_expert_intermediate_size=6,
        sliding_window=5, norm_topk_prob=True,
        layer_types=["sliding_attention", "full_attention"]),
    "kimi_linear": lambda: KimiLinearConfig(
        **{**THREE, **LATENT}, num_experts=6, num_experts_per_token=2, moe_intermediate_size=10,
        num_expert_group=2, topk_group=1, linear_head_dim=6, linear_num_heads=2,
        layer_types=["linear_attention", "full_attention", "linear_attention"]),
}
# Tensors of files that are parameters of another name in the modules that adapters target.
OWN_NAMES = {
    "bailing_hybrid": ((".attention.f_proj.", ".attention.forget_gate.f_proj."),
                       (".attention.dense.", ".attention.o_proj."), (".attention.", ".self_attn.")),
    "kimi_linear": (("block_sparse_moe.shared_experts.", "mlp.shared_experts."),
                    (".f_a_proj", ".forget_gate.f_a_proj"), (".f_b_proj", ".forget_gate.f_b_proj"),
                    ("block_sparse_moe.gate_proj.", "mlp.gate_proj."),
                    ("block_sparse_moe.up_proj.", "mlp.up_proj."),
                    ("block_sparse_moe.down_proj.", "mlp.down_proj.")),
}


def own_name(kind, name):
    for tensor, module in OWN_NAMES.get(kind, ()):
        name = name.replace(tensor, module)
    return name
