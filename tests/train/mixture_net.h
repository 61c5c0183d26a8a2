/* mixture_net.h - a small model whose blocks have two mixtures of experts each. */
#ifndef TESTS_TRAIN_MIXTURE_NET_H
#define TESTS_TRAIN_MIXTURE_NET_H

#include "../embed.h"
#include "../run/job.h"
#include "store/param.h"

#include <hilbert/nn.h>

enum { V = 64, C = 32, EXPERTS = 16, BLOCKS = 2, SEQ = 4 };

typedef struct mixture {
    hil_param *router, *experts;
} mixture;

typedef struct layer {
    const struct layer *other;
    int number;
    mixture a, b;
    hil_param *third, *final; /* experts of a and of b */
} layer;

typedef struct net {
    hil_param *table;
    layer block[BLOCKS];
} net;

/* x + what the experts that its positions choose make of it. */
static inline hil_status mix(hil_tape *t, const mixture *m, hil_value **x)
{
    hil_value *logits, *rows;
    hil_route_options options;
    hil_routing routing;
    hil_route_defaults(&options);
    options.chosen = 1;
    HIL_TRY(hil_linear(t, *x, m->router, NULL, &logits));
    HIL_TRY(hil_route(t, logits, NULL, &options, &routing));
    HIL_TRY(hil_dispatch(t, *x, &routing, &rows));
    HIL_TRY(hil_grouped_linear(t, rows, &routing, m->experts, &rows));
    HIL_TRY(hil_gelu(t, rows, HIL_GELU_EXACT, &rows));
    return hil_combine(t, rows, &routing, *x, x);
}

static inline hil_status head(hil_tape *t, void *table, const hil_values *in, hil_values *out)
{
    (void)out;
    hil_value *x;
    HIL_TRY(hil_values_get(in, "x", &x));
    return hil_head_loss(t, x, table);
}

static inline void add_mixture(hil_model *m, int block, const char *name, mixture *out)
{
    char text[64];
    snprintf(text, sizeof text, "%d.%s.router", block, name);
    CHECK_OK(
        hil_model_param(m, text, &(hil_param_form){HIL_ROUTER, EXPERTS, C, 0.5}, &out->router));
    snprintf(text, sizeof text, "%d.%s.*.up", block, name);
    CHECK_OK(hil_model_experts(m, text, &(hil_param_form){HIL_MATRIX, C, C, 0.2}, EXPERTS,
                               &out->experts));
}

static inline hil_param *expert_of(const hil_model *m, const mixture *of, size_t number)
{
    return hil_store_at(m->store, hil_param_index(of->experts) + number);
}

/* The segment appended last may use the mixture. */
static inline void use_mixture(hil_model *m, const mixture *other)
{
    CHECK_OK(hil_model_use(m, other->router));
    for (size_t e = 0; e < EXPERTS; ++e) CHECK_OK(hil_model_use(m, expert_of(m, other, e)));
}

static inline void add_layer(hil_model *m, int number, layer *out)
{
    out->number = number;
    add_mixture(m, number, "a", &out->a);
    add_mixture(m, number, "b", &out->b);
    out->third = expert_of(m, &out->a, 3);
    out->final = expert_of(m, &out->b, EXPERTS - 1);
}

/* The experts are the last parameters. `declare`: blocks declare the mixture that they borrow. */
static inline void build(hil_model *m, net *n, hil_segment_fn *block, bool declare)
{
    char name[32];
    CHECK_OK(hil_model_param(m, "table", &(hil_param_form){HIL_MATRIX, V, C, 0.2}, &n->table));
    for (int i = 0; i < BLOCKS; ++i) add_layer(m, i, &n->block[i]);
    CHECK_OK(hil_model_segment(m, "embedding", embed, n->table));
    for (int i = 0; i < BLOCKS; ++i) {
        n->block[i].other = &n->block[(i + 1) % BLOCKS];
        snprintf(name, sizeof name, "block %d", i);
        CHECK_OK(hil_model_segment(m, name, block, &n->block[i]));
        if (declare) use_mixture(m, &n->block[i].other->a);
    }
    CHECK_OK(hil_model_segment(m, "head", head, n->table));
}

static inline void fill(int32_t *tokens, int count, int step)
{
    for (int i = 0; i < count; ++i) {
        unsigned mixed = (unsigned)(step * 977 + i * 131 + i / SEQ * 17) * 2654435761u;
        tokens[i] = (int32_t)(mixed >> 20) % V;
    }
}

#endif
