/* ops.h - the operations. (B, T) are the batch's sequences and positions; C, H, D as usual. */
#ifndef HIL_OPS_OPS_H
#define HIL_OPS_OPS_H

#include "hilbert/custom.h"
#include "hilbert/preference.h"

#include "ops/op.h"

/* in: ids (B, T) int32; param 0: table (V, C); out: (B, T, C), the rows ids + shift. The row `pad`
   of the table gets no gradient. */
typedef struct hil_embedding_attr {
    int64_t pad; /* -1: none */
    int64_t shift;
} hil_embedding_attr;
extern const hil_op hil_op_embedding;

/* in: x (..., K), optional residual (..., N); param 0: weight (N, K), param 1 (optional): bias (N);
   out: (..., N), with the residual added before it is rounded. */
extern const hil_op hil_op_linear;

/* in: x (..., K); params: matrices A_i (R_i, K), up to HIL_OP_PARAMS; out i: scale_i x A_i', (...,
   R_i), rounded once. x is read once for all of them. */
typedef struct hil_low_rank_attr {
    double scale[HIL_OP_PARAMS];
} hil_low_rank_attr;
extern const hil_op hil_op_low_rank;

/* in: gate and up (..., N), which nothing else reads, p (..., R0), q (..., R1); params: B of the
   gate (N, R0), B of up (N, R1), A of what follows (R2, N); out: y = silu(gate + p B') * (up + q
   B'), (..., N), rounded once, and scale * y A', (..., R2). */
typedef struct hil_gated_attr {
    double scale;
} hil_gated_attr;
extern const hil_op hil_op_gated;
/* Whether that is worth it, for these sizes of N and of R: else swiglu and products with each of
   the matrices are. */
bool hil_gated_suits(hil_dtype compute, int64_t rows, int64_t n, const int64_t rank[3]);

/* in: x (..., C); params: weight (C), optional bias (C), or none; out: (..., C); saved: mean and
   1/std per row. */
typedef struct hil_norm_attr {
    double eps;
    double offset; /* added to the weight: 1 where files hold the weight minus 1 */
} hil_norm_attr;
extern const hil_op hil_op_layernorm;
/* in: x (..., C); param 0 (optional): weight (C); also per head: x (B, T, H, D), weight (D). */
extern const hil_op hil_op_rmsnorm;
/* LayerNorm in which each head has weights of its own. in: x (..., H, D); param 0: weight, (H, D)
   or one vector of them all; out: (..., H, D). */
extern const hil_op hil_op_head_norm;
/* The same as RMSNorm. */
extern const hil_op hil_op_head_rmsnorm;

/* in: x (B, T, H, D), positions (B, T) int32; out: the same shape. Numbers i and i + dims/2 of each
   head turn together, or 2i and 2i + 1; those from `dims` on stay as they are, and so do the
   `first` numbers of a head, which are before them. `frequency` has dims/2 numbers (after any
   scaling); borrowed until the kernel has run. */
typedef struct hil_rope_attr {
    const float *frequency;
    int64_t dims;     /* 0: D - first */
    bool interleaved; /* 2i and 2i + 1 */
    double factor;    /* of sine and cosine; 0: 1 */
    int64_t first;    /* an even number on a GPU */
    /* Position p is multiplied by 1 + growth log(1 + p / growth_from), the quotient rounded down,
       where all numbers of heads turn; growth 0: none is. */
    double growth;
    int64_t growth_from, growth_shift; /* the latter is added to p */
} hil_rope_attr;
extern const hil_op hil_op_rope;

/* in: q (B, T, H, D), k and v (B, T, KV, D), first (B, T) int32; or packed (B, T, 3 H, D), which
   holds the heads of q, of k and of v, and first; param 0 (optional): sinks (H), the score of one
   more key for each head, whose value is 0; out: (B, T, H, D); saved: lse (B, H, T). Query t
   sees keys first[t]..t, and only the last `window` of them when window > 0, and with chunk > 0
   only those of its own chunk: of so many keys, counted from first[t]. */
typedef struct hil_attention_attr {
    double scale;
    int64_t window;
    double dropout; /* of the probabilities */
    double cap;     /* scores become cap * tanh(score / cap); 0: as they are */
    int64_t chunk;
} hil_attention_attr;
extern const hil_op hil_op_attention;

/* The same against a cache that this call extends (generation; no backward; no `first`): k and v of
   the T new positions go to rows [length, length + T) of the cache, queries see up to themselves.
 */
typedef struct hil_cached_attr {
    double scale;
    int64_t window;
    void *k, *v; /* (B, capacity, KV, D) in the compute dtype */
    int64_t capacity, length;
    double cap;
    int64_t chunk;
} hil_cached_attr;
extern const hil_op hil_op_attention_cached;

/* in: x (B, T, C), first (B, T) int32; param 0: for each channel its `size` factors, one vector;
   param 1: a bias of each channel, if there is one; out: silu(y) (B, T, C), where y at t is the
   bias plus the sum of x at t - size + 1 ... t times these factors, without what is before
   first[t]. */
typedef struct hil_conv_attr {
    int64_t size;
    /* Generation: the last size - 1 rows of x, (B, size - 1, C) in the compute dtype, before this
       call and after it. */
    const void *past;
    void *next;
    int64_t length; /* positions before this call; 0: `past` is not read */
} hil_conv_attr;
extern const hil_op hil_op_causal_conv;
/* The same after positions of an earlier call, without `first`; no backward. */
extern const hil_op hil_op_causal_conv_cached;
/* Both without SiLU: out is y. */
extern const hil_op hil_op_causal_conv_plain, hil_op_causal_conv_plain_cached;

/* [Note: gated delta rule] Linear attention: each of the H heads of values has a state S (D, V) in
   fp32 instead of a cache. At every position
       S = exp(g) S,  S += k (beta (v - S'k))',  y = S'q
   where q and k are divided by their lengths, q also by sqrt(D), beta is the sigmoid of b, times
   `write`, and g is -exp(A) softplus(a + bias). S is 0 where a document begins, at first[t] = t.

   in: qkv (B, T, 2 K D + H V), the K heads of q, of k, the H heads of v, of which H / K in a row
   share those of q and k; b (B, T, H), a (B, T, H), first (B, T) int32; params: A (H), bias (H);
   out: (B, T, H, V); saved, if backward follows: S before every HIL_DELTA_CHUNK-th position,
   (B, H, chunks, D V) fp32, from which backward computes what is between. */
#define HIL_DELTA_CHUNK 128
typedef struct hil_delta_attr {
    int64_t key_heads, key_dim; /* K, D */
    /* Generation: S (B, H, D, V) fp32, before this call and after it. */
    const void *state;
    void *next;
    int64_t length; /* positions before this call; 0: S is 0 */
    double write;   /* of the gated delta rule: a factor of beta; 0: 1 */
} hil_delta_attr;
extern const hil_op hil_op_delta_rule;
/* The same after positions of an earlier call, without `first`; no backward. */
extern const hil_op hil_op_delta_rule_cached;

/* The same with a decay per channel (Kimi Delta Attention): exp(g) is a vector, with a number for
   each of the D rows of S, so a is (B, T, H D), the bias (H D), and K is H. With a
   `floor` below 0 g is floor sigmoid(exp(A) (a + bias)) instead. */
typedef struct hil_channel_delta_attr {
    hil_delta_attr rule;
    double floor; /* 0: none */
} hil_channel_delta_attr;
extern const hil_op hil_op_channel_delta, hil_op_channel_delta_cached;

/* [Note: state space] The state space layer of Mamba-2, which is the recurrence of the gated delta
   rule without its correction: each of the H heads of x has a state S (N, P) in fp32. At every
   position
       S = exp(-exp(A) dt) S,  S += B (dt x)',  y = S'C + D x
   where dt is softplus(t + bias), but at least `least` and at most `most`. S is 0 where a document
   begins.

   in: xbc (B, T, H P + 2 G N), the H heads of x, the G groups of B, of C, of which H / G heads in a
   row share one; t (B, T, H), first (B, T) int32; params: A, bias and D (H); out: (B, T, H, P);
   saved: as above. */
typedef struct hil_state_space_attr {
    hil_delta_attr rule; /* key_heads G, key_dim N */
    double least, most;
} hil_state_space_attr;
extern const hil_op hil_op_state_space;
/* The same after positions of an earlier call, without `first`; no backward. */
extern const hil_op hil_op_state_space_cached;

/* in: x; out: the same shape. */
typedef struct hil_gelu_attr {
    bool tanh; /* the tanh approximation, or erf */
} hil_gelu_attr;
extern const hil_op hil_op_gelu;

/* in: gate, up; out: silu(gate) * up. */
extern const hil_op hil_op_swiglu;
/* in: gate, up; out: g sigmoid(alpha g) (u + 1), where g is gate, at most limit, and u is up, from
   -limit to limit. */
typedef struct hil_swiglu_clamped_attr {
    double alpha, limit;
} hil_swiglu_clamped_attr;
extern const hil_op hil_op_swiglu_clamped;
/* in: gate, up; attr: hil_gelu_attr; out: gelu(gate) * up. */
extern const hil_op hil_op_geglu;

/* in: x; out: positive numbers, or their squares; 0 for others. */
extern const hil_op hil_op_relu, hil_op_relu_squared;
/* in: x; params: p, n, beta and eps, one number each, the last two not trained; out: a x x + beta x
   for positive x, else b (exp(min(x, eps)) - 1 - x) + beta x, where a is the softplus of p, and b
   that of n plus beta. */
extern const hil_op hil_op_xielu;

/* in: x; out: cap * tanh(x / cap). */
typedef struct hil_softcap_attr {
    double cap;
} hil_softcap_attr;
extern const hil_op hil_op_softcap;

/* in: x, y; out: x * y. */
extern const hil_op hil_op_multiply;

/* in: x (..., C), gates (..., 1) or (..., C); out: x times the sigmoids of the gates, of which one
   is for a whole row, or for each number. */
extern const hil_op hil_op_sigmoid_gate;
/* The same with softplus, log(1 + exp(gate)). */
extern const hil_op hil_op_softplus_gate;

/* in: x (..., N); out: `parts` tensors (..., size[i]), the columns of x in order. */
typedef struct hil_split_attr {
    int parts;
    int64_t size[HIL_OP_TENSORS];
} hil_split_attr;
extern const hil_op hil_op_split;

/* in: one to four tensors (..., H, size) or (..., 1, size), the latter for all H; out: (..., H,
   cols), their columns side by side, then zeros. */
typedef struct hil_join_attr {
    int64_t cols; /* 0: those of the inputs */
} hil_join_attr;
extern const hil_op hil_op_join;

/* in: x, y; out: x + y. */
extern const hil_op hil_op_add;

/* params: W (N, K), A (R, K), B (N, R); out: the norms of the rows of W + scale B A, (N) fp32, for
   which there is no gradient. */
typedef struct hil_weight_norm_attr {
    double scale;
} hil_weight_norm_attr;
extern const hil_op hil_op_weight_norm;

/* in: z (..., N), norms (N), optional residual (..., N); param 0: magnitudes (N), param 1
   (optional): bias (N); out: z * magnitude / norm + bias + residual, rounded once. No gradient of
   the norms. */
extern const hil_op hil_op_magnitude;

/* in: x; param 0 (optional): one more factor, which is not trained; out: x * factor. */
typedef struct hil_scale_attr {
    double factor;
} hil_scale_attr;
extern const hil_op hil_op_scale;

/* in: x; out: x with a fraction `rate` of the elements zeroed, the rest scaled by 1 / (1 - rate).
 */
typedef struct hil_dropout_attr {
    double rate;
} hil_dropout_attr;
extern const hil_op hil_op_dropout;

/* in: x (B, T, C), targets (B, T) int32 (-1: no loss), optional weights (B, T) fp32: the gradient
   of each loss, instead of loss_scale; param 0: weight (V, C), param 1 (optional): bias (V); out:
   loss per position (B, T) fp32, 0 where there is none. With call->differentiate the forward also
   computes the gradient of x times loss_scale (saved) and adds the weight's gradient, chunk by
   chunk, so that logits exist for one chunk only; backward returns the saved gradient. */
typedef struct hil_head_attr {
    bool weighted; /* saved without loss_scale; backward multiplies it by the gradient of each loss,
                      and the weight must be frozen */
    double cap;    /* logits become cap * tanh(logit / cap); 0: as they are */
    bool prompts;  /* a target of -2 - t stands for t: [Note: prompts] */
} hil_head_attr;
extern const hil_op hil_op_head;

/* [Note: prompts] Where the cross-entropy of a chosen answer includes its prompt (orpo), targets of
   the prompt's tokens t are -2 - t: they have a loss, but do not belong to the answer. */
static inline HIL_BOTH int32_t hil_targets_id(int32_t target, bool prompts)
{
    return prompts && target < -1 ? -2 - target : target;
}

/* The loss of pairs of answers. in: loss per position (B, T) fp32, that of the reference model
   (anything where there is none), first (B, T) int32, targets (B, T) int32. Documents 2k and 2k + 1
   of a sequence are a pair, its chosen and its rejected answer; a document begins where first[t] is
   t, and a pair without targets does not count. out: (HIL_PREFERENCES, B, T) fp32, one number of
   each pair at the place where its rejected answer begins, 0 elsewhere; and (B, T) fp32, loss_scale
   times the gradient of the sum of all losses by the loss of each position, which backward returns,
   whatever arrives for out. */
typedef struct hil_preference_attr {
    hil_preference_loss loss;
    double token_weight; /* of the cross-entropy of a token, in the sum of the losses */
    double kl;           /* of kto */
} hil_preference_attr;
typedef enum hil_preference_number {
    HIL_PREFERENCE_LOSS, /* without cross-entropy */
    HIL_PREFERENCE_REWARD_CHOSEN,
    HIL_PREFERENCE_REWARD_REJECTED,
    HIL_PREFERENCE_ACCURATE,      /* 1: the reward of the chosen one is higher; 0: not */
    HIL_PREFERENCE_LOGP_CHOSEN,   /* log probability of the answer; with simpo and orpo the mean */
    HIL_PREFERENCE_LOGP_REJECTED, /* of its tokens */
    HIL_PREFERENCE_PAIRS,         /* 1; with kto the number of answers that have a target */
    HIL_PREFERENCE_CHOSEN,        /* 1; with kto whether that answer has a target */
    HIL_PREFERENCE_REJECTED,
    HIL_PREFERENCE_KL,  /* of kto, of each answer */
    HIL_PREFERENCE_NLL, /* cross-entropy of the chosen answer, summed over its tokens */
    HIL_PREFERENCE_NLL_TOKENS,
    HIL_PREFERENCE_LOG_ODDS_RATIO,
    HIL_PREFERENCE_LOG_ODDS,
    HIL_PREFERENCES,
    HIL_LOSS_AUXILIARY = HIL_PREFERENCE_REWARD_CHOSEN, /* with cross-entropy: that of mixtures */
    HIL_LOSS_ROUTER_Z                                  /* likewise, see hil_op_router_z */
} hil_preference_number;
extern const hil_op hil_op_preference;

/* Whether there is a reference. */
static inline HIL_BOTH bool hil_reference_wanted(hil_preference_kind kind)
{
    return kind >= HIL_PREFER_DPO && kind <= HIL_PREFER_KTO;
}
/* Whether the reference is a model that runs beside the one that is trained. */
static inline bool hil_reference_runs(const hil_preference_loss *loss)
{
    return hil_reference_wanted(loss->kind) && !loss->precomputed;
}

/* in: x (N, K), fp32 or bf16; out: 0.2 sqrt(max(N, K)) times the orthogonal matrix nearest to it,
   of the same dtype and shape. No gradient: an update rule computes with it.
   See [Note: Newton-Schulz]. */
extern const hil_op hil_op_orthogonal;

/* in: one to three tensors; out: what hil_custom_options.forward makes of them, of the shape of the
   first. */
typedef struct hil_custom_attr {
    void *context;
    void (*forward)(void *context, const hil_custom_tensor *x, const hil_custom_tensor *y);
    void (*backward)(void *context, const hil_custom_tensor *x, const hil_custom_tensor *dy,
                     const hil_custom_tensor *dx);
    double passes;
} hil_custom_attr;
extern const hil_op hil_op_custom;

/* [Note: mixture of experts] Each of the rows (tokens) chooses K of E experts. route sorts all
   choices by expert, dispatch copies each token's row to the places of its choices, so that the
   rows of one expert lie together, grouped_linear computes with them, combine brings the results
   back. Shapes depend on the number of tokens only, not on what they chose.

   in: logits (..., E), optional: how much the experts were used in the layers before (2, E) fp32;
   param 0 (optional): a bias (E) that is added to the probabilities where experts are chosen, and
   nowhere else; it gets no gradient;
   out: weights (..., K) fp32, places (rows * K) int32, where the choices of
   expert e lie (E + 1) int32: from element e up to element e + 1, and how much the experts are used
   (2, E) fp32: choices and sums of probabilities, with those of the layers before. */
#define HIL_ROUTE_CHOSEN 64 /* K at most */
#define HIL_ROUTE_GROUPS 64 /* at most */
typedef struct hil_route_attr {
    int64_t chosen;  /* K, the largest probabilities; of equal ones those of lower experts */
    bool normalized; /* the weights are divided by their sum */
    bool sigmoid;    /* probabilities are the sigmoids of logits, not their softmax */
    /* Only experts of the `groups_chosen` best of `groups` groups are chosen; 0: of all. A group is
       as good as its best expert, or as the sum of the best two. */
    int64_t groups, groups_chosen;
    bool pairs;
    double scale;   /* of the weights; 0: 1 */
    double eps;     /* with `sigmoid`: added to that sum; 0: 1e-20 */
    bool by_logits; /* experts are compared by logits, not by probabilities */
} hil_route_attr;
extern const hil_op hil_op_route;
/* in: x (..., C), places, optional: weights (..., K), by which the copies are multiplied; out:
   (rows * K, C). */
extern const hil_op hil_op_dispatch;
/* in: x (rows * K, C), where the choices of each expert lie; param 0: the weight (N, C) of each
   expert; out: (rows * K, N). Choices of experts after those that have weights give zeros. */
typedef struct hil_grouped_attr {
    int64_t experts; /* their tiles are numbered one expert after the other */
} hil_grouped_attr;
extern const hil_op hil_op_grouped_linear;
/* in: x (rows * K, C), where the choices of each expert lie; param 0: the biases (C) of all
   experts, one after the other; out: x + bias. */
extern const hil_op hil_op_expert_bias;
/* in: weights (..., K), places, and where the choices of each expert lie (E + 1); param 0: a factor
   (E) of each expert; out: the weights times the factors of their experts. */
extern const hil_op hil_op_expert_scale;
/* in: x (..., C), weights (..., K), places, and where the choices of each expert lie; out: x times
   the sum of the weights of those experts that give what they get. */
typedef struct hil_identity_attr {
    int64_t first; /* of these experts, which are the last ones */
} hil_identity_attr;
extern const hil_op hil_op_expert_identity;
/* in: results (rows * K, N), weights (..., K), places, optional residual (..., N); out:
   (..., N). The places in the shape of weights stand for weights of 1. */
extern const hil_op hil_op_combine;

/* in: how much the experts are used (2, E) fp32, summed over all layers, targets (B, T) int32; out:
   (2) fp32, the loss times `coefficient` and the loss, both times the number of targets. Backward
   makes its own gradient, as that of the head. */
typedef struct hil_balance_attr {
    double coefficient;
    int64_t rows; /* tokens times layers */
} hil_balance_attr;
extern const hil_op hil_op_balance;

/* in: the logits (..., E) of a router, targets (B, T) int32; out: (2) fp32, the loss times
   `coefficient` and the loss, both times the number of targets. The loss is the mean, over tokens
   that have a target, of the squared logarithm of a token's sum of exponentials, divided by
   `layers`. Backward makes its own gradient, as that of the head. */
typedef struct hil_router_z_attr {
    double coefficient;
    int64_t layers;
} hil_router_z_attr;
extern const hil_op hil_op_router_z;

#endif
