/* rows.h - rows of numbers of any dtype as fp32, and the arithmetic on them.

   [Note: order of the sums in rows] A sum over a row has HIL_LANES partial sums, element i going to
   sum i modulo HIL_LANES, which are then added pairwise. A sum over rows is cut into the blocks of
   hil_row_grid, each summed in order, and the blocks are added in order. So no sum depends on
   threads, and without contraction of multiply and add no result depends on the instruction set. */
#ifndef HIL_OPS_ROWS_ROWS_H
#define HIL_OPS_ROWS_ROWS_H

#include "base/pool.h"
#include "tensor/tensor.h"

#define HIL_LANES 16

/* One row of LayerNorm, or of RMSNorm, where mean is 0 and stays out of the gradient. */
typedef struct hil_row_norm {
    const float *weight;
    const float *bias; /* NULL for none */
    float mean, scale; /* scale: 1 / deviation */
    bool centered;
    float *dweight, *dbias; /* sums to add to; NULL where not wanted */
} hil_row_norm;

/* Arithmetic on `n` fp32 numbers for one instruction set. Outputs may be the inputs themselves. */
typedef struct hil_row_convert {
    void (*from_bf16)(float *out, const uint16_t *in, int64_t n);
    void (*to_bf16)(uint16_t *out, const float *in, int64_t n);
    void (*from_f16)(float *out, const uint16_t *in, int64_t n);
    void (*to_f16)(uint16_t *out, const float *in, int64_t n);
} hil_row_convert;

typedef struct hil_row_math {
    void (*add)(float *out, const float *x, const float *y, int64_t n);
    void (*multiply)(float *out, const float *x, const float *y, int64_t n);
    void (*scale)(float *out, const float *x, float factor, int64_t n);
    float (*sum)(const float *x, int64_t n);
    float (*sum_squares)(const float *x, float mean, int64_t n); /* of x - mean */
    float (*max)(const float *x, int64_t n);                     /* -infinity if n is 0 */
    float (*exp_sum)(float *x, float max, int64_t n); /* x = exp(x - max); returns the sum */
} hil_row_math;

typedef struct hil_row_activation {
    void (*sigmoid)(float *out, const float *x, int64_t n);
    void (*gelu_tanh)(float *out, const float *x, int64_t n);
    void (*gelu_tanh_back)(float *dx, const float *x, const float *dy, int64_t n);
    void (*gelu_erf)(float *out, const float *x, int64_t n);
    void (*gelu_erf_back)(float *dx, const float *x, const float *dy, int64_t n);
    void (*swiglu)(float *out, const float *gate, const float *up, int64_t n);
    /* in: gate, up, dy; out: gradients of gate and up */
    void (*swiglu_back)(float *const out[2], const float *const in[3], int64_t n);
} hil_row_activation;

typedef struct hil_row_cap {
    /* out = cap * tanh(x / cap) */
    void (*bound)(float *out, const float *x, float cap, int64_t n);
    /* dx = dy * (1 - (y / cap)^2), where y is bounded already */
    void (*slope)(float *dx, const float *y, const float *dy, float cap, int64_t n);
} hil_row_cap;

typedef struct hil_row_normalize {
    /* out = (x - mean) * scale * weight + bias */
    void (*normalize)(float *out, const float *x, const hil_row_norm *norm, int64_t n);
    /* Adds to dweight and dbias. */
    void (*normalize_back)(const hil_row_norm *norm, const float *x, const float *dy, int64_t n);
    void (*normalize_dx)(float *dx, const hil_row_norm *norm, const float *x, const float *dy,
                         int64_t n);
} hil_row_normalize;

typedef struct hil_row_position {
    /* low, high: the halves of a head of 2n numbers, rotated in place by (cosine, sine). */
    void (*rotate)(float *low, float *high, const float *cosine, const float *sine, int64_t n);
    /* sine and cosine of position * frequency[i]. */
    void (*angles)(float *cosine, float *sine, const float *frequency, float position, int64_t n);
} hil_row_position;

typedef struct hil_row_random {
    /* Philox4x32-10 of counters (low + i, high), four words each. */
    void (*philox)(uint32_t *out, uint64_t key, uint64_t low, uint64_t high, int64_t blocks);
    /* 0 where a word's upper 24 bits are below `dropped`, else `kept`. */
    void (*keep)(float *out, const uint32_t *word, int32_t dropped, float kept, int64_t n);
} hil_row_random;

/* A convolution over rows, with SiLU. */
typedef struct hil_row_conv {
    void (*multiply_add)(float *sum, const float *x, const float *y, int64_t n); /* sum += x * y */
    void (*silu)(float *out, const float *x, int64_t n);
    void (*silu_back)(float *dx, const float *x, const float *dy, int64_t n);
} hil_row_conv;

/* A matrix of rows x cols numbers: the state of a recurrence. */
typedef struct hil_row_state {
    /* out[cols] = the sum of the rows, each times its factor, in their order */
    void (*read)(float *out, const float *matrix, const float *factor, int64_t rows, int64_t cols);
    /* out[rows] = the products of the rows with x */
    void (*dots)(float *out, const float *matrix, const float *x, int64_t rows, int64_t cols);
    /* matrix = kept * matrix + factor x', where factor[rows] and x[cols] are vectors */
    void (*update)(float *matrix, float kept, const float *factor, const float *x, int64_t rows,
                   int64_t cols);
} hil_row_state;

typedef struct hil_row_kernel {
    const char *name;
    hil_row_convert convert;
    hil_row_math math;
    hil_row_activation activation;
    hil_row_cap cap;
    hil_row_normalize norm;
    hil_row_position position;
    hil_row_random random;
    hil_row_conv conv;
    hil_row_state state;
} hil_row_kernel;

/* The kernel for this CPU. */
const hil_row_kernel *hil_rows(void);
extern const hil_row_kernel hil_rows_portable, hil_rows_avx2, hil_rows_avx512;

/* Elements [at, at + n) as fp32: in place, or a converted copy in `buffer`. */
const float *hil_row_read(const hil_tensor *x, int64_t at, int64_t n, float *buffer);
/* Where to put n fp32 results before hil_row_write: in place, or `buffer`. */
float *hil_row_place(const hil_tensor *x, int64_t at, bool add, float *buffer);
/* Writes n numbers, rounded once, to elements [at, at + n), or adds them there. */
void hil_row_write(const hil_tensor *x, int64_t at, int64_t n, const float *from, bool add);

/* Copies n numbers from one tensor to another, or adds them there. */
void hil_row_copy(const hil_tensor *to, int64_t to_at, const hil_tensor *from, int64_t at,
                  int64_t n, bool add);
/* Elements [at, at + n) become zeros. */
void hil_row_clear(const hil_tensor *x, int64_t at, int64_t n);
/* Rounds a whole tensor once from fp32. */
void hil_row_write_all(hil_pool *pool, const hil_tensor *x, const float *from, bool add);

/* Cuts rows into blocks; depends on the number of rows only. */
typedef struct hil_grid {
    int64_t rows, block, blocks;
} hil_grid;
hil_grid hil_row_grid(int64_t rows);
static inline int64_t hil_grid_end(const hil_grid *grid, int64_t block)
{
    int64_t end = (block + 1) * grid->block;
    return end < grid->rows ? end : grid->rows;
}

/* sum[cols] = partial[0] + partial[1] + ... (blocks x cols), or added to what it holds. */
typedef struct hil_gather {
    float *sum;
    const float *partial;
    int64_t blocks, cols;
    bool add;
} hil_gather;
void hil_row_gather(hil_pool *pool, const hil_gather *gather);

#endif
