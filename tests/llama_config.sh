# llama_config.sh - llama_config VOCAB HIDDEN INNER LAYERS HEADS GROUPS POSITIONS MORE: the config.json of a small
# Llama; MORE is its other members.
llama_config()
{
    cat <<END
{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": $1, "hidden_size": $2,
 "intermediate_size": $3, "num_hidden_layers": $4, "num_attention_heads": $5, "num_key_value_heads": $6,
 "max_position_embeddings": $7, "rms_norm_eps": 1e-5, "hidden_act": "silu", $8}
END
}
