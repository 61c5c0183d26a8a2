/* gemm_simd.h - the matrix product's kernels on `vec`, a vector of LANES floats. Included by one
   file for each instruction set, after it has defined vec, VEC, which names an instruction's
   function, the functions that differ, MR, NR and VECTORS. */

#include "ops/linear/gemm_tile.h"

/* Prefetch distance. */
#define AHEAD_BYTES 512
#define AHEAD_ROWS 8

INLINE vec vec_all(float x)
{
    return VEC(set1)(x);
}
INLINE vec vec_fma(vec a, vec b, vec c)
{
    return VEC(fmadd)(a, b, c);
}

INLINE int64_t at_most(int64_t x, int64_t most)
{
    return x < most ? x : most;
}

INLINE int64_t whole_depth(int64_t depth)
{
    return (depth + LANES - 1) / LANES * LANES;
}

/* `dtype` is a constant where this is compiled: a call in the loops would spill every vector. */
INLINE void ask_for(const hil_strip *s, hil_dtype dtype, int64_t at, int64_t bytes)
{
    size_t size = dtype == HIL_F32 ? sizeof(float) : sizeof(uint16_t);
    __builtin_prefetch((const char *)s->data + (size_t)at * size + bytes);
}

INLINE void transpose(vec r[LANES])
{
    vec t[LANES];
#pragma GCC unroll 8
    for (int i = 0; i < LANES; i += 2) {
        t[i] = VEC(unpacklo)(r[i], r[i + 1]);
        t[i + 1] = VEC(unpackhi)(r[i], r[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < LANES; i += 4) {
        r[i] = VEC(shuffle)(t[i], t[i + 2], 0x44);
        r[i + 1] = VEC(shuffle)(t[i], t[i + 2], 0xee);
        r[i + 2] = VEC(shuffle)(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = VEC(shuffle)(t[i + 1], t[i + 3], 0xee);
    }
    transpose_parts(r);
}

/* Up to LANES columns of contiguous k, LANES of them, become rows of the panel. */
INLINE void pack_square(float *to, const hil_strip *s, hil_dtype dtype, int64_t at, int64_t columns,
                        int64_t depth)
{
    vec r[LANES];
#pragma GCC unroll 16
    for (int i = 0; i < LANES; ++i) {
        r[i] = vec_zero();
        if (i < columns) {
            ask_for(s, dtype, at + i * s->stride, AHEAD_BYTES);
            r[i] = vec_convert(s->data, dtype, at + i * s->stride, depth);
        }
    }
    transpose(r);
#pragma GCC unroll 16
    for (int i = 0; i < LANES; ++i) vec_store(to + i * NR, r[i]);
}

INLINE void pack_transposed(float *panels, const hil_strip *s, hil_dtype dtype)
{
    int64_t padded = whole_depth(s->depth);
    for (int64_t first = 0; first < s->count; first += NR, panels += padded * NR)
        for (int64_t i = 0; i < NR; i += LANES)
            for (int64_t k = 0; k < padded; k += LANES) {
                int64_t at = (first + i) * s->stride + k;
                int64_t columns = s->count - first - i, depth = s->depth - k;
                if (columns >= LANES && depth >= LANES)
                    pack_square(panels + i + k * NR, s, dtype, at, LANES, LANES);
                else
                    pack_square(panels + i + k * NR, s, dtype, at, columns, at_most(depth, LANES));
            }
}

/* One k of a panel of `width`, of which `count` rows (columns) are in the strip. */
INLINE void pack_line(float *to, const hil_strip *s, hil_dtype dtype, int64_t at, int width,
                      int64_t count)
{
#pragma GCC unroll 4
    for (int i = 0; i < width; i += LANES) {
        vec v = vec_zero();
        if (i < count) {
            ask_for(s, dtype, at + AHEAD_ROWS * s->k_stride + i, 0);
            v = vec_convert(s->data, dtype, at + i, at_most(count - i, at_most(width - i, LANES)));
        }
        store_first(to + i, v, at_most(width - i, LANES));
    }
}

/* Rows (columns) are contiguous: panel[k][width]. A few k at a time: they stay in the first-level
   cache for the next panel, and each panel gets whole lines. */
INLINE void pack_straight(float *panels, const hil_strip *s, int width, hil_dtype dtype)
{
    int64_t padded = whole_depth(s->depth);
    for (int64_t start = 0; start < padded; start += LANES)
        for (int64_t first = 0; first < s->count; first += width) {
            float *to = panels + first * padded + start * width;
            int64_t at = start * s->k_stride + first, count = s->count - first;
            int64_t depth = at_most(s->depth - start, LANES);
            if (count >= width && depth == LANES)
                for (int k = 0; k < LANES; ++k)
                    pack_line(to + k * width, s, dtype, at + k * s->k_stride, width, width);
            else
                for (int k = 0; k < LANES; ++k)
                    pack_line(to + k * width, s, dtype, at + k * s->k_stride, width,
                              k < depth ? count : 0);
        }
}

/* LANES k of MR rows from element `at`, of which `rows` and `depth` are in the strip. */
INLINE void pack_run(float *to, const hil_strip *s, hil_dtype dtype, int64_t at, int64_t rows,
                     int64_t depth)
{
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) {
        vec v = vec_zero();
        if (i < rows) {
            ask_for(s, dtype, at + i * s->stride, AHEAD_BYTES);
            v = vec_convert(s->data, dtype, at + i * s->stride, depth);
        }
        vec_store(to + i * LANES, v);
    }
}

/* Rows of contiguous k stay runs of LANES: panel[k / LANES][MR][LANES]. */
INLINE void pack_runs(float *panels, const hil_strip *s, hil_dtype dtype)
{
    for (int64_t first = 0; first < s->count; first += MR)
        for (int64_t k = 0; k < s->depth; k += LANES, panels += MR * LANES) {
            int64_t at = first * s->stride + k, rows = s->count - first, depth = s->depth - k;
            if (rows >= MR && depth >= LANES)
                pack_run(panels, s, dtype, at, MR, LANES);
            else
                pack_run(panels, s, dtype, at, rows, at_most(depth, LANES));
        }
}

INLINE void pack_a_as(float *panels, const hil_strip *s, hil_dtype dtype)
{
    if (s->k_stride == 1)
        pack_runs(panels, s, dtype);
    else
        pack_straight(panels, s, MR, dtype);
}

INLINE void pack_b_as(float *panels, const hil_strip *s, hil_dtype dtype)
{
    if (s->k_stride == 1)
        pack_transposed(panels, s, dtype);
    else
        pack_straight(panels, s, NR, dtype);
}

static void pack_a(void *panels, const hil_strip *strip)
{
    if (strip->dtype == HIL_F32)
        pack_a_as(panels, strip, HIL_F32);
    else if (strip->dtype == HIL_BF16)
        pack_a_as(panels, strip, HIL_BF16);
    else
        pack_a_as(panels, strip, HIL_F16);
}

static void pack_b(void *panels, const hil_strip *strip)
{
    if (strip->dtype == HIL_F32)
        pack_b_as(panels, strip, HIL_F32);
    else if (strip->dtype == HIL_BF16)
        pack_b_as(panels, strip, HIL_BF16);
    else
        pack_b_as(panels, strip, HIL_F16);
}

/* `depth` steps of k; element (i, k) of A is a[i * row_step + k * k_step]. */
INLINE void accumulate(tile_sums *sum, const float *a, const float *b, int64_t depth, int row_step,
                       int k_step)
{
    for (int64_t k = 0; k < depth; ++k, a += k_step, b += NR) {
        vec column[VECTORS];
#pragma GCC unroll 4
        for (int j = 0; j < VECTORS; ++j) column[j] = vec_load(b + j * LANES);
#pragma GCC unroll 32
        for (int i = 0; i < MR; ++i) {
            vec row = vec_all(a[i * row_step]);
#pragma GCC unroll 4
            for (int j = 0; j < VECTORS; ++j)
                sum->of[i][j] = vec_fma(row, column[j], sum->of[i][j]);
        }
    }
}

static void tile(const hil_tile *t)
{
    tile_sums sum;
    tile_begin(&sum, t);
    const float *a = t->a, *b = t->b;
    if (t->a_by_rows)
        for (int64_t k = 0; k < t->depth; k += LANES, a += MR * LANES, b += NR * LANES)
            accumulate(&sum, a, b, LANES, LANES, 1);
    else
        accumulate(&sum, a, b, t->depth, 1, MR);
    tile_end(&sum, t);
}

typedef struct sums {
    vec of[HIL_GEMM_FEW][4];
} sums;

/* Dot products, compiled for m rows of A by `columns` columns of B of one dtype. */
typedef struct dots {
    int columns, m;
    hil_dtype dtype;
} dots;

/* Adds the products of `count` consecutive k. */
INLINE void dot_step(sums *sum, const hil_few *f, dots d, int64_t column, int64_t k, int64_t count)
{
    vec b[4];
#pragma GCC unroll 4
    for (int j = 0; j < d.columns; ++j)
        b[j] = vec_convert(f->b, d.dtype, (column + j) * f->b_stride + k, count);
#pragma GCC unroll 8
    for (int i = 0; i < d.m; ++i) {
        vec a = vec_convert(f->a, HIL_F32, i * f->k + k, count);
#pragma GCC unroll 4
        for (int j = 0; j < d.columns; ++j) sum->of[i][j] = vec_fma(a, b[j], sum->of[i][j]);
    }
}

INLINE void dot(const hil_few *f, dots d, int64_t column)
{
    sums sum;
#pragma GCC unroll 8
    for (int i = 0; i < d.m; ++i)
#pragma GCC unroll 4
        for (int j = 0; j < d.columns; ++j) sum.of[i][j] = vec_zero();
    int64_t k = 0;
    for (; k + LANES <= f->k; k += LANES) dot_step(&sum, f, d, column, k, LANES);
    if (k < f->k) dot_step(&sum, f, d, column, k, f->k - k);
#pragma GCC unroll 8
    for (int i = 0; i < d.m; ++i)
#pragma GCC unroll 4
        for (int j = 0; j < d.columns; ++j)
            f->c[i * f->c_stride + column + j] = vec_sum(sum.of[i][j]);
}

INLINE void few_rows(const hil_few *f, int m, hil_dtype dtype)
{
    int together = m <= 4 ? 4 : 2;
    int64_t column = 0;
    for (; column + together <= f->columns; column += together)
        dot(f, (dots){together, m, dtype}, column);
    for (; column < f->columns; ++column) dot(f, (dots){1, m, dtype}, column);
}

INLINE void few_as(const hil_few *f, hil_dtype dtype)
{
    switch (f->m) {
    case 1:
        few_rows(f, 1, dtype);
        break;
    case 2:
        few_rows(f, 2, dtype);
        break;
    case 3:
        few_rows(f, 3, dtype);
        break;
    case 4:
        few_rows(f, 4, dtype);
        break;
    case 5:
        few_rows(f, 5, dtype);
        break;
    case 6:
        few_rows(f, 6, dtype);
        break;
    case 7:
        few_rows(f, 7, dtype);
        break;
    default:
        few_rows(f, 8, dtype);
        break;
    }
}

static void few(const hil_few *f)
{
    if (f->b_dtype == HIL_F32)
        few_as(f, HIL_F32);
    else if (f->b_dtype == HIL_BF16)
        few_as(f, HIL_BF16);
    else
        few_as(f, HIL_F16);
}
