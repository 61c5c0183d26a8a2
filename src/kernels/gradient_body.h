/* gradient_body.h - the gradients of a block as fp32, chunk by chunk, compiled for the instruction
   set of the including file. */
#include "kernels/block.h"
#include "tensor/f16_rows.h"

#include <string.h>

#define CHUNK HIL_CODEC_GROUP

/* Elements [first, first + count) of a block while they are worked on, as fp32. */
typedef struct gradient_chunk {
    const hil_block *block;
    int64_t first, count;
    float g[CHUNK];
} gradient_chunk;

static inline bool next_chunk(gradient_chunk *c)
{
    c->first += c->count;
    int64_t rest = c->block->count - c->first;
    c->count = rest < CHUNK ? rest : CHUNK;
    return rest > 0;
}

static inline void load_gradient(const gradient_chunk *c, int use, float *out)
{
    const hil_block *b = c->block;
    const uint16_t *half = (const uint16_t *)b->gradient[use] + c->first;
    uint16_t rounded[CHUNK];
    if (b->sums && b->dtype != HIL_F32) {
        hil_dtype_from_f32(rounded, (const float *)b->gradient[use] + c->first, b->dtype, c->count);
        half = rounded;
    }
    if (b->dtype == HIL_F32)
        memcpy(out, (const float *)b->gradient[use] + c->first, (size_t)c->count * 4);
    else if (b->dtype == HIL_F16)
        hil_f16_load_row(out, half, c->count);
    else
        for (int64_t i = 0; i < c->count; ++i) out[i] = hil_bf16_load(half[i]);
}

/* All uses added in order. */
static inline void sum_gradient(gradient_chunk *c)
{
    float more[CHUNK];
    load_gradient(c, 0, c->g);
    for (int u = 1; u < c->block->gradients; ++u) {
        load_gradient(c, u, more);
        for (int64_t i = 0; i < c->count; ++i) c->g[i] += more[i];
    }
}
