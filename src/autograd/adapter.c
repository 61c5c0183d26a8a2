/* adapter.c - linear layers, with the adapter of their weight: [Note: adapters] in model.h. */
#include "autograd/adapter.h"

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

/* *y = base + scale * x A' B'. */
static hil_status low_rank(hil_tape *t, const hil_adapter *a, hil_value *x, hil_value *base,
                           hil_value **y)
{
    hil_low_rank_attr attr = {{a->scale}};
    hil_value *h;
    HIL_TRY(hil_tape_apply(t, &(hil_apply){&hil_op_low_rank, &attr, 1, 1, 1, {x}, {a->a}}, &h));
    return product(t, &(layer){.x = h, .weight = a->b, .residual = base}, y);
}

/* The norms of the rows of W + scale B A, for which there is no gradient. */
static hil_status compute_norms(hil_tape *t, const hil_adapter *a, hil_param *weight,
                                hil_value **norms)
{
    hil_weight_norm_attr attr = {a->scale};
    HIL_TRY(hil_tape_apply(
        t, &(hil_apply){&hil_op_weight_norm, &attr, 0, 1, 3, {NULL}, {weight, a->a, a->b}}, norms));
    (*norms)->wants = false;
    return HIL_OK;
}

/* Weights do not change while text is generated: the first pass computes the norms for all. */
static hil_status weight_norms(hil_tape *t, const hil_adapter *a, hil_param *weight,
                               hil_value **norms)
{
    hil_context *c = t->context;
    hil_kv_cache *cache = c->cache;
    if (c->mode != HIL_MODE_GENERATE) return compute_norms(t, a, weight, norms);
    size_t slot = cache->next_norm++;
    HIL_TRY(hil_tape_check_slot(cache, slot, "matrices with DoRA: merge the adapter first"));
    hil_tensor kept = {HIL_F32, {1, {hil_param_spec_of(weight)->shape.dim[0]}}, NULL};
    if (slot < cache->norms) {
        kept.data = cache->norm[slot];
        return hil_tape_borrow(t, &kept, false, norms);
    }
    HIL_TRY(compute_norms(t, a, weight, norms));
    HIL_TRY(hil_buffers_take(c->buffers, hil_tensor_bytes(&kept), &cache->norm[slot]));
    ++cache->norms;
    kept.data = cache->norm[slot];
    return hil_op_convert(c->device, c->pool, &kept, &(*norms)->tensor, false);
}

/* *y = z * magnitude / norms + bias + residual. */
static hil_status apply_magnitude(hil_tape *t, const layer *l, const hil_adapter *a, hil_value *z,
                                  hil_value **y)
{
    hil_value *norms;
    HIL_TRY(weight_norms(t, a, l->weight, &norms));
    return hil_tape_apply(t,
                          &(hil_apply){&hil_op_magnitude,
                                       NULL,
                                       l->residual ? 3 : 2,
                                       1,
                                       l->bias ? 2 : 1,
                                       {z, norms, l->residual},
                                       {a->magnitude, l->bias}},
                          y);
}

static bool drops(const hil_tape *t, const hil_adapter *a)
{
    return a->dropout > 0 && t->context->training;
}

/* As PEFT computes it with dropout: the layer as it is, plus what the adapter changes in the
   product of the input with dropout. */
static hil_status dora_with_dropout(hil_tape *t, const layer *l, const hil_adapter *a,
                                    hil_value **y)
{
    hil_scale_attr minus = {-1};
    hil_value *base, *x, *plain, *z, *changed;
    HIL_TRY(product(t, l, &base));
    HIL_TRY(hil_dropout(t, l->x, a->dropout, &x));
    HIL_TRY(product(t, &(layer){.x = x, .weight = l->weight}, &plain));
    HIL_TRY(low_rank(t, a, x, plain, &z));
    HIL_TRY(apply_magnitude(t, &(layer){.weight = l->weight, .residual = base}, a, z, &changed));
    HIL_TRY(
        hil_tape_apply(t, &(hil_apply){&hil_op_scale, &minus, 1, 1, 0, {plain}, {NULL}}, &plain));
    return hil_add(t, changed, plain, y);
}

static hil_status dora(hil_tape *t, const layer *l, const hil_adapter *a, hil_value **y)
{
    hil_value *z;
    if (drops(t, a)) return dora_with_dropout(t, l, a, y);
    HIL_TRY(product(t, &(layer){.x = l->x, .weight = l->weight}, &z));
    z->brief = true;
    HIL_TRY(low_rank(t, a, l->x, z, &z));
    return apply_magnitude(t, l, a, z, y);
}

/* scale * x A' of the layer, if hil_linear_share computed it; or NULL. */
static hil_value *find_shared(const hil_tape *t, const layer *l)
{
    for (int i = 0; i < t->shared.count && t->shared.x == l->x; ++i)
        if (t->shared.weight[i] == l->weight) return t->shared.h[i];
    return NULL;
}

static hil_status lora(hil_tape *t, const layer *l, const hil_adapter *a, hil_value **y)
{
    hil_value *x, *h = find_shared(t, l);
    HIL_TRY(product(t, l, y));
    (*y)->brief = true;
    if (h) return product(t, &(layer){.x = h, .weight = a->b, .residual = *y}, y);
    HIL_TRY(hil_dropout(t, l->x, a->dropout, &x));
    return low_rank(t, a, x, *y, y);
}

static const hil_adapter *adapter_of(const hil_tape *t, const hil_param *weight)
{
    const hil_context *c = t->context;
    return c->without_adapter ? NULL : hil_model_adapter(c->model, weight);
}

static hil_status linear(hil_tape *t, const layer *l, hil_value **y)
{
    const hil_adapter *a = adapter_of(t, l->weight);
    if (!a) return product(t, l, y);
    return a->magnitude ? dora(t, l, a, y) : lora(t, l, a, y);
}

/* The adapter of a layer that nothing but products with A and B makes; NULL: it has none such. */
static const hil_adapter *plain_adapter(const hil_tape *t, const hil_param *weight)
{
    const hil_adapter *a = adapter_of(t, weight);
    return a && !a->magnitude && !drops(t, a) ? a : NULL;
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

#define SHARED_MOST 3 /* matrices that share a first product */

hil_status hil_linear_share(hil_tape *t, hil_value *x, int count, hil_param *const *weight)
{
    hil_low_rank_attr attr = {{0}};
    hil_apply joined = {&hil_op_low_rank, &attr, 1, 0, 0, {x}, {NULL}};
    t->shared.count = 0;
    for (int i = 0; i < count && joined.params < SHARED_MOST; ++i) {
        const hil_adapter *a = plain_adapter(t, weight[i]);
        if (!a) continue;
        attr.scale[joined.params] = a->scale;
        t->shared.weight[joined.params] = weight[i];
        joined.param[joined.params++] = a->a;
    }
    if (joined.params < 2) return HIL_OK;
    joined.outs = joined.params;
    HIL_TRY(hil_tape_apply(t, &joined, t->shared.h));
    t->shared.x = x;
    t->shared.count = joined.params;
    return HIL_OK;
}

/* Whether the adapters of gate, up and down are computed with SwiGLU: hil_op_gated. */
static bool suits_gated(const hil_tape *t, const hil_value *x, const hil_linear_gates *w)
{
    const hil_param *weight[] = {w->gate, w->up, w->down};
    int64_t rank[3], n = hil_param_spec_of(w->gate)->shape.dim[0];
    if (!x->root->wants)
        return false; /* it writes the gradients of gate and up, which nobody wants */
    for (int i = 0; i < 3; ++i) {
        const hil_adapter *a = plain_adapter(t, weight[i]);
        if (!a) return false;
        rank[i] = hil_param_spec_of(a->a)->shape.dim[0];
    }
    return hil_gated_suits(t->context->compute, hil_shape_rows(&x->tensor.shape), n, rank);
}

static hil_status swiglu_with_adapters(hil_tape *t, const hil_linear_gates *w, const layer part[2],
                                       hil_value **y)
{
    const hil_adapter *of_gate = plain_adapter(t, w->gate), *of_up = plain_adapter(t, w->up);
    const hil_adapter *of_down = plain_adapter(t, w->down);
    hil_gated_attr attr = {of_down->scale};
    hil_value *base[2], *h[2] = {find_shared(t, &part[0]), find_shared(t, &part[1])}, *out[2];
    for (int i = 0; i < 2; ++i) HIL_TRY(product(t, &part[i], &base[i]));
    HIL_TRY(hil_tape_apply(t,
                           &(hil_apply){&hil_op_gated,
                                        &attr,
                                        4,
                                        2,
                                        3,
                                        {base[0], base[1], h[0], h[1]},
                                        {of_gate->b, of_up->b, of_down->a}},
                           out));
    t->shared = (hil_shared_input){out[0], 1, {w->down}, {out[1]}};
    *y = out[0];
    return HIL_OK;
}

hil_status hil_linear_swiglu(hil_tape *t, hil_value *x, const hil_linear_gates *w, hil_value **y)
{
    const layer part[2] = {{x, w->gate, w->gate_bias, NULL}, {x, w->up, w->up_bias, NULL}};
    hil_value *gate, *up;
    HIL_TRY(hil_linear_share(t, x, 2, (hil_param *[]){w->gate, w->up}));
    if (suits_gated(t, x, w)) return swiglu_with_adapters(t, w, part, y);
    HIL_TRY(linear(t, &part[0], &gate));
    HIL_TRY(linear(t, &part[1], &up));
    return hil_swiglu(t, gate, up, y);
}

static hil_status grouped(hil_tape *t, hil_value *rows, const hil_routing *routing,
                          hil_param *first, hil_value **y)
{
    hil_grouped_attr attr = {hil_value_dim(routing->begins, 0) - 1 - routing->identities};
    return hil_tape_apply(
        t, &(hil_apply){&hil_op_grouped_linear, &attr, 2, 1, 1, {rows, routing->begins}, {first}},
        y);
}

/* scale * x A' of each row's expert; gate and up share it. */
static hil_status grouped_low_rank(hil_tape *t, hil_value *rows, const hil_routing *routing,
                                   const hil_adapter *a, hil_value **h)
{
    hil_scale_attr scale = {a->scale};
    if (t->shared.count && t->shared.x == rows && t->shared.weight[0] == a->a) {
        *h = t->shared.h[0];
        return HIL_OK;
    }
    HIL_TRY(grouped(t, rows, routing, a->a, h));
    HIL_TRY(hil_tape_apply(t, &(hil_apply){&hil_op_scale, &scale, 1, 1, 0, {*h}, {NULL}}, h));
    t->shared.x = rows;
    t->shared.weight[0] = a->a;
    t->shared.h[0] = *h;
    t->shared.count = 1;
    return HIL_OK;
}

hil_status hil_grouped_linear(hil_tape *t, hil_value *rows, const hil_routing *routing,
                              hil_param *first, hil_value **y)
{
    const hil_adapter *a = adapter_of(t, first);
    hil_value *h, *more;
    HIL_TRY(grouped(t, rows, routing, first, y));
    if (!a) return HIL_OK;
    (*y)->brief = true;
    HIL_TRY(grouped_low_rank(t, rows, routing, a, &h));
    HIL_TRY(grouped(t, h, routing, a->b, &more));
    more->brief = true;
    return hil_add(t, *y, more, y);
}
