"""golden_early.py - more of golden_configs.py: the first decoders."""
from transformers import FalconConfig, GPTBigCodeConfig, OPTConfig, PersimmonConfig

SIZES = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=4)
NO_DROPOUT = dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
BIGCODE = dict(vocab_size=67, n_embd=16, n_layer=2, n_head=4, n_positions=80, **NO_DROPOUT)
FALCON = dict(vocab_size=67, **SIZES, max_position_embeddings=80)
GROUPS = dict(**FALCON, new_decoder_architecture=True, num_kv_heads=2)
EARLY = {
    "persimmon": lambda: PersimmonConfig(
        vocab_size=67, **{**SIZES, "num_attention_heads": 2}, intermediate_size=26,
        max_position_embeddings=80),
    "falcon": lambda: FalconConfig(**FALCON),
    "falcon_groups": lambda: FalconConfig(**GROUPS, bias=True, ffn_hidden_size=26),
    "falcon_one_norm": lambda: FalconConfig(
        **GROUPS, num_ln_in_parallel_attn=1, activation="gelu_pytorch_tanh",
        tie_word_embeddings=False, rope_parameters=dict(rope_type="default", rope_theta=100.0)),
    "falcon_serial": lambda: FalconConfig(
        **FALCON, multi_query=False, parallel_attn=False, bias=True),
    "gpt_bigcode": lambda: GPTBigCodeConfig(**BIGCODE, n_inner=26),
    "gpt_bigcode_heads": lambda: GPTBigCodeConfig(
        **BIGCODE, multi_query=False, scale_attn_weights=False, activation_function="gelu",
        tie_word_embeddings=False),
    "opt": lambda: OPTConfig(vocab_size=67, **SIZES, ffn_dim=26, max_position_embeddings=80,
                             dropout=0.0),
}
