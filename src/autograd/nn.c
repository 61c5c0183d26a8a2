/* nn.c - the operations of nn.h: each checks its arguments and has the tape run it. */
#include "autograd/batch_input.h"
#include "base/sized.h"

hil_value *hil_batch_tokens(hil_tape *tape)
{
    return tape->batch[0];
}

hil_value *hil_batch_positions(hil_tape *tape)
{
    return tape->batch[2];
}

const int32_t *hil_value_ids(const hil_value *value)
{
    if (value->branches) *value->branches = true;
    return value->ids;
}

int hil_value_dims(const hil_value *value)
{
    return value->tensor.shape.ndim;
}

int64_t hil_value_dim(const hil_value *value, int i)
{
    const hil_shape *shape = &value->tensor.shape;
    int at = i < 0 ? shape->ndim + i : i;
    assert(at >= 0 && at < shape->ndim);
    return shape->dim[at];
}

hil_status hil_earlier(hil_tape *tape, const char *segment, const char *name, hil_value **out)
{
    return tape->context->earlier(tape, segment, name, out);
}

hil_status hil_embedding(hil_tape *t, hil_value *ids, hil_param *table, hil_value **y)
{
    return hil_embedding_padded(t, ids, table, -1, y);
}

hil_status hil_embedding_padded(hil_tape *t, hil_value *ids, hil_param *table, int64_t pad,
                                hil_value **y)
{
    hil_embedding_attr attr = {.pad = pad};
    return hil_tape_apply(t, &(hil_apply){&hil_op_embedding, &attr, 1, 1, 1, {ids}, {table}}, y);
}

hil_status hil_embedding_shifted(hil_tape *t, hil_value *ids, hil_param *table, int64_t shift,
                                 hil_value **y)
{
    hil_embedding_attr attr = {.pad = -1, .shift = shift};
    return hil_tape_apply(t, &(hil_apply){&hil_op_embedding, &attr, 1, 1, 1, {ids}, {table}}, y);
}

static hil_status layernorm(hil_tape *t, hil_value *x, hil_param *const vector[2],
                            const hil_norm_attr *attr, hil_value **y)
{
    int params = vector[1] ? 2 : vector[0] ? 1 : 0;
    return hil_tape_apply(
        t, &(hil_apply){&hil_op_layernorm, attr, 1, 1, params, {x}, {vector[0], vector[1]}}, y);
}

hil_status hil_layernorm(hil_tape *t, hil_value *x, hil_param *weight, hil_param *bias, double eps,
                         hil_value **y)
{
    return layernorm(t, x, (hil_param *[]){weight, bias}, &(hil_norm_attr){.eps = eps}, y);
}

hil_status hil_layernorm_plus(hil_tape *t, hil_value *x, hil_param *weight, hil_param *bias,
                              double eps, hil_value **y)
{
    return layernorm(t, x, (hil_param *[]){weight, bias}, &(hil_norm_attr){.eps = eps, .offset = 1},
                     y);
}

hil_status hil_head_norm(hil_tape *t, hil_value *x, hil_param *weight, double eps, hil_value **y)
{
    hil_norm_attr attr = {.eps = eps};
    return hil_tape_apply(t, &(hil_apply){&hil_op_head_norm, &attr, 1, 1, 1, {x}, {weight}}, y);
}

hil_status hil_head_rmsnorm(hil_tape *t, hil_value *x, hil_param *weight, double eps, hil_value **y)
{
    hil_norm_attr attr = {.eps = eps};
    return hil_tape_apply(t, &(hil_apply){&hil_op_head_rmsnorm, &attr, 1, 1, 1, {x}, {weight}}, y);
}

static hil_status rmsnorm(hil_tape *t, hil_value *x, hil_param *weight, const hil_norm_attr *attr,
                          hil_value **y)
{
    return hil_tape_apply(
        t, &(hil_apply){&hil_op_rmsnorm, attr, 1, 1, weight ? 1 : 0, {x}, {weight}}, y);
}

hil_status hil_rmsnorm(hil_tape *t, hil_value *x, hil_param *weight, double eps, hil_value **y)
{
    return rmsnorm(t, x, weight, &(hil_norm_attr){.eps = eps}, y);
}

hil_status hil_rmsnorm_plus(hil_tape *t, hil_value *x, hil_param *weight, double eps, hil_value **y)
{
    return rmsnorm(t, x, weight, &(hil_norm_attr){.eps = eps, .offset = 1}, y);
}

void hil_rope_defaults_sized(hil_rope_options *options, size_t size)
{
    const hil_rope_options defaults = {0};
    hil_sized_fill(options, size, &defaults, sizeof defaults);
}

hil_status hil_rope(hil_tape *t, hil_value *x, const float *frequency, hil_value **y)
{
    return hil_rope_with(t, x, frequency, NULL, y);
}

/* The length of the sequence counts, so that one table is used for all of a micro-batch. */
hil_status hil_rope_with(hil_tape *t, hil_value *x, const float *frequency,
                         const hil_rope_options *options, hil_value **y)
{
    hil_rope_options own;
    hil_rope_defaults(&own);
    if (options) HIL_TRY(hil_sized_take(&own, sizeof own, options, "hil_rope_with"));
    int64_t length = x->tensor.shape.ndim > 1 ? x->tensor.shape.dim[1] : 0;
    if (t->context->mode == HIL_MODE_GENERATE) length += t->context->cache->length;
    hil_rope_attr attr = {.frequency = frequency,
                          .dims = own.dims,
                          .interleaved = own.interleaved,
                          .factor = own.factor,
                          .first = own.first,
                          .growth = own.growth,
                          .growth_from = own.growth_from,
                          .growth_shift = own.growth_shift};
    if (own.longer && length > own.longer_than) attr.frequency = own.longer;
    return hil_tape_apply(t, &(hil_apply){&hil_op_rope, &attr, 2, 1, 0, {x, t->batch[2]}, {NULL}},
                          y);
}

hil_status hil_gelu(hil_tape *t, hil_value *x, hil_gelu_kind kind, hil_value **y)
{
    hil_gelu_attr attr = {kind == HIL_GELU_APPROXIMATE};
    return hil_tape_apply(t, &(hil_apply){&hil_op_gelu, &attr, 1, 1, 0, {x}, {NULL}}, y);
}

hil_status hil_swiglu(hil_tape *t, hil_value *gate, hil_value *up, hil_value **y)
{
    return hil_tape_apply(t, &(hil_apply){&hil_op_swiglu, NULL, 2, 1, 0, {gate, up}, {NULL}}, y);
}

hil_status hil_swiglu_clamped(hil_tape *t, hil_value *gate, hil_value *up, double alpha,
                              double limit, hil_value **y)
{
    hil_swiglu_clamped_attr attr = {alpha, limit};
    return hil_tape_apply(
        t, &(hil_apply){&hil_op_swiglu_clamped, &attr, 2, 1, 0, {gate, up}, {NULL}}, y);
}

hil_status hil_geglu(hil_tape *t, hil_value *gate, hil_value *up, hil_gelu_kind kind, hil_value **y)
{
    hil_gelu_attr attr = {kind == HIL_GELU_APPROXIMATE};
    return hil_tape_apply(t, &(hil_apply){&hil_op_geglu, &attr, 2, 1, 0, {gate, up}, {NULL}}, y);
}

hil_status hil_relu(hil_tape *t, hil_value *x, hil_value **y)
{
    return hil_tape_apply(t, &(hil_apply){&hil_op_relu, NULL, 1, 1, 0, {x}, {NULL}}, y);
}

hil_status hil_relu_squared(hil_tape *t, hil_value *x, hil_value **y)
{
    return hil_tape_apply(t, &(hil_apply){&hil_op_relu_squared, NULL, 1, 1, 0, {x}, {NULL}}, y);
}

hil_status hil_xielu(hil_tape *t, hil_value *x, const hil_xielu_params *params, hil_value **y)
{
    hil_apply apply = {.op = &hil_op_xielu,
                       .ins = 1,
                       .outs = 1,
                       .params = 4,
                       .in = {x},
                       .param = {params->positive, params->negative, params->beta, params->eps}};
    return hil_tape_apply(t, &apply, y);
}

hil_status hil_multiply(hil_tape *t, hil_value *x, hil_value *y, hil_value **product)
{
    return hil_tape_apply(t, &(hil_apply){&hil_op_multiply, NULL, 2, 1, 0, {x, y}, {NULL}},
                          product);
}

hil_status hil_sigmoid_gate(hil_tape *t, hil_value *x, hil_value *gates, hil_value **y)
{
    return hil_tape_apply(t, &(hil_apply){&hil_op_sigmoid_gate, NULL, 2, 1, 0, {x, gates}, {NULL}},
                          y);
}

hil_status hil_softplus_gate(hil_tape *t, hil_value *x, hil_value *gates, hil_value **y)
{
    return hil_tape_apply(t, &(hil_apply){&hil_op_softplus_gate, NULL, 2, 1, 0, {x, gates}, {NULL}},
                          y);
}

hil_status hil_scale(hil_tape *t, hil_value *x, double factor, hil_value **y)
{
    hil_scale_attr attr = {factor};
    return hil_tape_apply(t, &(hil_apply){&hil_op_scale, &attr, 1, 1, 0, {x}, {NULL}}, y);
}

hil_status hil_scale_fixed(hil_tape *t, hil_value *x, hil_param *factor, hil_value **y)
{
    hil_scale_attr attr = {1};
    return hil_tape_apply(t, &(hil_apply){&hil_op_scale, &attr, 1, 1, 1, {x}, {factor}}, y);
}

hil_status hil_softcap(hil_tape *t, hil_value *x, double cap, hil_value **y)
{
    hil_softcap_attr attr = {cap};
    if (!(cap > 0)) return hil_fail(HIL_ERR_USAGE, "softcap: the cap is %g, not above 0", cap);
    return hil_tape_apply(t, &(hil_apply){&hil_op_softcap, &attr, 1, 1, 0, {x}, {NULL}}, y);
}

hil_status hil_split(hil_tape *t, hil_value *x, int parts, const int64_t *sizes, hil_value **y)
{
    hil_split_attr attr = {.parts = parts};
    if (parts < 1 || parts > HIL_OP_TENSORS)
        return hil_fail(HIL_ERR_USAGE, "split: %d parts, expected 1 to %d", parts, HIL_OP_TENSORS);
    for (int i = 0; i < parts; ++i) attr.size[i] = sizes[i];
    return hil_tape_apply(t, &(hil_apply){&hil_op_split, &attr, 1, parts, 0, {x}, {NULL}}, y);
}

hil_status hil_join(hil_tape *t, int parts, hil_value *const *x, hil_value **y)
{
    if (parts < 1 || parts > HIL_OP_TENSORS)
        return hil_fail(HIL_ERR_USAGE, "join: %d parts, expected 1 to %d", parts, HIL_OP_TENSORS);
    hil_join_attr attr = {0};
    hil_apply apply = {.op = &hil_op_join, .attr = &attr, .ins = parts, .outs = 1};
    for (int i = 0; i < parts; ++i) apply.in[i] = x[i];
    return hil_tape_apply(t, &apply, y);
}

hil_status hil_add(hil_tape *t, hil_value *x, hil_value *y, hil_value **sum)
{
    return hil_tape_apply(t, &(hil_apply){&hil_op_add, NULL, 2, 1, 0, {x, y}, {NULL}}, sum);
}

hil_status hil_dropout(hil_tape *t, hil_value *x, double rate, hil_value **y)
{
    if (rate <= 0 || !t->context->training) {
        *y = x;
        return HIL_OK;
    }
    hil_dropout_attr attr = {rate};
    return hil_tape_apply(t, &(hil_apply){&hil_op_dropout, &attr, 1, 1, 0, {x}, {NULL}}, y);
}

hil_status hil_reshape(hil_tape *t, hil_value *x, int dims, const int64_t *shape, hil_value **y)
{
    hil_shape to = {.ndim = dims};
    int64_t known = 1, count = hil_shape_count(&x->tensor.shape);
    int open = -1;
    if (dims < 1 || dims > HIL_DIMS)
        return hil_fail(HIL_ERR_USAGE, "reshape: %d dimensions, expected 1 to %d", dims, HIL_DIMS);
    for (int i = 0; i < dims; ++i) {
        to.dim[i] = shape[i];
        if (shape[i] == -1 && open < 0)
            open = i;
        else
            known *= shape[i];
    }
    if (open >= 0) to.dim[open] = known > 0 ? count / known : 0;
    if (hil_shape_count(&to) != count)
        return hil_fail(HIL_ERR_USAGE, "reshape: %lld elements do not fill the new shape",
                        (long long)count);
    return hil_tape_reshape(t, x, &to, y);
}

/* Computes the logits of every position, or of the last one, and copies them to the host. */
static hil_status read_logits(hil_tape *t, hil_value *x, hil_param *weight,
                              const hil_head_options *options)
{
    hil_context *c = t->context;
    const hil_shape *shape = &x->tensor.shape;
    hil_tensor rows = x->tensor;
    int64_t length = shape->dim[1], cols = shape->dim[2];
    if (c->mode == HIL_MODE_GENERATE) {
        assert(shape->dim[0] == 1);
        rows.data = (char *)rows.data + (size_t)((length - 1) * cols) * hil_dtype_size(rows.dtype);
        rows.shape.dim[1] = 1;
    }
    hil_value *last, *logits;
    HIL_TRY(hil_tape_borrow(t, &rows, false, &last));
    HIL_TRY(hil_linear(t, last, weight, options->bias, &logits));
    if (options->cap > 0) HIL_TRY(hil_softcap(t, logits, options->cap, &logits));
    return hil_batch_input_read(c->input, &logits->tensor, c->output);
}

/* The losses under the reference: computed beside these, or given with the micro-batch. */
static hil_tensor reference_tensor(const hil_tape *t)
{
    const hil_micro *micro = t->micro;
    const void *data = t->context->reference;
    if (t->context->preference.precomputed) data = micro->reference;
    if (t->context->preference.precomputed && micro->on_device)
        data = micro->on_device + 4 * micro->sequences * micro->length;
    return (hil_tensor){HIL_F32, t->batch[1]->tensor.shape, (void *)(uintptr_t)data};
}

/* Adds the numbers of the pairs of answers in the batch to the tape's. `gradient`: that of `loss`.
 */
static hil_status prefer(hil_tape *t, hil_value *loss, hil_value **gradient)
{
    hil_context *c = t->context;
    hil_preference_attr attr = {c->preference, c->token_weight, c->kl};
    bool refers = hil_reference_wanted(c->preference.kind);
    hil_tensor of_reference = refers ? reference_tensor(t) : loss->tensor;
    hil_value *reference, *out[2];
    HIL_TRY(hil_tape_borrow(t, &of_reference, false, &reference));
    HIL_TRY(hil_tape_apply(t,
                           &(hil_apply){&hil_op_preference,
                                        &attr,
                                        4,
                                        2,
                                        0,
                                        {loss, reference, t->batch[3], t->batch[1]},
                                        {NULL}},
                           out));
    hil_tensor each = of_reference;
    each.data = out[0]->tensor.data;
    for (int k = 0; k < HIL_PREFERENCES && t->loss; ++k) {
        HIL_TRY(hil_op_sum(c->device, c->pool, &each, t->loss + k));
        each.data = (char *)each.data + hil_tensor_bytes(&each);
    }
    *gradient = out[1];
    return HIL_OK;
}

/* What hil_head_loss_with computes. */
typedef struct head {
    hil_value *x;
    hil_param *weight, *bias; /* bias: NULL: none */
    hil_head_attr attr;
} head;

/* The loss of each position; `gradient`: that of the step's loss by it, NULL: see hil_op_head. */
static hil_status find_losses(hil_tape *t, const head *h, hil_value *gradient, hil_value **loss)
{
    return hil_tape_apply(t,
                          &(hil_apply){&hil_op_head,
                                       &h->attr,
                                       gradient ? 3 : 2,
                                       1,
                                       h->bias ? 2 : 1,
                                       {h->x, t->batch[1], gradient},
                                       {h->weight, h->bias}},
                          loss);
}

/* The gradient of a trained weight needs the gradient of each position's loss, which follows from
   the losses of whole answers. So the losses are computed first, without gradients, and a second
   time with them. */
static hil_status prefer_trained(hil_tape *t, const head *h)
{
    bool differentiate = t->differentiate;
    hil_value *loss, *gradient;
    t->differentiate = false;
    hil_status status = find_losses(t, h, NULL, &loss);
    t->differentiate = differentiate;
    HIL_TRY(status);
    HIL_TRY(prefer(t, loss, &gradient));
    return find_losses(t, h, gradient, &loss);
}

static bool is_trained(const head *h)
{
    return hil_param_trainable(h->weight) || (h->bias && hil_param_trainable(h->bias));
}

void hil_head_defaults_sized(hil_head_options *options, size_t size)
{
    const hil_head_options defaults = {0};
    hil_sized_fill(options, size, &defaults, sizeof defaults);
}

hil_status hil_head_loss(hil_tape *t, hil_value *x, hil_param *weight)
{
    return hil_head_loss_with(t, x, weight, NULL);
}

hil_status hil_head_loss_with(hil_tape *t, hil_value *x, hil_param *weight,
                              const hil_head_options *options)
{
    hil_context *c = t->context;
    hil_head_options own;
    hil_head_defaults(&own);
    if (options) HIL_TRY(hil_sized_take(&own, sizeof own, options, "hil_head_loss_with"));
    if (x->tensor.shape.ndim != 3)
        return hil_fail(HIL_ERR_USAGE, "head_loss: x must be (sequences, positions, hidden)");
    if (c->mode == HIL_MODE_LOGITS || c->mode == HIL_MODE_GENERATE)
        return read_logits(t, x, weight, &own);
    c->vocab = hil_param_spec_of(weight)->shape.dim[0];
    hil_value *loss, *gradient;
    head h = {x, weight, own.bias, {.cap = own.cap}};
    bool prefers = c->preference.kind != HIL_PREFER_NONE;
    h.attr.prompts = c->preference.kind == HIL_PREFER_ORPO;
    if (prefers && c->mode != HIL_MODE_TRACE && t->differentiate && is_trained(&h))
        return prefer_trained(t, &h);
    h.attr.weighted = prefers && t->differentiate;
    HIL_TRY(find_losses(t, &h, NULL, &loss));
    if (c->mode == HIL_MODE_TRACE) return HIL_OK;
    if (c->mode == HIL_MODE_LOSSES) return hil_batch_input_read(c->input, &loss->tensor, c->output);
    hil_tensor reference = reference_tensor(t);
    if (c->without_adapter)
        return hil_op_convert(c->device, c->pool, &reference, &loss->tensor, false);
    if (prefers) return prefer(t, loss, &gradient);
    if (!t->loss) return HIL_OK;
    return hil_op_sum(c->device, c->pool, &loss->tensor, t->loss);
}
