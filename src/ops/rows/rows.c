/* rows.c - reads and writes rows of any dtype as fp32; sums over rows. */
#include "ops/rows/rows.h"

#include "base/cpu.h"

#include <string.h>

#ifndef HIL_WITH_AVX2
#define hil_rows_avx2 hil_rows_portable
#endif
#ifndef HIL_WITH_AVX512
#define hil_rows_avx512 hil_rows_avx2
#endif

#define GRID_BLOCKS 128 /* bounds the memory of partial sums */
#define GRID_ROWS 16    /* at least, so that partial sums cost little */
#define GATHER_COLS 256
#define WRITE_COUNT 16384
#define PIECE 1024

const hil_row_kernel *hil_rows(void)
{
    static const hil_row_kernel *const kernels[] = {&hil_rows_portable, &hil_rows_avx2,
                                                    &hil_rows_avx512};
    return kernels[hil_cpu_vectors()];
}

const float *hil_row_read(const hil_tensor *x, int64_t at, int64_t n, float *buffer)
{
    if (x->dtype == HIL_F32) return (const float *)x->data + at;
    const uint16_t *half = (const uint16_t *)x->data + at;
    if (x->dtype == HIL_BF16)
        hil_rows()->convert.from_bf16(buffer, half, n);
    else
        hil_rows()->convert.from_f16(buffer, half, n);
    return buffer;
}

float *hil_row_place(const hil_tensor *x, int64_t at, bool add, float *buffer)
{
    return x->dtype == HIL_F32 && !add ? (float *)x->data + at : buffer;
}

static void add_half(const hil_tensor *x, int64_t at, int64_t n, const float *from)
{
    float sum[PIECE];
    for (int64_t i = 0; i < n; i += PIECE) {
        int64_t part = n - i < PIECE ? n - i : PIECE;
        hil_row_read(x, at + i, part, sum);
        hil_rows()->math.add(sum, sum, from + i, part);
        hil_row_write(x, at + i, part, sum, false);
    }
}

void hil_row_write(const hil_tensor *x, int64_t at, int64_t n, const float *from, bool add)
{
    if (x->dtype == HIL_F32) {
        float *to = (float *)x->data + at;
        if (add)
            hil_rows()->math.add(to, to, from, n);
        else if (to != from)
            memcpy(to, from, (size_t)n * sizeof *to);
        return;
    }
    uint16_t *to = (uint16_t *)x->data + at;
    if (add)
        add_half(x, at, n, from);
    else if (x->dtype == HIL_BF16)
        hil_rows()->convert.to_bf16(to, from, n);
    else
        hil_rows()->convert.to_f16(to, from, n);
}

void hil_row_copy(const hil_tensor *to, int64_t to_at, const hil_tensor *from, int64_t at,
                  int64_t n, bool add)
{
    if (to->dtype == from->dtype && !add) {
        size_t size = hil_dtype_size(to->dtype);
        memcpy((char *)to->data + (size_t)to_at * size,
               (const char *)from->data + (size_t)at * size, (size_t)n * size);
        return;
    }
    float buffer[PIECE];
    for (int64_t i = 0; i < n; i += PIECE) {
        int64_t part = n - i < PIECE ? n - i : PIECE;
        hil_row_write(to, to_at + i, part, hil_row_read(from, at + i, part, buffer), add);
    }
}

void hil_row_clear(const hil_tensor *x, int64_t at, int64_t n)
{
    size_t size = hil_dtype_size(x->dtype);
    memset((char *)x->data + (size_t)at * size, 0, (size_t)n * size);
}

typedef struct write_job {
    const hil_tensor *x;
    const float *from;
    int64_t count;
    bool add;
} write_job;

static void write_task(void *context, int64_t task, int thread)
{
    (void)thread;
    const write_job *j = context;
    int64_t at = task * WRITE_COUNT;
    int64_t n = j->count - at < WRITE_COUNT ? j->count - at : WRITE_COUNT;
    hil_row_write(j->x, at, n, j->from + at, j->add);
}

void hil_row_write_all(hil_pool *pool, const hil_tensor *x, const float *from, bool add)
{
    write_job j = {x, from, hil_shape_count(&x->shape), add};
    hil_pool_run(pool, write_task, &j, (j.count + WRITE_COUNT - 1) / WRITE_COUNT);
}

hil_grid hil_row_grid(int64_t rows)
{
    hil_grid grid = {.rows = rows, .block = GRID_ROWS};
    if (rows > GRID_ROWS * GRID_BLOCKS) grid.block = (rows + GRID_BLOCKS - 1) / GRID_BLOCKS;
    grid.blocks = (rows + grid.block - 1) / grid.block;
    return grid;
}

static void gather_columns(void *context, int64_t task, int thread)
{
    (void)thread;
    const hil_gather *g = context;
    int64_t at = task * GATHER_COLS;
    int64_t n = g->cols - at < GATHER_COLS ? g->cols - at : GATHER_COLS;
    float total[GATHER_COLS];
    memset(total, 0, sizeof total);
    for (int64_t b = 0; b < g->blocks; ++b)
        hil_rows()->math.add(total, total, g->partial + b * g->cols + at, n);
    if (g->add)
        hil_rows()->math.add(g->sum + at, g->sum + at, total, n);
    else
        memcpy(g->sum + at, total, (size_t)n * sizeof *total);
}

void hil_row_gather(hil_pool *pool, const hil_gather *gather)
{
    hil_gather g = *gather;
    hil_pool_run(pool, gather_columns, &g, (g.cols + GATHER_COLS - 1) / GATHER_COLS);
}
