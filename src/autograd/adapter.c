/* adapter.c - linear layers, with the adapter of their weight: [Note: adapters] in model.h. */
#include "autograd/tape.h"

/* A linear layer as a model asks for it; `bias` and `residual` may be NULL. */
typedef struct layer {
    hil_value *x;
    hil_param *weight, *bias;
    hil_value *residual;
} layer;

static hil_status product(hil_tape *t, const layer *l, hil_value **y)
{
    return hil_tape_apply(t,
                          &(hil_apply){&hil_op_linear,
                                       NULL,
                                       l->residual ? 2 : 1,
                                       1,
                                       l->bias ? 2 : 1,
                                       {l->x, l->residual},
                                       {l->weight, l->bias}},
                          y);
}

/* *y = base + scale * dropout(x) A' B'. Nothing else reads `base`. */
static hil_status add_low_rank(hil_tape *t, const hil_adapter *a, hil_value *x, hil_value *base,
                               hil_value **y)
{
    hil_scale_attr scale = {a->scale};
    hil_value *h;
    HIL_TRY(hil_dropout(t, x, a->dropout, &h));
    HIL_TRY(product(t, &(layer){.x = h, .weight = a->a}, &h));
    h->brief = true;
    HIL_TRY(hil_tape_apply(t, &(hil_apply){&hil_op_scale, &scale, 1, 1, 0, {h}, {NULL}}, &h));
    base->brief = true;
    return product(t, &(layer){.x = h, .weight = a->b, .residual = base}, y);
}

static hil_status linear(hil_tape *t, const layer *l, hil_value **y)
{
    const hil_context *c = t->context;
    const hil_adapter *a = c->without_adapter ? NULL : hil_model_adapter(c->model, l->weight);
    HIL_TRY(product(t, l, y));
    return a ? add_low_rank(t, a, l->x, *y, y) : HIL_OK;
}

hil_status hil_linear(hil_tape *t, hil_value *x, hil_param *weight, hil_param *bias, hil_value **y)
{
    return linear(t, &(layer){x, weight, bias, NULL}, y);
}

hil_status hil_linear_add(hil_tape *t, hil_value *x, hil_param *weight, hil_param *bias,
                          hil_value *residual, hil_value **y)
{
    return linear(t, &(layer){x, weight, bias, residual}, y);
}
