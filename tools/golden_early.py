"""golden_early.py - more of golden_configs.py: the first decoders."""
from transformers import OPTConfig

SIZES = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=4)
EARLY = {
    "opt": lambda: OPTConfig(vocab_size=67, **SIZES, ffn_dim=26, max_position_embeddings=80,
                             dropout=0.0),
}
