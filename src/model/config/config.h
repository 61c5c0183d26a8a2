/* config.h - config.json of a model folder, of transformers 4 and 5, as one plain struct. */
#ifndef HIL_MODEL_CONFIG_CONFIG_H
#define HIL_MODEL_CONFIG_CONFIG_H

#include "io/file.h"
#include "tensor/quant.h"

typedef struct hil_arch hil_arch; /* arch.h */
typedef enum hil_activation {
    HIL_GELU,
    HIL_GELU_TANH,
    HIL_SILU,
    HIL_RELU,         /* only in MLPs without gates */
    HIL_RELU_SQUARED, /* likewise */
    HIL_XIELU,        /* likewise, with parameters of its own */
} hil_activation;
typedef enum hil_rope_kind {
    HIL_ROPE_DEFAULT,
    HIL_ROPE_LINEAR,
    HIL_ROPE_LLAMA3,
    HIL_ROPE_YARN,
    HIL_ROPE_LONG,
    HIL_ROPE_PROPORTIONAL, /* a part turns, with the pairs and frequencies of whole heads */
} hil_rope_kind;
typedef enum hil_norm_kind {
    HIL_NORM_RMS,
    HIL_NORM_RMS_PLUS, /* RMSNorm with 1 + weight */
    HIL_NORM_LAYER,
    HIL_NORM_LAYER_PLUS, /* LayerNorm with 1 + weight */
    HIL_NORM_LAYER_BARE, /* LayerNorm without weight and bias */
    HIL_NORM_RMS_BARE,   /* RMSNorm without weight */
} hil_norm_kind;
/* What a gate of the own projection of attention is for. */
typedef enum hil_own_gate {
    HIL_OWN_GATE_NUMBER, /* each number that attention gives */
    HIL_OWN_GATE_HEAD,   /* each head */
    HIL_OWN_GATE_NONE,   /* nothing: there are no gates */
} hil_own_gate;
/* How queries and keys are normalised before they turn, or after it. */
typedef enum hil_qk_norm {
    HIL_QK_NORM_NONE,
    HIL_QK_NORM_HEAD,   /* each head, with the same weights */
    HIL_QK_NORM_OWN,    /* each head, with weights of its own and without bias */
    HIL_QK_NORM_WHOLE,  /* the whole projection */
    HIL_QK_NORM_TURNED, /* as HEAD, but after it has turned */
} hil_qk_norm;

#define HIL_LAYERS_MAX 10000
#define HIL_LAYER_WORDS (HIL_LAYERS_MAX / 64 + 1)
#define HIL_EOS_MAX 16
#define HIL_CONFIG_LEFT_OUT 96
#define HIL_ROPE_FACTORS 128 /* of LongRoPE, at most */

typedef struct hil_rope_config {
    hil_rope_kind kind;
    bool dynamic; /* by its type the default one, but beyond max_positions */
    double theta, factor, low_freq, high_freq;
    int64_t original_positions;
    double partial;          /* the part of a head that turns; 0: all, and no key may say else */
    double attention_factor; /* of sine and cosine; 0: 1 */
    double beta_fast, beta_slow; /* YaRN */
    double score_factor;         /* of attention's scores, in DeepSeek alone; 0: 1 */
    double growth; /* of queries, from original_positions on: hil_rope_options; 0: none */
    bool truncate;
    int factors; /* LongRoPE: for each frequency, in short and in long sequences */
    float short_factor[HIL_ROPE_FACTORS], long_factor[HIL_ROPE_FACTORS];
} hil_rope_config;

/* Queries at position p are multiplied by 1 + factor * log(1 + floor((p + shift) / from)). */
typedef struct hil_growth_config {
    double factor; /* 0: they are not */
    int64_t from, shift;
} hil_growth_config;

/* Keys and values from a latent vector: [Note: latent attention] in latent.h. */
typedef struct hil_latent_config {
    int64_t q_rank;           /* of the latent vector of queries; 0: they have none */
    int64_t kv_rank;          /* of that of keys and values; 0: attention is not latent */
    int64_t still;            /* numbers of a head that do not turn, before the head_dim that do */
    int64_t value;            /* those of a value */
    double q_scale, kv_scale; /* of queries, and of the latent vector after its norm; 0: none */
} hil_latent_config;

/* What chooses the keys of each query where a sequence has more of them: [Note: indexer] in
   latent.h. */
typedef struct hil_indexer_config {
    int64_t chosen;                   /* keys of each query; 0: there is no indexer */
    int64_t heads, head_dim;          /* its own */
    uint64_t shared[HIL_LAYER_WORDS]; /* bit set: the layer has the keys of the layer before */
} hil_indexer_config;

/* Layers with linear attention by the gated delta rule: [Note: delta net] in delta_net.h. */
typedef struct hil_delta_config {
    int64_t key_heads, key_dim; /* of queries and keys; key_heads 0: there are no such layers */
    int64_t heads, value_dim;   /* of values */
    int64_t kernel;             /* positions of the convolution before it */
    double write;               /* a factor of how much each position writes; 0: 1 */
    double norm_eps;            /* of the norm of what it gives; 0: the model's */
    bool channels;              /* each channel of a key has a decay of its own: kimi_delta.h */
    bool direct;                /* decays and gates there have one projection each */
    double floor;               /* below 0: the least logarithm of a decay there; 0: none */
    uint64_t layers[HIL_LAYER_WORDS]; /* bit set: the layer has it */
} hil_delta_config;

/* Layers with the state space of Mamba-2: [Note: mamba] in mamba.h. */
typedef struct hil_mamba_config {
    int64_t heads, head_dim;          /* heads 0: there are no such layers */
    int64_t groups, states;           /* of B and C, and the numbers of each */
    int64_t kernel;                   /* positions of the convolution before it */
    bool kernel_bias, bias, out_bias; /* of the convolution, and of both projections */
    bool beside;                      /* it is beside attention, not in its place */
    bool bare, norm_first;            /* it has no norm; the norm is before the gate */
    double in, out;                   /* factors of what it reads and gives, 0: 1 */
    double parts[5];                  /* likewise of z, x, B, C and the steps */
    double least, most;               /* of steps; most 0: any */
    uint64_t layers[HIL_LAYER_WORDS]; /* bit set: the layer has it */
} hil_mamba_config;

/* Layers with a gated convolution in place of attention: short_conv.h. */
typedef struct hil_short_conv_config {
    int64_t kernel;                   /* its positions; 0: there are no such layers */
    uint64_t layers[HIL_LAYER_WORDS]; /* bit set: the layer has it */
} hil_short_conv_config;

/* What differs between the layers of Gemma 4, and what they get beside x: gemma4.c. */
typedef struct hil_varied_config {
    int64_t head_dim, kv_heads; /* of layers with full attention */
    bool same_values;           /* their values are the keys before their norm */
    int64_t reusing; /* so many layers at the end have the keys and values of earlier ones */
    bool wide;       /* those have an MLP of twice the width */
    int64_t input;   /* numbers that each layer gets of each token; 0: none */
    int64_t inputs;  /* rows of their table */
} hil_varied_config;

typedef struct hil_mixture_config {
    int64_t experts;                 /* 0: no mixture */
    int64_t chosen;                  /* experts of each token */
    int64_t width;                   /* intermediate size of an expert */
    int64_t shared;                  /* that of the expert that all tokens have; 0: none */
    int64_t identities;              /* experts after them that give what they get */
    int64_t latent;                  /* numbers of what experts read and give; 0: the hidden size */
    double alpha, limit;             /* of hil_swiglu_clamped; limit 0: plain SwiGLU */
    bool biased;                     /* router and experts have biases */
    bool packed;                     /* the folder has the experts in MXFP4: [Note: mxfp4] */
    bool transposed;                 /* files hold the transposes of the experts' matrices */
    bool early;                      /* weights multiply what experts get, not what they give */
    bool normalized;                 /* the weights of the chosen experts add up to 1 */
    bool sigmoid, pairs, corrected;  /* of hil_route_options; corrected: by a bias */
    bool by_logits;                  /* likewise */
    int64_t groups, groups_chosen;   /* likewise */
    double scale;                    /* of the weights of the chosen experts; 0: 1 */
    double eps;                      /* of hil_route_options */
    double cap;                      /* logits become cap * tanh(logit / cap); 0: as they are */
    double part;                     /* of all experts' sum, which the layer gives; 0: all of it */
    double balance;                  /* coefficient of the auxiliary loss; 0: none */
    double router_z;                 /* that of the router z-loss, an option; 0: none */
    uint64_t dense[HIL_LAYER_WORDS]; /* bit set: the layer has an MLP instead */
} hil_mixture_config;

/* hil_config_open and _parse validate every number. */
typedef struct hil_config {
    const hil_arch *arch;
    int64_t vocab, hidden, intermediate, layers, heads, kv_heads, head_dim, max_positions;
    int64_t attentions;                  /* of each layer; 0: one */
    int64_t local_heads, local_kv_heads; /* of layers with sliding attention; 0: as in the others */
    int64_t value_dim;                   /* numbers of a head of values; 0: head_dim */
    int64_t window; /* of layers with sliding attention; 0: none. Read it by hil_config_window. */
    uint64_t slides[HIL_LAYER_WORDS]; /* bit set: the layer has sliding attention */
    uint64_t still[HIL_LAYER_WORDS];  /* bit set: the layer has no rotary embedding */
    int64_t chunk; /* of layers whose positions see only those of their own chunk; 0: none */
    uint64_t chunks[HIL_LAYER_WORDS]; /* bit set: the layer has such chunks */
    hil_growth_config growth; /* of queries, in latent attention or without rotary embedding */
    double norm_eps, init_std;
    double embedding_std; /* the same of the embedding; 0: init_std */
    double part_std;      /* that of each part's last projection; 0: init_std */
    hil_activation activation;
    bool tied;
    bool attention_bias; /* bias on q, k, v */
    bool output_bias;    /* bias on the attention output projection */
    bool mlp_bias;
    bool head_bias; /* bias on the logits */
    bool norm_bias; /* bias of LayerNorm */
    hil_norm_kind norm;
    hil_qk_norm qk_norm;
    bool lone; /* a layer has attention, or what is in its place, or else its MLP */
    uint64_t feeds[HIL_LAYER_WORDS]; /* bit set: then it has the MLP */
    bool parallel;       /* attention and MLP read the same input, and both are added to it */
    bool shared_norm;    /* the MLP reads what attention reads: it has no norm of its own */
    bool qkv_by_head;    /* the fused projection has a head of k and of v after the heads of q that
                            share them, then those of the next */
    bool interleaved;    /* rotary embedding turns numbers 2i and 2i + 1 of a head together */
    bool reversed;       /* it turns the other way */
    bool embedding_norm; /* the embedding's result is normalised */
    int64_t position_shift; /* rows of learned positions before that of position 0 */
    bool no_post_norms; /* the norms of what parts give, which the architecture has, are left out */
    bool mixture_post_norms; /* that of the MLP is there only where it is a mixture */
    hil_own_gate own_gate;   /* where the architecture has such a projection */
    bool softplus_gate;      /* what it gives is not for sigmoids, but for softplus */
    bool gated;      /* q has heads twice as large: the second half gates what attention gives */
    bool frozen_pad; /* the row `pad` of the embedding gets no gradient from it */
    /* 0: none, or the usual one. */
    double embedding_scale, residual_scale, attention_scale, attention_cap, logit_scale, logit_cap;
    double attention_in, attention_out, gate_scale, mlp_out; /* what they read and give */
    double value_scale;                                      /* of attention's values */
    bool scale_by_layer; /* gpt2: scale_attn_by_inverse_layer_idx */
    double dropout_embed, dropout_residual, dropout_attention;
    hil_rope_config rope;
    hil_mixture_config mixture;
    hil_latent_config latent;
    hil_indexer_config indexer;
    hil_delta_config delta;
    hil_short_conv_config conv;
    hil_mamba_config mamba;
    hil_varied_config varied;
    bool local_sinks; /* only layers with sliding attention have sinks */
    bool has_local;   /* layers with sliding attention have a rotary embedding of their own */
    hil_rope_config local_rope;
    /* Of a model that has images or sounds, too: its model_type and what is left out; "": none. */
    char whole[64], left_out[HIL_CONFIG_LEFT_OUT];
    hil_quant_packing packing; /* of the folder's weights, which are expanded: [Note: coded] */
    hil_quant quant;           /* of the folder's quantized weights; none: there are none */
    hil_dtype dtype;           /* of the weights; fp32 if the file names no supported dtype */
    int64_t bos, eos, pad;     /* -1: none, or outside the vocabulary; the first of a list */
    /* All ids that end a generated text, then -1; those of generation_config.json if it has any. */
    int64_t eos_all[HIL_EOS_MAX];
} hil_config;

/* `path` is a config.json, or a folder with one. */
hil_status hil_config_open(hil_config *out, const char *path);
/* The same; also returns the bytes of config.json, and of generation_config.json in the same
   folder if it exists. The caller frees both, also after a failure. Of [Note: text models] they are
   those of the text model. */
hil_status hil_config_read(hil_config *out, const char *path, hil_bytes *config,
                           hil_bytes *generation);
/* config.json alone, from memory; `what` names the source in errors. */
hil_status hil_config_parse(hil_config *out, const char *json, size_t size, const char *what);

/* How many positions a sequence may have, and for the end of a message, why no more; "": the model
   has no more. */
int64_t hil_config_longest(const hil_config *config);
const char *hil_config_longest_why(const hil_config *config);

/* How many numbers of a head turn. */
int64_t hil_config_rope_dims(const hil_config *config, const hil_rope_config *rope);
/* How many numbers a head of queries and keys has. */
int64_t hil_config_key_dim(const hil_config *config);
/* Heads of the layer, those of keys and values, and the numbers of a head of values. */
int64_t hil_config_heads(const hil_config *config, int64_t layer);
int64_t hil_config_kv_heads(const hil_config *config, int64_t layer);
int64_t hil_config_value_dim(const hil_config *config);
/* Whether the layer has rotary embedding. */
bool hil_config_turns(const hil_config *config, int64_t layer);
/* Whether the layer has linear attention. */
bool hil_config_linear(const hil_config *config, int64_t layer);
/* Whether the layer has a gated convolution in place of attention. */
bool hil_config_convolves(const hil_config *config, int64_t layer);
/* Whether the layer has a state space. */
bool hil_config_mamba(const hil_config *config, int64_t layer);
/* Whether the layer has attention that keeps keys and values. */
bool hil_config_attends(const hil_config *config, int64_t layer);
/* Whether the layer has attention, or what is in its place; and whether an MLP, or a mixture. */
bool hil_config_mixes(const hil_config *config, int64_t layer);
bool hil_config_feeds(const hil_config *config, int64_t layer);
/* How many positions, its own included, a position of this layer attends to; 0: all before it. */
int64_t hil_config_window(const hil_config *config, int64_t layer);
/* How many positions a chunk of the layer has, which see no others; 0: it has no chunks. */
int64_t hil_config_chunk(const hil_config *config, int64_t layer);

/* "float32", ..., as PyTorch names it, with the quotes of a JSON string. */
const char *hil_config_torch_name(hil_dtype dtype);
/* Appends the config.json with its dtype set to `dtype`, that of the saved weights, and with the
   quantization_config of `quant` unless that is HIL_QUANT_NONE. Adds "architectures" if it is
   missing; changes no other byte. */
hil_status hil_config_edit(hil_text *out, const char *json, size_t size, hil_dtype dtype,
                           hil_quant quant);

#endif
