/* config.h - config.json of a model folder, both generations, as one plain struct. */
#ifndef HIL_FORMAT_CONFIG_H
#define HIL_FORMAT_CONFIG_H

#include "base/json.h"

typedef enum hil_arch { HIL_GPT2, HIL_LLAMA, HIL_MISTRAL, HIL_QWEN2, HIL_QWEN3 } hil_arch;
typedef enum hil_activation { HIL_GELU, HIL_GELU_TANH, HIL_SILU } hil_activation;
typedef enum hil_rope_kind { HIL_ROPE_DEFAULT, HIL_ROPE_LINEAR, HIL_ROPE_LLAMA3 } hil_rope_kind;

/* Every number is checked to be sane when the struct comes out of hil_config_open. */
typedef struct hil_config {
    hil_arch arch;
    int64_t vocab, hidden, intermediate, layers, heads, kv_heads, head_dim, max_positions;
    int64_t window;        /* sliding window, 0: none */
    int64_t window_layers; /* qwen2: layers [0, window_layers) attend fully; 0 with a window: all
                              slide */
    double norm_eps, init_std;
    hil_activation activation;
    bool tied;
    bool attention_bias; /* bias on q, k, v (and o where the architecture has it) */
    bool output_bias;    /* bias on the attention output projection */
    bool mlp_bias;
    bool scale_by_layer; /* gpt2: scale_attn_by_inverse_layer_idx */
    double dropout_embed, dropout_residual, dropout_attention;
    struct {
        hil_rope_kind kind;
        double theta, factor, low_freq, high_freq;
        int64_t original_positions;
    } rope;
    int64_t bos, eos, pad; /* -1: none; the first of a list */
    int64_t eos_all[8];    /* every end-of-text id; -1 where unused */
} hil_config;

/* The supported model_type names, for messages: "gpt2, llama, ..." */
const char *hil_config_supported(void);

/* `path` is a config.json or a folder that holds one. */
hil_status hil_config_open(hil_config *out, const char *path);
hil_status hil_config_parse(hil_config *out, const char *json, size_t size, const char *what);

/* Writes `source` (the config.json read) to `target` with "dtype"/"torch_dtype" set to what the
   weights were saved in; every other key stays as it was. */
hil_status hil_config_write(const char *source, const char *target, const char *dtype);

#endif
