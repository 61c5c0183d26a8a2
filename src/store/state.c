/* state.c - the states of a parameter: master, moments, gradients; see [Note: rounding to bf16]. */
#include "store/param.h"

#include <string.h>

#define CHUNK 65536

static int64_t cols_of(const hil_param *p)
{
    return hil_shape_cols(&p->spec.shape);
}

hil_status hil_store_acquire(hil_store *store, hil_param *param, int64_t tile, const void **data)
{
    (void)store;
    int64_t first = tile * param->tile_rows * cols_of(param);
    *data = (const char *)param->weight + (size_t)first * hil_dtype_size(param->dtype);
    return HIL_OK;
}

void hil_store_release(hil_store *store, hil_param *param, int64_t tile)
{
    (void)store;
    (void)param;
    (void)tile;
}

static hil_use *find_use(hil_param *param, int segment)
{
    for (int i = 0; i < param->uses; ++i)
        if (param->use[i].segment == segment) return &param->use[i];
    return NULL;
}

hil_status hil_store_declare_use(hil_store *store, hil_param *param, int segment)
{
    (void)store;
    if (find_use(param, segment)) return HIL_OK;
    if (param->uses == HIL_USES)
        return hil_fail(HIL_ERR_USAGE, "parameter %s is used in more than %d segments", param->name,
                        HIL_USES);
    int at = param->uses++;
    while (at > 0 && param->use[at - 1].segment > segment) {
        param->use[at] = param->use[at - 1];
        --at;
    }
    param->use[at] = (hil_use){.segment = segment};
    return HIL_OK;
}

typedef struct piece {
    const void *in;
    void *out;
    hil_dtype dtype;
    int64_t count;
} piece;

static int64_t chunk_count(int64_t count, int64_t i)
{
    return count - i * CHUNK < CHUNK ? count - i * CHUNK : CHUNK;
}

static void zero_chunk(void *context, int64_t i, int thread)
{
    (void)thread;
    const piece *job = context;
    memset((float *)job->out + i * CHUNK, 0, (size_t)chunk_count(job->count, i) * 4);
}

static void round_chunk(void *context, int64_t i, int thread)
{
    (void)thread;
    const piece *job = context;
    char *out = (char *)job->out + (size_t)(i * CHUNK) * hil_dtype_size(job->dtype);
    hil_from_f32(out, (const float *)job->in + i * CHUNK, job->dtype, chunk_count(job->count, i));
}

static void run_chunks(hil_store *store, hil_task *task, piece *job)
{
    hil_pool_run(store->options.pool, task, job, (job->count + CHUNK - 1) / CHUNK);
}

hil_status hil_store_sum_acquire(hil_store *store, hil_param *param, int segment, int64_t tile,
                                 float **sum)
{
    HIL_TRY(hil_store_declare_use(store, param, segment));
    hil_use *use = find_use(param, segment);
    if (!use->sum) {
        HIL_TRY(hil_buffers_take(store->buffers, (size_t)param->elements * 4, (void **)&use->sum));
        run_chunks(store, zero_chunk, &(piece){.out = use->sum, .count = param->elements});
    }
    *sum = use->sum + tile * param->tile_rows * cols_of(param);
    return HIL_OK;
}

void hil_store_sum_release(hil_store *store, hil_param *param, int segment, int64_t tile)
{
    (void)store;
    (void)param;
    (void)segment;
    (void)tile;
}

hil_status hil_store_give_gradient(hil_store *store, hil_param *param, int segment)
{
    hil_use *use = find_use(param, segment);
    if (!use || !use->sum) return HIL_OK;
    assert(!use->given);
    if (param->dtype == HIL_F32) {
        use->given = use->sum;
    } else {
        size_t bytes = (size_t)param->elements * hil_dtype_size(param->dtype);
        HIL_TRY(hil_buffers_take(store->buffers, bytes, &use->given));
        run_chunks(store, round_chunk,
                   &(piece){use->sum, use->given, param->dtype, param->elements});
        hil_buffers_give(store->buffers, use->sum);
    }
    use->sum = NULL;
    return HIL_OK;
}

void hil_store_step_end(hil_store *store)
{
    for (size_t i = 0; i < store->count; ++i) {
        hil_param *p = store->params[i];
        for (int u = 0; u < p->uses; ++u) {
            hil_buffers_give(store->buffers, p->use[u].given);
            hil_buffers_give(store->buffers, p->use[u].sum);
            p->use[u].given = NULL;
            p->use[u].sum = NULL;
        }
    }
}

void hil_param_set_master(hil_param *p, int64_t first, int64_t count, const float *in)
{
    if (p->dtype == HIL_BF16) {
        uint16_t *high = (uint16_t *)p->weight + first, *low = p->rest;
        for (int64_t i = 0; i < count; ++i) high[i] = hil_weight_high(in[i]);
        for (int64_t i = 0; low && i < count; ++i) low[first + i] = hil_weight_low(in[i]);
        return;
    }
    hil_from_f32((char *)p->weight + (size_t)first * hil_dtype_size(p->dtype), in, p->dtype, count);
    if (p->rest) memcpy((float *)p->rest + first, in, (size_t)count * 4);
}

static void get_master(const hil_param *p, int64_t first, int64_t count, float *out)
{
    if (p->rest && p->dtype == HIL_BF16) {
        const uint16_t *high = (const uint16_t *)p->weight + first;
        const uint16_t *low = (const uint16_t *)p->rest + first;
        for (int64_t i = 0; i < count; ++i) out[i] = hil_weight_join(high[i], low[i]);
    } else if (p->rest) {
        memcpy(out, (const float *)p->rest + first, (size_t)count * 4);
    } else {
        hil_to_f32(out, (const char *)p->weight + (size_t)first * hil_dtype_size(p->dtype),
                   p->dtype, count);
    }
}

static void *moment_at(const hil_store *store, const hil_param *p, hil_state state, int64_t first)
{
    return (char *)p->moment[state - HIL_MOMENT1] + hil_codec_bytes(store->options.codec, first);
}

static hil_q8_kind moment_kind(hil_state state)
{
    return state == HIL_MOMENT1 ? HIL_Q8_SIGNED : HIL_Q8_UNSIGNED;
}

hil_status hil_store_read(hil_store *store, hil_param *param, hil_state state, int64_t first,
                          int64_t count, float *out)
{
    assert(first >= 0 && count >= 0 && first + count <= param->elements);
    if (state == HIL_MASTER)
        get_master(param, first, count, out);
    else if (store->options.codec == HIL_CODEC_Q8)
        hil_q8_decode(out, moment_at(store, param, state, first), moment_kind(state), count);
    else
        memcpy(out, moment_at(store, param, state, first), (size_t)count * 4);
    return HIL_OK;
}

hil_status hil_store_write(hil_store *store, hil_param *param, hil_state state, int64_t first,
                           int64_t count, const float *in)
{
    assert(first >= 0 && count >= 0 && first + count <= param->elements);
    if (state == HIL_MASTER)
        hil_param_set_master(param, first, count, in);
    else if (store->options.codec == HIL_CODEC_Q8)
        hil_q8_encode(moment_at(store, param, state, first), in, moment_kind(state), count);
    else
        memcpy(moment_at(store, param, state, first), in, (size_t)count * 4);
    return HIL_OK;
}

int64_t hil_param_blocks(const hil_param *param)
{
    return (param->elements + HIL_BLOCK - 1) / HIL_BLOCK;
}

hil_status hil_store_block_acquire(hil_store *store, hil_param *param, int64_t block,
                                   hil_block *out)
{
    int64_t first = block * HIL_BLOCK;
    size_t size = hil_dtype_size(param->dtype);
    int64_t left = param->elements - first;
    *out = (hil_block){
        .count = left < HIL_BLOCK ? left : HIL_BLOCK,
        .dtype = param->dtype,
        .weight = (char *)param->weight + (size_t)first * size,
    };
    if (param->rest) out->rest = (char *)param->rest + hil_rest_bytes(param->dtype, first);
    for (int m = 0; m < HIL_MOMENTS; ++m)
        if (param->moment[m])
            out->moment[m] =
                (char *)param->moment[m] + hil_codec_bytes(store->options.codec, first);
    for (int u = 0; u < param->uses; ++u)
        if (param->use[u].given)
            out->gradient[out->gradients++] = (char *)param->use[u].given + (size_t)first * size;
    return HIL_OK;
}

void hil_store_block_release(hil_store *store, hil_param *param, int64_t block)
{
    (void)store;
    (void)param;
    (void)block;
}
