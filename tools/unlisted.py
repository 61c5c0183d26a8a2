"""unlisted.py - causal models that AutoModelForCausalLM of transformers 5.23 does not list."""
from transformers import AutoModelForCausalLM, Mistral4Config, Mistral4ForCausalLM


def register():
    AutoModelForCausalLM.register(Mistral4Config, Mistral4ForCausalLM, exist_ok=True)
