/* bench_adamw.c - AdamW's update, and the loops that only move the bytes it must move.
     bench_adamw ELEMENTS PIECES THREADS
   reads the number of a piece and the name of a loop from standard input, line by line, runs the
   loop once over ELEMENTS elements, and answers with one line: seconds and bytes per element.
   bench/adamw.py asks. */
#include "base/alloc.h"
#include "base/clock.h"
#include "optim/rule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define WIDE __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define WIDE
#endif

static hil_pool *pool;
static int64_t elements; /* of a piece */

/* One piece; the layouts share their moments. */
typedef struct piece {
    float *w, *g, *m, *v;
    uint16_t *high, *low, *half; /* of the bf16 layout: weights, what they lack, gradient */
} piece;

static void *memory(size_t each)
{
    size_t huge = (size_t)2 << 20, bytes = ((size_t)elements * each + huge - 1) / huge * huge;
    void *out = NULL;
    if (posix_memalign(&out, huge, bytes)) exit(1);
    madvise(out, bytes, MADV_HUGEPAGE);
    return out;
}

/* Streams of one element each, in whole chunks and aligned. */
typedef struct streams {
    float *a, *b, *c;
    const float *g;
    uint16_t *high, *low;
    const uint16_t *half;
} streams;

WIDE static void copy_cached(streams s, int64_t count)
{
    float *restrict a = s.a, *restrict b = s.b;
    for (int64_t i = 0; i < count; ++i) a[i] = b[i];
}

WIDE static void triad_cached(streams s, int64_t count)
{
    float *restrict a = s.a, *restrict b = s.b, *restrict c = s.c;
    for (int64_t i = 0; i < count; ++i) a[i] = b[i] + 0.5f * c[i];
}

WIDE static void mix_cached(streams s, int64_t count)
{
    float *restrict a = s.a, *restrict b = s.b, *restrict c = s.c;
    const float *restrict g = s.g;
    for (int64_t i = 0; i < count; ++i) {
        float add = 0.5f * g[i];
        a[i] += add;
        b[i] += add;
        c[i] += add;
    }
}

WIDE static void mix_half_cached(streams s, int64_t count)
{
    float *restrict b = s.b, *restrict c = s.c;
    uint16_t *restrict high = s.high, *restrict low = s.low;
    const uint16_t *restrict half = s.half;
    for (int64_t i = 0; i < count; ++i) {
        high[i] = (uint16_t)(high[i] ^ (half[i] & 1));
        low[i] = (uint16_t)(low[i] + half[i]);
        b[i] += 0.5f;
        c[i] += 0.5f;
    }
}

#if defined(__x86_64__)
/* The same with stores that pass the caches, a line at a time: out = a + 0.5 b. */
#define LINE 16
static void line_past(void *out, const void *a, const void *b)
{
    __m128 half = _mm_set1_ps(0.5f), sum[LINE / 4];
    for (int k = 0; k < LINE / 4; ++k)
        sum[k] = _mm_add_ps(_mm_load_ps((const float *)a + 4 * k),
                            _mm_mul_ps(half, _mm_load_ps((const float *)b + 4 * k)));
    for (int k = 0; k < LINE / 4; ++k) _mm_stream_ps((float *)out + 4 * k, sum[k]);
}

static void copy_past(streams s, int64_t count)
{
    for (int64_t i = 0; i < count; i += 4) _mm_stream_ps(s.a + i, _mm_load_ps(s.b + i));
}

static void triad_past(streams s, int64_t count)
{
    for (int64_t i = 0; i < count; i += LINE) line_past(s.a + i, s.b + i, s.c + i);
}

static void mix_past(streams s, int64_t count)
{
    for (int64_t i = 0; i < count; i += LINE) {
        line_past(s.a + i, s.a + i, s.g + i);
        line_past(s.b + i, s.b + i, s.g + i);
        line_past(s.c + i, s.c + i, s.g + i);
    }
}

static void mix_half_past(streams s, int64_t count)
{
    static const float zero[LINE] __attribute__((aligned(64)));
    for (int64_t i = 0; i < count; i += 2 * LINE) {
        line_past(s.high + i, s.high + i, zero);
        line_past(s.low + i, s.low + i, zero);
        for (int64_t k = i; k < i + 2 * LINE; k += LINE) {
            line_past(s.b + k, s.b + k, s.half + i);
            line_past(s.c + k, s.c + k, s.half + i);
        }
    }
}
#else
#define copy_past copy_cached
#define triad_past triad_cached
#define mix_past mix_cached
#define mix_half_past mix_half_cached
#endif

/* What one run does to elements [first, first + count) of a piece: `move` it, or update it. */
typedef struct loop {
    const char *name;
    double bytes; /* that must move, per element */
    void (*move)(streams s, int64_t count);
    hil_dtype dtype;
} loop;

static void run_move(const loop *self, const piece *p, int64_t first, int64_t count)
{
    self->move((streams){p->w + first, p->m + first, p->v + first, p->g + first, p->high + first,
                         p->low + first, p->half + first},
               count);
}

static void run_adamw(const loop *self, const piece *p, int64_t first, int64_t count)
{
    static const hil_rule_step step = {0.9999f, 0.1f, 0.95f, 0.05f, 1e-4f, 1, 1e-8f, 1, 1e-4f};
    hil_block block = {
        .count = count,
        .dtype = self->dtype,
        .weight = p->w + first,
        .moment = {p->m + first, p->v + first},
        .gradient = {p->g + first},
        .gradients = 1,
    };
    if (self->dtype == HIL_BF16) {
        block.weight = p->high + first;
        block.rest = p->low + first;
        block.gradient[0] = p->half + first;
    }
    hil_rule_update(&hil_rules[HIL_ADAMW], &step, &block);
}

static const loop loops[] = {
    {"copy", 8, copy_cached, HIL_F32},
    {"copy, non-temporal", 8, copy_past, HIL_F32},
    {"triad", 12, triad_cached, HIL_F32},
    {"triad, non-temporal", 12, triad_past, HIL_F32},
    {"mix fp32", 28, mix_cached, HIL_F32},
    {"mix fp32, non-temporal", 28, mix_past, HIL_F32},
    {"mix bf16", 26, mix_half_cached, HIL_BF16},
    {"mix bf16, non-temporal", 26, mix_half_past, HIL_BF16},
    {"adamw fp32", 28, NULL, HIL_F32},
    {"adamw bf16", 26, NULL, HIL_BF16},
};
#define LOOPS (sizeof loops / sizeof *loops)

typedef struct job {
    const loop *loop; /* NULL: fill the piece */
    const piece *piece;
} job;

/* Small positive numbers for every layout: none of the loops ever meets a denormal one. */
static void fill_block(const piece *p, int64_t first, int64_t count)
{
    for (int64_t k = first; k < first + count; ++k) {
        uint32_t bits = 0x3c003c00u | ((uint32_t)k * 2654435761u & 0x00ff00ffu);
        p->w[k] = p->g[k] = p->m[k] = p->v[k] = hil_float(bits);
        p->high[k] = p->low[k] = p->half[k] = (uint16_t)bits;
    }
}

static void run_block(void *context, int64_t i, int thread)
{
    (void)thread;
    const job *j = context;
    if (!j->loop)
        fill_block(j->piece, i * HIL_BLOCK, HIL_BLOCK);
    else if (j->loop->move)
        run_move(j->loop, j->piece, i * HIL_BLOCK, HIL_BLOCK);
    else
        run_adamw(j->loop, j->piece, i * HIL_BLOCK, HIL_BLOCK);
}

static hil_status prepare(piece **pieces, int64_t count)
{
    HIL_TRY(HIL_ALLOC(count, pieces));
    for (int64_t i = 0; i < count; ++i) {
        (*pieces)[i] =
            (piece){memory(4), memory(4), memory(4), memory(4), memory(2), memory(2), memory(2)};
        job fill = {NULL, &(*pieces)[i]};
        hil_pool_run(pool, run_block, &fill, elements / HIL_BLOCK);
    }
    return HIL_OK;
}

int main(int argc, char **argv)
{
    piece *pieces;
    if (argc != 4) return 2;
    elements = strtoll(argv[1], NULL, 10) / HIL_BLOCK * HIL_BLOCK;
    int64_t count = strtoll(argv[2], NULL, 10);
    if (elements <= 0 || count <= 0) return 2;
    if (hil_pool_create(&pool, (int)strtol(argv[3], NULL, 10))) return 2;
    if (prepare(&pieces, count)) return 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (char line[80]; fgets(line, sizeof line, stdin);) {
        char *name;
        job j = {NULL, &pieces[strtoll(line, &name, 10) % count]};
        name[strcspn(name, "\n")] = 0;
        for (size_t i = 0; i < LOOPS; ++i)
            if (strcmp(loops[i].name, name + 1) == 0) j.loop = &loops[i];
        if (!j.loop) return 2;
        double start = hil_clock_now();
        hil_pool_run(pool, run_block, &j, elements / HIL_BLOCK);
        printf("%.9f %g\n", hil_clock_now() - start, j.loop->bytes);
    }
    hil_pool_destroy(pool);
    return 0;
}
