/* gemm_tile.h - the sums of a tile in registers, MR x VECTORS vectors `vec` of LANES floats.
   Included by one file for each instruction set, after it has defined these, VEC, which names an
   instruction's function, and INLINE. */

INLINE vec vec_zero(void)
{
    return VEC(setzero)();
}
INLINE vec vec_load(const float *x)
{
    return VEC(loadu)(x);
}
INLINE void vec_store(float *x, vec v)
{
    VEC(storeu)(x, v);
}
INLINE vec vec_add(vec a, vec b)
{
    return VEC(add)(a, b);
}

typedef struct tile_sums {
    vec of[MR][VECTORS];
} tile_sums;

INLINE void tile_begin(tile_sums *sum, const hil_tile *t)
{
#pragma GCC unroll 32
    for (int i = 0; i < MR; ++i) {
#pragma GCC unroll 4
        for (int j = 0; j < VECTORS; ++j) {
            sum->of[i][j] = vec_zero();
            __builtin_prefetch(t->c + i * t->c_stride + j * LANES, 1);
        }
    }
}

/* Adds bias and base to the sums, and writes them to c. */
INLINE void tile_end(const tile_sums *sum, const hil_tile *t)
{
#pragma GCC unroll 32
    for (int i = 0; i < MR; ++i) {
        float *c = t->c + i * t->c_stride;
        const float *base = t->base ? t->base + i * t->c_stride : NULL;
#pragma GCC unroll 4
        for (int j = 0; j < VECTORS; ++j) {
            vec v = sum->of[i][j];
            if (base) v = vec_add(vec_load(base + j * LANES), v);
            if (t->bias) v = vec_add(v, vec_load(t->bias + j * LANES));
            vec_store(c + j * LANES, v);
        }
    }
}
