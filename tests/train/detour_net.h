/* detour_net.h - a small model whose blocks can be skipped, run twice, or borrow weights. */
#ifndef TESTS_TRAIN_DETOUR_NET_H
#define TESTS_TRAIN_DETOUR_NET_H

#include "../embed.h"
#include "../run/job.h"
#include "store/param.h"

enum { V = 64, C = 32, F = 96, BLOCKS = 4, SEQ = 16 };

typedef struct layer {
    const struct layer *other; /* two blocks away: whose weights it may borrow */
    int number;
    hil_param *norm, *up, *down;
} layer;

typedef struct net {
    hil_param *table, *last;
    layer block[BLOCKS];
} net;

static inline hil_status pass(hil_tape *t, const layer *l, hil_value *x, hil_value **y)
{
    hil_value *h;
    HIL_TRY(hil_rmsnorm(t, x, l->norm, 1e-5, &h));
    HIL_TRY(hil_linear(t, h, l->up, NULL, &h));
    HIL_TRY(hil_gelu(t, h, HIL_GELU_EXACT, &h));
    HIL_TRY(hil_linear(t, h, l->down, NULL, &h));
    return hil_add(t, x, h, y);
}

static inline hil_status head(hil_tape *t, void *state, const hil_values *in, hil_values *out)
{
    const net *n = state;
    (void)out;
    hil_value *x;
    HIL_TRY(hil_values_get(in, "x", &x));
    HIL_TRY(hil_rmsnorm(t, x, n->last, 1e-5, &x));
    return hil_head_loss(t, x, n->table);
}

/* `declare`: blocks declare the weights that they borrow from an earlier block. */
static inline void build(hil_model *m, net *n, hil_segment_fn *block, bool declare)
{
    static const hil_param_form scale = {HIL_SCALE, 1, C, 0};
    char name[32];
    CHECK_OK(hil_model_param(m, "table", &(hil_param_form){HIL_MATRIX, V, C, 0.2}, &n->table));
    CHECK_OK(hil_model_segment(m, "embedding", embed, n->table));
    for (int i = 0; i < BLOCKS; ++i) {
        layer *l = &n->block[i];
        *l = (layer){.other = &n->block[(i + 2) % BLOCKS], .number = i};
        snprintf(name, sizeof name, "%d.norm", i);
        CHECK_OK(hil_model_param(m, name, &scale, &l->norm));
        snprintf(name, sizeof name, "%d.up", i);
        CHECK_OK(hil_model_param(m, name, &(hil_param_form){HIL_MATRIX, F, C, 0.2}, &l->up));
        snprintf(name, sizeof name, "%d.down", i);
        CHECK_OK(hil_model_param(m, name, &(hil_param_form){HIL_MATRIX, C, F, 0.2}, &l->down));
        snprintf(name, sizeof name, "block %d", i);
        CHECK_OK(hil_model_segment(m, name, block, l));
        if (i < 2 || !declare) continue;
        CHECK_OK(hil_model_use(m, l->other->norm));
        CHECK_OK(hil_model_use(m, l->other->up));
        CHECK_OK(hil_model_use(m, l->other->down));
    }
    CHECK_OK(hil_model_param(m, "last", &scale, &n->last));
    CHECK_OK(hil_model_segment(m, "head", head, n));
}

static inline void fill(int32_t *tokens, int count, int step)
{
    for (int i = 0; i < count; ++i) {
        unsigned mixed = (unsigned)(step * 977 + i * 131 + i / SEQ * 17) * 2654435761u;
        tokens[i] = (int32_t)(mixed >> 20) % V;
    }
}

#endif
