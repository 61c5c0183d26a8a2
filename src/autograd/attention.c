/* attention.c - attention of nn.h: with the keys and values of the call, and in generation with
   those of earlier calls, which a cache holds. */
#include "autograd/tape.h"
#include "base/sized.h"

#include <math.h>

/* The cache slot of the next attention call, whose keys have this shape. The first pass allocates
   the slots. */
static hil_status cache_slot(hil_tape *t, const hil_shape *shape, hil_cached_attr *attr)
{
    hil_kv_cache *cache = t->context->cache;
    if (shape->dim[1] > cache->positions - cache->length)
        return hil_fail(HIL_ERR_USAGE, "the key/value cache holds %lld positions, no more",
                        (long long)cache->positions);
    size_t slot = cache->next++;
    HIL_TRY(hil_tape_check_slot(cache, slot, "attentions"));
    if (slot == cache->count) {
        size_t bytes = (size_t)(shape->dim[0] * cache->positions * shape->dim[2] * shape->dim[3]) *
                       hil_dtype_size(t->context->compute);
        HIL_TRY(hil_buffers_take(t->context->buffers, bytes, &cache->k[slot]));
        hil_status status = hil_buffers_take(t->context->buffers, bytes, &cache->v[slot]);
        if (status != HIL_OK) hil_buffers_give(t->context->buffers, cache->k[slot]);
        HIL_TRY(status);
        ++cache->count;
    }
    attr->k = cache->k[slot];
    attr->v = cache->v[slot];
    attr->capacity = cache->positions;
    attr->length = cache->length;
    return HIL_OK;
}

void hil_attention_defaults_sized(hil_attention_options *options, size_t size)
{
    const hil_attention_options defaults = {0};
    hil_sized_fill(options, size, &defaults, sizeof defaults);
}

/* `apply` has the inputs, q, k and v or qkv; `keys` is the shape of the keys. */
static hil_status attend(hil_tape *t, hil_apply *apply, const hil_shape *keys,
                         const hil_attention_options *options, hil_value **y)
{
    hil_attention_options own;
    hil_attention_defaults(&own);
    if (options) HIL_TRY(hil_sized_take(&own, sizeof own, options, "hil_attention"));
    options = &own;
    double scale = options->scale > 0 ? options->scale : 1 / sqrt((double)keys->dim[3]);
    hil_cached_attr cached = {
        .scale = scale, .window = options->window, .cap = options->cap, .chunk = options->chunk};
    hil_attention_attr attr = {scale, options->window, t->context->training ? options->dropout : 0,
                               options->cap, options->chunk};
    apply->outs = 1;
    apply->params = options->sinks ? 1 : 0;
    apply->param[0] = options->sinks;
    if (t->context->mode == HIL_MODE_GENERATE) {
        HIL_TRY(cache_slot(t, keys, &cached));
        apply->op = &hil_op_attention_cached;
        apply->attr = &cached;
    } else {
        apply->op = &hil_op_attention;
        apply->attr = &attr;
        apply->in[apply->ins++] = t->batch[3];
    }
    return hil_tape_apply(t, apply, y);
}

hil_status hil_attention_packed(hil_tape *t, hil_value *qkv, const hil_attention_options *options,
                                hil_value **y)
{
    hil_shape keys = qkv->tensor.shape;
    keys.dim[2] /= 3;
    return attend(t, &(hil_apply){.ins = 1, .in = {qkv}}, &keys, options, y);
}

/* x with zeros behind its columns, `cols` in all. */
static hil_status widen(hil_tape *t, hil_value *x, int64_t cols, hil_value **y)
{
    hil_join_attr attr = {cols};
    return hil_tape_apply(t, &(hil_apply){&hil_op_join, &attr, 1, 1, 0, {x}, {NULL}}, y);
}

/* Values whose heads are smaller than those of keys get zeros, which stay zeros. */
hil_status hil_attention(hil_tape *t, hil_value *q, hil_value *k, hil_value *v,
                         const hil_attention_options *options, hil_value **y)
{
    int64_t dim = hil_shape_cols(&k->tensor.shape), own = hil_shape_cols(&v->tensor.shape);
    if (own < dim) HIL_TRY(widen(t, v, dim, &v));
    HIL_TRY(attend(t, &(hil_apply){.ins = 3, .in = {q, k, v}}, &k->tensor.shape, options, y));
    if (own >= dim) return HIL_OK;
    hil_value *part[2];
    HIL_TRY(hil_split(t, *y, 2, (int64_t[]){own, dim - own}, part));
    *y = part[0];
    return HIL_OK;
}
