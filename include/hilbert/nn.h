/* nn.h - tensors, operations and models: for your own architectures.

   A model is a fixed sequence of segments (embedding, blocks, head with loss). Each is an ordinary
   C function that calls operations for one micro-batch. Parameters are handles: the engine decides
   when they are fetched and evicted, what is kept for backward and what is recomputed. */
#ifndef HILBERT_NN_H
#define HILBERT_NN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hilbert/custom.h"
#include "hilbert/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hil_model hil_model; /* owns its segments, layers and parameters */
typedef struct hil_param hil_param; /* borrowed from the model */
typedef struct hil_tape hil_tape;   /* borrowed during a segment's call */
typedef struct hil_value hil_value; /* a tensor on the tape; borrowed during a segment's call */

/* Named values that one segment passes to the next. Names are borrowed: use string literals. */
#define HIL_VALUES_MAX 8
typedef struct hil_values {
    int count;
    const char *name[HIL_VALUES_MAX];
    hil_value *value[HIL_VALUES_MAX];
} hil_values;

HIL_API hil_status hil_values_set(hil_values *values, const char *name, hil_value *value);
HIL_API hil_status hil_values_get(const hil_values *values, const char *name, hil_value **out);

typedef hil_status hil_segment_fn(hil_tape *tape, void *layer, const hil_values *in,
                                  hil_values *out);

/* Building a model: create, then for each segment its parameters, then train it (trainer.h). */
HIL_API hil_status hil_model_create(hil_model **out);
HIL_API void hil_model_destroy(hil_model *model);
/* Zeroed memory, freed with the model: for layers. */
HIL_API hil_status hil_model_alloc(hil_model *model, size_t bytes, void **out);
/* Appends a segment. Its `out` values are the next segment's `in`. The name is copied; `run` and
   `layer` are borrowed as long as the model exists. `run` is called on the thread that trains. */
HIL_API hil_status hil_model_segment(hil_model *model, const char *name, hil_segment_fn *run,
                                     void *layer);

typedef enum hil_role {
    HIL_MATRIX,      /* rows x cols, normal with `std`, decayed */
    HIL_TRANSPOSED,  /* the same, but files hold it as cols x rows */
    HIL_SCALE,       /* a vector of ones, not decayed */
    HIL_BIAS,        /* a vector of zeros, not decayed */
    HIL_ROUTER,      /* as HIL_MATRIX, but an adapter for all linear layers leaves it out */
    HIL_OFFSET,      /* as HIL_BIAS, of a norm: its weight minus 1 */
    HIL_FIXED,       /* as HIL_BIAS, but never trained: a buffer of files */
    HIL_FIXED_SCALE, /* as HIL_SCALE, but never trained */
    HIL_KERNEL, /* of a convolution: `cols` factors of each of `rows` channels, normal with `std`,
                   decayed; files hold it as rows x 1 x cols */
    HIL_RATE,   /* a vector of logarithms of numbers from 0.01 to 16, not decayed */
    HIL_RATES,  /* a vector of the logarithms of 1, 2, 3, ..., not decayed */
    HIL_STEP,   /* a vector whose softplus is from 0.001 to 0.1, even in logarithms, not decayed */
    HIL_FIXED_MATRIX, /* as HIL_MATRIX, but never trained, and an adapter leaves it out */
} hil_role;

/* Vectors have one row; with more, files hold them as rows x cols. They need no `std`; HIL_BIAS and
   HIL_FIXED begin with it. */
typedef struct hil_param_form {
    hil_role role;
    int64_t rows, cols;
    double std;
} hil_param_form;

/* Registers a parameter under the name it has in files, which is copied. */
HIL_API hil_status hil_model_param(hil_model *model, const char *name, const hil_param_form *form,
                                   hil_param **out);

/* The matrices of all experts of a mixture, as parameters one after the other. Their number stands
   for the * in `pattern`: "model.layers.0.mlp.experts.*.up_proj.weight". hil_grouped_linear takes
   the first. */
HIL_API hil_status hil_model_experts(hil_model *model, const char *pattern,
                                     const hil_param_form *each, int64_t experts,
                                     hil_param **first);

/* Declares that the segment appended last may use this parameter on a path that depends on data.
   Parameters of its usual path (see hil_value_ids) need no declaration. With one rank an undeclared
   use is only slower; with several it is an error, because all ranks gather what any may use. */
HIL_API hil_status hil_model_use(hil_model *model, hil_param *param);

/* The batch, as int32 values of shape (B, T). */
HIL_API hil_value *hil_batch_tokens(hil_tape *tape);
HIL_API hil_value *hil_batch_positions(hil_tape *tape);
/* The numbers of one of these values, in host memory, for a path that depends on them; NULL while
   only shapes are known: then take the usual path. Borrowed during the segment's call. */
HIL_API const int32_t *hil_value_ids(const hil_value *value);

/* The output `name` of an earlier segment. Evaluation frees an output after the last segment that
   reads it on the usual path, unless some segment asks for hil_value_ids. */
HIL_API hil_status hil_earlier(hil_tape *tape, const char *segment, const char *name,
                               hil_value **out);

HIL_API int hil_value_dims(const hil_value *value);
HIL_API int64_t hil_value_dim(const hil_value *value, int i); /* negative i counts from the end */

/* Operations. Every one checks its shapes. */
HIL_API hil_status hil_embedding(hil_tape *t, hil_value *ids, hil_param *table, hil_value **y);
/* The same; the row `pad` of the table gets no gradient from it. -1: every row gets one. */
HIL_API hil_status hil_embedding_padded(hil_tape *t, hil_value *ids, hil_param *table, int64_t pad,
                                        hil_value **y);
/* hil_embedding of ids + shift: tables of positions may have rows before that of position 0. */
HIL_API hil_status hil_embedding_shifted(hil_tape *t, hil_value *ids, hil_param *table,
                                         int64_t shift, hil_value **y);
HIL_API hil_status hil_linear(hil_tape *t, hil_value *x, hil_param *weight, hil_param *bias,
                              hil_value **y); /* bias may be NULL */
/* residual + linear, rounded once: cheaper than linear and add. */
HIL_API hil_status hil_linear_add(hil_tape *t, hil_value *x, hil_param *weight, hil_param *bias,
                                  hil_value *residual, hil_value **y);
/* Says that these matrices are about to be applied to the same x, by hil_linear: their adapters
   then read it once. */
HIL_API hil_status hil_linear_share(hil_tape *t, hil_value *x, int count, hil_param *const *weight);
/* bias may be NULL: 0; and weight, too, if bias is: 1. */
HIL_API hil_status hil_layernorm(hil_tape *t, hil_value *x, hil_param *weight, hil_param *bias,
                                 double eps, hil_value **y);
/* The same with 1 + weight. */
HIL_API hil_status hil_layernorm_plus(hil_tape *t, hil_value *x, hil_param *weight, hil_param *bias,
                                      double eps, hil_value **y);
/* LayerNorm of each head of x (B, T, H, D) with weights of its own: `weight` holds those of all
   heads, or is the first of H parameters that were registered one after the other. */
HIL_API hil_status hil_head_norm(hil_tape *t, hil_value *x, hil_param *weight, double eps,
                                 hil_value **y);
/* The same as RMSNorm; `weight` holds those of all heads. */
HIL_API hil_status hil_head_rmsnorm(hil_tape *t, hil_value *x, hil_param *weight, double eps,
                                    hil_value **y);
/* weight may be NULL: 1 */
HIL_API hil_status hil_rmsnorm(hil_tape *t, hil_value *x, hil_param *weight, double eps,
                               hil_value **y);
/* The same with 1 + weight. */
HIL_API hil_status hil_rmsnorm_plus(hil_tape *t, hil_value *x, hil_param *weight, double eps,
                                    hil_value **y);
/* x (B, T, H, D); `frequency` has D/2 numbers and is borrowed as long as the model exists. Numbers
   i and i + D/2 of a head turn together. */
HIL_API hil_status hil_rope(hil_tape *t, hil_value *x, const float *frequency, hil_value **y);
typedef struct hil_rope_options {
    size_t size;      /* set by hil_rope_defaults */
    int64_t dims;     /* only the first of each head turn, with dims/2 frequencies; 0: all */
    bool interleaved; /* 2i and 2i + 1 turn together */
    double factor;    /* of sine and cosine; 0: 1 */
    /* Taken instead where a sequence has more than `longer_than` positions; NULL: none. */
    const float *longer;
    int64_t longer_than;
    int64_t first; /* numbers of each head before those that turn */
    /* Heads at position p are scaled by 1 + growth * log(1 + floor(p / growth_from)); 0: they are
       not. Only where all numbers of a head turn. */
    double growth;
    int64_t growth_from;
    int64_t growth_shift; /* added to p there */
} hil_rope_options;
HIL_API void hil_rope_defaults_sized(hil_rope_options *options, size_t size);
#define hil_rope_defaults(options) hil_rope_defaults_sized(options, sizeof *(options))
HIL_API hil_status hil_rope_with(hil_tape *t, hil_value *x, const float *frequency,
                                 const hil_rope_options *options, hil_value **y);
typedef struct hil_attention_options {
    size_t size;    /* set by hil_attention_defaults */
    double scale;   /* 0: 1 / sqrt(D) */
    int64_t window; /* 0: none */
    double dropout;
    double cap;       /* scores become cap * tanh(score / cap); 0: as they are */
    hil_param *sinks; /* for each head the score of one more key, whose value is 0; NULL: none */
    int64_t chunk;    /* positions see only their own chunk, of so many of their document; 0: all */
} hil_attention_options;
HIL_API void hil_attention_defaults_sized(hil_attention_options *options, size_t size);
#define hil_attention_defaults(options) hil_attention_defaults_sized(options, sizeof *(options))
/* q (B, T, H, D), k and v (B, T, KV, D): causal, inside each document. The heads of v may be
   smaller than D; so are then those of y. `options` may be NULL. */
HIL_API hil_status hil_attention(hil_tape *t, hil_value *q, hil_value *k, hil_value *v,
                                 const hil_attention_options *options, hil_value **y);
/* The same from one tensor: qkv (B, T, 3 H, D) has the heads of q, then of k, then of v. */
HIL_API hil_status hil_attention_packed(hil_tape *t, hil_value *qkv,
                                        const hil_attention_options *options, hil_value **y);
/* A convolution of each channel of x (B, T, C) with the positions before, inside each document,
   then SiLU. `kernel` is a HIL_KERNEL of C channels. */
HIL_API hil_status hil_causal_conv(hil_tape *t, hil_value *x, hil_param *kernel, hil_value **y);
/* The same without SiLU. */
HIL_API hil_status hil_causal_conv_plain(hil_tape *t, hil_value *x, hil_param *kernel,
                                         hil_value **y);
/* hil_causal_conv with a bias of each channel, before SiLU; it may be NULL. */
HIL_API hil_status hil_causal_conv_biased(hil_tape *t, hil_value *x, hil_param *kernel,
                                          hil_param *bias, hil_value **y);
typedef struct hil_delta_options {
    size_t size;                /* set by hil_delta_defaults */
    int64_t key_heads, key_dim; /* of q and k */
    hil_param *rate, *bias;     /* of each head of values: HIL_RATE, and a vector */
    double floor; /* of hil_channel_delta: below 0, the least logarithm of a decay; 0: none */
    double write; /* of hil_delta_rule: a factor of how much is written, from 0 to 2; 0: 1 */
} hil_delta_options;
#define hil_delta_defaults(options) hil_delta_defaults_sized(options, sizeof *(options))
HIL_API void hil_delta_defaults_sized(hil_delta_options *options, size_t size);
/* Linear attention by the gated delta rule, inside each document: qkv (B, T, C) holds the heads of
   q, of k, and of v; b and a (B, T, H) how much each of the H heads of v writes and decays; y is
   (B, T, H, D). H is a multiple of key_heads. q and k are normalised. */
HIL_API hil_status hil_delta_rule(hil_tape *t, hil_value *qkv, hil_value *b, hil_value *a,
                                  const hil_delta_options *options, hil_value **y);
/* The same with a decay per channel of the key (Kimi Delta Attention): a is (B, T, H key_dim), the
   bias has as many numbers, and H is key_heads. A GPU takes keys of up to 128 numbers. */
HIL_API hil_status hil_channel_delta(hil_tape *t, hil_value *qkv, hil_value *b, hil_value *a,
                                     const hil_delta_options *options, hil_value **y);
typedef struct hil_state_space_options {
    size_t size;                     /* set by hil_state_space_defaults */
    int64_t groups, states;          /* of B and C: groups, and numbers of each */
    hil_param *rate, *bias, *direct; /* of each head: HIL_RATES, and two vectors */
    double least, most;              /* of steps; most 0: any */
} hil_state_space_options;
HIL_API void hil_state_space_defaults_sized(hil_state_space_options *options, size_t size);
#define hil_state_space_defaults(options) hil_state_space_defaults_sized(options, sizeof *(options))
/* The state space layer of Mamba-2, inside each document: xbc (B, T, C) holds the heads of x, the
   groups of B, and those of C; steps (B, T, H) how far each of the H heads of x goes; y is
   (B, T, H, D). H is a multiple of groups. */
HIL_API hil_status hil_state_space(hil_tape *t, hil_value *xbc, hil_value *steps,
                                   const hil_state_space_options *options, hil_value **y);
typedef enum hil_gelu_kind { HIL_GELU_EXACT, HIL_GELU_APPROXIMATE } hil_gelu_kind;
HIL_API hil_status hil_gelu(hil_tape *t, hil_value *x, hil_gelu_kind kind, hil_value **y);
HIL_API hil_status hil_swiglu(hil_tape *t, hil_value *gate, hil_value *up, hil_value **y);
/* g sigmoid(alpha g) (u + 1), where g is gate, at most limit, and u is up, from -limit to limit. */
HIL_API hil_status hil_swiglu_clamped(hil_tape *t, hil_value *gate, hil_value *up, double alpha,
                                      double limit, hil_value **y);
/* gelu(gate) * up */
HIL_API hil_status hil_geglu(hil_tape *t, hil_value *gate, hil_value *up, hil_gelu_kind kind,
                             hil_value **y);
/* Positive numbers, or their squares; 0 for others. */
HIL_API hil_status hil_relu(hil_tape *t, hil_value *x, hil_value **y);
HIL_API hil_status hil_relu_squared(hil_tape *t, hil_value *x, hil_value **y);
/* a x x + beta x for positive x, else b (exp(min(x, eps)) - 1 - x) + beta x, where a is the
   softplus of `positive`, b that of `negative` plus beta. All are one number; beta and eps are
   HIL_FIXED. */
typedef struct hil_xielu_params {
    hil_param *positive, *negative, *beta, *eps;
} hil_xielu_params;
HIL_API hil_status hil_xielu(hil_tape *t, hil_value *x, const hil_xielu_params *params,
                             hil_value **y);
HIL_API hil_status hil_multiply(hil_tape *t, hil_value *x, hil_value *y, hil_value **product);
/* x (..., C) times the sigmoids of the gates: one for each row (..., 1), or as many as in x. */
HIL_API hil_status hil_sigmoid_gate(hil_tape *t, hil_value *x, hil_value *gates, hil_value **y);
/* The same with softplus, log(1 + exp(gate)). */
HIL_API hil_status hil_softplus_gate(hil_tape *t, hil_value *x, hil_value *gates, hil_value **y);
HIL_API hil_status hil_scale(hil_tape *t, hil_value *x, double factor, hil_value **y);
/* x times a parameter of one number: HIL_FIXED_SCALE, because it gets no gradient. */
HIL_API hil_status hil_scale_fixed(hil_tape *t, hil_value *x, hil_param *factor, hil_value **y);
/* cap * tanh(x / cap) */
HIL_API hil_status hil_softcap(hil_tape *t, hil_value *x, double cap, hil_value **y);
/* Cuts the last dimension into 1 to 4 parts of these sizes. */
HIL_API hil_status hil_split(hil_tape *t, hil_value *x, int parts, const int64_t *sizes,
                             hil_value **y);
/* The columns of 1 to 4 tensors side by side. Where heads differ, (B, T, H, D) and (B, T, 1, D),
   all heads have those of the one. */
HIL_API hil_status hil_join(hil_tape *t, int parts, hil_value *const *x, hil_value **y);
HIL_API hil_status hil_add(hil_tape *t, hil_value *x, hil_value *y, hil_value **sum);
HIL_API hil_status hil_dropout(hil_tape *t, hil_value *x, double rate, hil_value **y);
/* The same elements seen with another shape; -1 at most once. */
HIL_API hil_status hil_reshape(hil_tape *t, hil_value *x, int dims, const int64_t *shape,
                               hil_value **y);
/* An operation of your own, with one to HIL_CUSTOM_INPUTS inputs. */
HIL_API hil_status hil_custom(hil_tape *t, const hil_custom_options *options, int count,
                              hil_value *const *x, hil_value **y);
/* A mixture of experts. Of each position, hil_route chooses `chosen` of the E experts of `logits`
   (B, T, E), by their softmax; hil_dispatch brings x (B, T, C) to the experts, hil_grouped_linear
   multiplies with their weights (the first of hil_model_experts), hil_combine adds up the weighted
   results. All values but `used` are for these functions only. */
typedef struct hil_route_options {
    size_t size; /* set by hil_route_defaults */
    int64_t chosen;
    bool normalized; /* the weights of a position add up to 1 */
    bool sigmoid;    /* by their sigmoids instead */
    /* Only from the `groups_chosen` best of `groups` groups of experts; 0: from all. A group is as
       good as its best expert, or with `pairs` as its best two together. */
    bool pairs;
    int64_t groups, groups_chosen;
    double scale;          /* of the weights; 0: 1 */
    hil_param *correction; /* HIL_FIXED: added where experts are chosen; NULL: nothing is */
    double eps;     /* with `sigmoid`: added to what normalized weights are divided by; 0: 1e-20 */
    bool by_logits; /* experts are compared by their logits, to which `correction` is added */
    int64_t identities; /* so many experts, the last ones, have no weights: hil_expert_identity */
} hil_route_options;
HIL_API void hil_route_defaults_sized(hil_route_options *options, size_t size);
#define hil_route_defaults(options) hil_route_defaults_sized(options, sizeof *(options))
typedef struct hil_routing {
    hil_value *weights, *places, *begins;
    hil_value *used;    /* how much each expert is used, with the layers before; pass it on */
    bool weighed;       /* set by hil_dispatch_weighed */
    int64_t identities; /* of hil_route_options */
} hil_routing;
/* `used` is that of the layers before; NULL: this is the first. */
HIL_API hil_status hil_route(hil_tape *t, hil_value *logits, hil_value *used,
                             const hil_route_options *options, hil_routing *routing);
HIL_API hil_status hil_dispatch(hil_tape *t, hil_value *x, const hil_routing *routing,
                                hil_value **rows);
/* The same, each row times its weight; hil_combine then adds up the results as they are. */
HIL_API hil_status hil_dispatch_weighed(hil_tape *t, hil_value *x, hil_routing *routing,
                                        hil_value **rows);
HIL_API hil_status hil_grouped_linear(hil_tape *t, hil_value *rows, const hil_routing *routing,
                                      hil_param *first, hil_value **y);
/* rows + the bias of each row's expert; `bias` has those of all experts, one after the other. */
HIL_API hil_status hil_expert_bias(hil_tape *t, hil_value *rows, const hil_routing *routing,
                                   hil_param *bias, hil_value **y);
/* Multiplies the weights of `routing` by the factors of their experts; `factors` has one of each.
 */
HIL_API hil_status hil_expert_scale(hil_tape *t, hil_routing *routing, hil_param *factors);
/* What experts give that give what they get: y = x times the sum of each position's weights for
   them. hil_combine adds zeros for them, so that y can be its `residual`. */
HIL_API hil_status hil_expert_identity(hil_tape *t, hil_value *x, const hil_routing *routing,
                                       hil_value **y);
/* residual + the sum; `residual` may be NULL. */
HIL_API hil_status hil_combine(hil_tape *t, hil_value *rows, const hil_routing *routing,
                               hil_value *residual, hil_value **y);
/* Adds the auxiliary loss of `layers` mixtures, times `coefficient`, to the loss of the batch
   (not to that of preferences). */
HIL_API hil_status hil_balance_loss(hil_tape *t, hil_value *used, int64_t layers,
                                    double coefficient);
/* In training, adds the router z-loss of a mixture with these logits, which is one of `layers`,
   times `coefficient` to the loss of the batch (not to that of preferences): the mean over
   predicted tokens and layers of the square of log(sum(exp(logits))). Call it once for each of the
   layers. */
HIL_API hil_status hil_router_z_loss(hil_tape *t, hil_value *logits, int64_t layers,
                                     double coefficient);
/* Projects x (B, T, C) to the vocabulary and adds the cross-entropy of the batch's targets to the
   loss. In generation it computes the logits of the last position instead. */
HIL_API hil_status hil_head_loss(hil_tape *t, hil_value *x, hil_param *weight);
typedef struct hil_head_options {
    size_t size;     /* set by hil_head_defaults */
    hil_param *bias; /* of the logits; NULL: none */
    double cap;      /* logits become cap * tanh(logit / cap); 0: as they are */
} hil_head_options;
HIL_API void hil_head_defaults_sized(hil_head_options *options, size_t size);
#define hil_head_defaults(options) hil_head_defaults_sized(options, sizeof *(options))
HIL_API hil_status hil_head_loss_with(hil_tape *t, hil_value *x, hil_param *weight,
                                      const hil_head_options *options);

#ifdef __cplusplus
}
#endif
#endif
