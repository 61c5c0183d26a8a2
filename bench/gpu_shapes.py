"""gpu_shapes.py - the models of bench/gpu.py: config.json, what they have, what a token costs."""

TINY_LAYERS = 2


def llama(hidden, inner, layers, heads, groups, tied, vocab=128256):
    return dict(
        model_type="llama", architectures=["LlamaForCausalLM"], vocab_size=vocab,
        hidden_size=hidden, intermediate_size=inner, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=groups, head_dim=hidden // heads,
        hidden_act="silu", max_position_embeddings=8192, rms_norm_eps=1e-5,
        initializer_range=0.02, tie_word_embeddings=tied, bos_token_id=None, eos_token_id=None,
        rope_parameters=dict(rope_type="default", rope_theta=500000.0), dtype="bfloat16")


def gpt2(hidden, layers, heads, positions=1024, vocab=50257):
    return dict(
        model_type="gpt2", architectures=["GPT2LMHeadModel"], vocab_size=vocab,
        n_positions=positions, n_embd=hidden, n_layer=layers, n_head=heads,
        activation_function="gelu_new", resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        layer_norm_epsilon=1e-5, initializer_range=0.02, tie_word_embeddings=True,
        bos_token_id=None, eos_token_id=None, dtype="bfloat16")


def qwen2(*sizes, tied, vocab):
    """A Llama with biases on queries, keys and values."""
    return {**llama(*sizes, tied, vocab), "model_type": "qwen2",
            "architectures": ["Qwen2ForCausalLM"], "use_sliding_window": False}


# Name: config, sequences and their length of a step in memory. The Qwen2.5 shapes have the steps
# that LLMQ's own measurements have.
SHAPES = {
    "125m": (gpt2(768, 12, 12), 32, 1024),
    "1b": (llama(2048, 8192, 16, 32, 8, True), 8, 4096),
    "3b": (llama(3072, 8192, 28, 24, 8, True), 4, 4096),
    "8b": (llama(4096, 14336, 32, 32, 8, False), 4, 4096),
    "qwen-1.5b": (qwen2(1536, 8960, 28, 12, 2, tied=True, vocab=151936), 64, 1024),
    "qwen-7b": (qwen2(3584, 18944, 28, 28, 4, tied=False, vocab=152064), 64, 1024),
}
# Sequences at once where a whole step's activations do not fit.
MICRO = {"8b": 2, "qwen-1.5b": 32, "qwen-7b": 5}
# The same code on any processor in seconds: for tests of the script, not for numbers.
TINY = {
    "125m": (gpt2(64, TINY_LAYERS, 4, 128, 600), 4, 64),
    "1b": (llama(64, 128, TINY_LAYERS, 4, 2, True, 512), 4, 64),
    "3b": (llama(96, 128, TINY_LAYERS, 6, 2, True, 512), 4, 64),
    "8b": (llama(128, 256, TINY_LAYERS, 4, 2, False, 512), 4, 64),
    "qwen-1.5b": (qwen2(64, 128, TINY_LAYERS, 4, 2, tied=True, vocab=512), 4, 64),
    "qwen-7b": (qwen2(64, 128, TINY_LAYERS, 4, 2, tied=False, vocab=512), 4, 64),
}


def shape_of(name, tiny):
    return (TINY if tiny else SHAPES)[name]


def capacity(layers, tiny):
    """Llama-shaped, as large as its layers make it."""
    if tiny:
        return llama(64, 128, layers, 4, 2, False, 512)
    return llama(6144, 16384, layers, 48, 8, False)


def block_products(config):
    """(inputs, outputs, how many) of the matrices of one block."""
    if config["model_type"] == "gpt2":
        c = config["n_embd"]
        return [(c, 3 * c, 1), (c, c, 1), (c, 4 * c, 1), (4 * c, c, 1)]
    c, inner = config["hidden_size"], config["intermediate_size"]
    wide = config["num_attention_heads"] * config["head_dim"]
    narrow = config["num_key_value_heads"] * config["head_dim"]
    return [(c, wide, 1), (c, narrow, 2), (wide, c, 1), (c, inner, 2), (inner, c, 1)]


def sizes(config):
    """Layers and hidden size."""
    if config["model_type"] == "gpt2":
        return config["n_layer"], config["n_embd"]
    return config["num_hidden_layers"], config["hidden_size"]


def parameters(config):
    layers, c = sizes(config)
    gpt = config["model_type"] == "gpt2"
    block = sum(k * n * count for k, n, count in block_products(config))
    block += 13 * c if gpt else 2 * c  # norms, and GPT-2's biases
    if config["model_type"] == "qwen2":
        block += (config["num_attention_heads"] + 2 * config["num_key_value_heads"]) * \
            config["head_dim"]
    tables = 1 if config["tie_word_embeddings"] else 2
    rest = (2 + config["n_positions"]) * c if gpt else c
    return layers * block + tables * config["vocab_size"] * c + rest


def token_flops(config, seq):
    """6 per parameter but those that are only looked up, and causal attention; recomputation does
    not count. A table that is the head as well is multiplied with, so it counts."""
    layers, c = sizes(config)
    looked_up = 0 if config["tie_word_embeddings"] else config["vocab_size"] * c
    looked_up += config["n_positions"] * c if config["model_type"] == "gpt2" else 0
    return 6 * (parameters(config) - looked_up) + 6 * layers * c * seq
