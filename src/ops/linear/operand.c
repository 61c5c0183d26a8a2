/* operand.c - rounds a factor of a product to 8 bits. */
#include "ops/linear/operand.h"

#include "ops/infer.h"

#define CHUNK 8192

static uint16_t *take(const hil_op_call *call, int64_t count, size_t *bytes)
{
    size_t at = hil_scratch_add(bytes, count, sizeof(uint16_t));
    return (uint16_t *)((uintptr_t)call->scratch + at);
}

hil_operands hil_operands_place(const hil_op_call *call, bool backward, size_t *bytes)
{
    const hil_op_param *w = &call->param[0];
    int64_t rows = hil_shape_rows(&call->in[0].shape);
    int64_t tile = w->tile_rows < w->rows ? w->tile_rows : w->rows;
    hil_operands o = {0};
    if (!w->fp8) return o;
    o.w = take(call, tile * w->cols, bytes);
    if (!backward || w->trainable) o.x = take(call, rows * w->cols, bytes);
    if (backward) o.dy = take(call, rows * w->rows, bytes);
    return o;
}

typedef struct job {
    const uint16_t *from;
    uint16_t *to;
    int64_t count;
    hil_fp8 kind;
    int shift;
    bool finite; /* all of them are */
} job;

static int64_t end_of(const job *j, int64_t chunk)
{
    int64_t end = (chunk + 1) * CHUNK;
    return end < j->count ? end : j->count;
}

/* The largest magnitude of a chunk, as bits; written to the chunk's first place. */
static void find_most(void *context, int64_t chunk, int thread)
{
    (void)thread;
    const job *j = context;
    const uint16_t *from = j->from + chunk * CHUNK;
    int64_t count = end_of(j, chunk) - chunk * CHUNK;
    int16_t most = 0; /* with a sign, as every processor has the vector instruction for it */
    for (int64_t i = 0; i < count; ++i) {
        int16_t size = (int16_t)(from[i] & 0x7fffu);
        most = size > most ? size : most;
    }
    j->to[chunk * CHUNK] = (uint16_t)most;
}

/* With a kind that the compiler knows, it vectorises the loop. */
static inline void round_finite(const job *j, int64_t chunk, hil_fp8 kind)
{
    const uint16_t *restrict from = j->from + chunk * CHUNK;
    uint16_t *restrict to = j->to + chunk * CHUNK;
    int64_t count = end_of(j, chunk) - chunk * CHUNK;
    int shift = j->shift;
    for (int64_t i = 0; i < count; ++i) to[i] = hil_fp8_near(from[i], shift, kind);
}

static void round_chunk(void *context, int64_t chunk, int thread)
{
    (void)thread;
    const job *j = context;
    if (j->finite && j->kind == HIL_FP8_E4M3) {
        round_finite(j, chunk, HIL_FP8_E4M3);
        return;
    }
    if (j->finite) {
        round_finite(j, chunk, HIL_FP8_E5M2);
        return;
    }
    for (int64_t i = chunk * CHUNK; i < end_of(j, chunk); ++i)
        j->to[i] = hil_fp8_expand(hil_fp8_round(hil_bf16_load(j->from[i]), j->shift, j->kind),
                                  j->shift, j->kind);
}

const void *hil_operand_round(hil_pool *pool, hil_fp8 kind, const void *from, int64_t count,
                              uint16_t *to)
{
    if (!to) return from;
    job j = {.from = from, .to = to, .count = count, .kind = kind};
    int64_t chunks = (count + CHUNK - 1) / CHUNK;
    if (hil_pool_is_dry(pool)) return to;
    hil_pool_run(pool, find_most, &j, chunks);
    unsigned most = 0;
    for (int64_t i = 0; i < chunks; ++i) most = to[i * CHUNK] > most ? to[i * CHUNK] : most;
    j.shift = hil_fp8_shift(most, kind);
    j.finite = most < 0x7f80u;
    hil_pool_run(pool, round_chunk, &j, chunks);
    return to;
}

hil_tensor hil_operand_tensor(hil_pool *pool, hil_fp8 kind, const hil_tensor *from, uint16_t *to)
{
    int64_t count = hil_shape_count(&from->shape);
    const void *data = hil_operand_round(pool, kind, from->data, count, to);
    return (hil_tensor){from->dtype, from->shape, (void *)(uintptr_t)data};
}
