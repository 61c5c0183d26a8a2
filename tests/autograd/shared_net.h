/* shared_net.h - a model with a block used twice, a tied table, a value read by a later segment, a
   value that only passes through, and one that its own segment reads again in backward. */
#ifndef HIL_TESTS_SHARED_NET_H
#define HIL_TESTS_SHARED_NET_H

#include "autograd/model.h"
#include "check.h"
#include "store/param.h"

enum { V = 11, C = 8 };

typedef struct net {
    hil_param *table, *inner, *norm;
} net;

static hil_status embed(hil_tape *t, void *layer, const hil_values *in, hil_values *out)
{
    const net *n = layer;
    (void)in;
    hil_value *x;
    HIL_TRY(hil_embedding(t, hil_batch_tokens(t), n->table, &x));
    HIL_TRY(hil_values_set(out, "copy", x));
    return hil_values_set(out, "x", x);
}

static hil_status block(hil_tape *t, void *layer, const hil_values *in, hil_values *out)
{
    const net *n = layer;
    hil_value *x, *h, *copy;
    HIL_TRY(hil_values_get(in, "x", &x));
    HIL_TRY(hil_values_get(in, "copy", &copy));
    for (int twice = 0; twice < 2; ++twice) {
        HIL_TRY(hil_linear(t, x, n->inner, NULL, &h));
        HIL_TRY(hil_values_set(out, "inside", h));
        HIL_TRY(hil_gelu(t, h, HIL_GELU_EXACT, &h));
        HIL_TRY(hil_add(t, x, h, &x));
    }
    HIL_TRY(hil_linear_add(t, h, n->inner, NULL, x, &x));
    HIL_TRY(hil_values_set(out, "copy", copy));
    return hil_values_set(out, "x", x);
}

static hil_status head(hil_tape *t, void *layer, const hil_values *in, hil_values *out)
{
    const net *n = layer;
    (void)out;
    hil_value *x, *copy, *start, *inside;
    HIL_TRY(hil_values_get(in, "x", &x));
    HIL_TRY(hil_values_get(in, "copy", &copy));
    HIL_TRY(hil_values_get(in, "inside", &inside));
    HIL_TRY(hil_earlier(t, "embedding", "x", &start));
    HIL_TRY(hil_add(t, x, copy, &x));
    HIL_TRY(hil_add(t, x, inside, &x));
    HIL_TRY(hil_earlier(t, "first", "inside", &inside));
    HIL_TRY(hil_gelu(t, inside, HIL_GELU_EXACT, &inside));
    HIL_TRY(hil_add(t, x, inside, &x));
    HIL_TRY(hil_add(t, x, start, &x));
    HIL_TRY(
        hil_linear_add(t, x, n->inner, NULL, x, &x)); /* the residual is the product's own input */
    HIL_TRY(hil_rmsnorm(t, x, n->norm, 1e-5, &x));
    return hil_head_loss(t, x, n->table);
}

static void shared_net_build(hil_model **model)
{
    static net n;
    CHECK_OK(hil_model_create(model));
    CHECK_OK(hil_model_param(*model, "table", &(hil_param_form){HIL_MATRIX, V, C, 0.5}, &n.table));
    CHECK_OK(hil_model_param(*model, "inner", &(hil_param_form){HIL_MATRIX, C, C, 0.5}, &n.inner));
    CHECK_OK(hil_model_param(*model, "norm", &(hil_param_form){HIL_SCALE, 1, C, 0}, &n.norm));
    CHECK_OK(hil_model_segment(*model, "embedding", embed, &n));
    CHECK_OK(hil_model_segment(*model, "first", block, &n));
    CHECK_OK(hil_model_segment(*model, "second", block, &n));
    CHECK_OK(hil_model_segment(*model, "head", head, &n));
}

#endif
