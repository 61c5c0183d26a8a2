/* rows_body.h - arithmetic on rows, compiled once for each instruction set: the including file
   defines ROWS_NAME, ROWS_KERNEL and ROWS_BYTES, the size of the set's vectors. */
#include "ops/rows/rows.h"
#include "ops/rows/vmath.h"
#include "tensor/f16_rows.h"

#include <math.h>
#include <string.h>

#define PIECE 256

typedef float vector __attribute__((vector_size(ROWS_BYTES), aligned(4)));
typedef int32_t vector_bits __attribute__((vector_size(ROWS_BYTES), aligned(4)));

#define WIDTH (ROWS_BYTES / 4)
#define VECTORS (HIL_LANES / WIDTH)

/* HIL_LANES sums, and their sum. */
typedef struct lanes {
    vector v[VECTORS];
} lanes;

static inline const vector *at(const float *x)
{
    return (const vector *)x;
}

static inline float total(const lanes *sums)
{
    float sum[HIL_LANES];
    memcpy(sum, sums, sizeof sum);
    for (int half = HIL_LANES / 2; half; half /= 2)
        for (int i = 0; i < half; ++i) sum[i] += sum[i + half];
    return sum[0];
}

/* The last n < HIL_LANES numbers, padded. */
static inline void copy_tail(float out[HIL_LANES], const float *x, int64_t n, float fill)
{
    for (int64_t i = 0; i < HIL_LANES; ++i) out[i] = fill;
    for (int64_t i = 0; i < n; ++i) out[i] = x[i];
}

static void from_bf16(float *out, const uint16_t *in, int64_t n)
{
    for (int64_t i = 0; i < n; ++i) out[i] = hil_bf16_load(in[i]);
}

static void add(float *out, const float *x, const float *y, int64_t n)
{
    for (int64_t i = 0; i < n; ++i) out[i] = x[i] + y[i];
}

static void multiply(float *out, const float *x, const float *y, int64_t n)
{
    for (int64_t i = 0; i < n; ++i) out[i] = x[i] * y[i];
}

static void scale(float *out, const float *x, float factor, int64_t n)
{
    for (int64_t i = 0; i < n; ++i) out[i] = x[i] * factor;
}

static inline void sum_lanes(lanes *s, const float *x)
{
    for (int i = 0; i < VECTORS; ++i) s->v[i] += at(x)[i];
}

static float sum(const float *x, int64_t n)
{
    lanes s = {0};
    float tail[HIL_LANES];
    int64_t i = 0;
    for (; i + HIL_LANES <= n; i += HIL_LANES) sum_lanes(&s, x + i);
    if (i == n) return total(&s);
    copy_tail(tail, x + i, n - i, 0);
    sum_lanes(&s, tail);
    return total(&s);
}

static inline void square_lanes(lanes *s, const float *x, float mean)
{
    for (int i = 0; i < VECTORS; ++i) {
        vector d = at(x)[i] - mean;
        s->v[i] += d * d;
    }
}

static float sum_squares(const float *x, float mean, int64_t n)
{
    lanes s = {0};
    float tail[HIL_LANES];
    int64_t i = 0;
    for (; i + HIL_LANES <= n; i += HIL_LANES) square_lanes(&s, x + i, mean);
    if (i == n) return total(&s);
    copy_tail(tail, x + i, n - i, mean);
    square_lanes(&s, tail, mean);
    return total(&s);
}

static inline void max_lanes(lanes *top, const float *x)
{
    for (int i = 0; i < VECTORS; ++i) {
        vector v = at(x)[i];
        vector_bits above = v > top->v[i];
        top->v[i] = (vector)(((vector_bits)v & above) | ((vector_bits)top->v[i] & ~above));
    }
}

static float max(const float *x, int64_t n)
{
    lanes top;
    float last[HIL_LANES];
    copy_tail(last, x, 0, -INFINITY);
    memcpy(&top, last, sizeof top);
    int64_t i = 0;
    for (; i + HIL_LANES <= n; i += HIL_LANES) max_lanes(&top, x + i);
    copy_tail(last, x + i, n - i, -INFINITY);
    max_lanes(&top, last);
    memcpy(last, &top, sizeof last);
    float most = last[0];
    for (int j = 1; j < HIL_LANES; ++j) most = last[j] > most ? last[j] : most;
    return most;
}

static float exp_sum(float *x, float most, int64_t n)
{
    lanes s = {0};
    int64_t i = 0;
    for (; i + PIECE <= n; i += PIECE) {
        for (int j = 0; j < PIECE; ++j) x[i + j] = hil_exp(x[i + j] - most);
        for (int j = 0; j < PIECE; j += HIL_LANES) sum_lanes(&s, x + i + j);
    }
    for (int64_t j = i; j < n; ++j) x[j] = hil_exp(x[j] - most);
    for (; i + HIL_LANES <= n; i += HIL_LANES) sum_lanes(&s, x + i);
    float tail[HIL_LANES];
    copy_tail(tail, x + i, n - i, 0);
    sum_lanes(&s, tail);
    return total(&s);
}

/* (1 + tanh(u)) / 2 is the logistic function of 2u: one exponential and no branches. */
#define GELU_C 1.5957691216057308f /* 2 sqrt(2 / pi) */
#define GELU_A 0.044715f

static void gelu_tanh(float *out, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; ++i) {
        float v = x[i];
        out[i] = v * hil_sigmoid(GELU_C * (v + GELU_A * v * v * v));
    }
}

static void gelu_tanh_back(float *dx, const float *x, const float *dy, int64_t n)
{
    for (int64_t i = 0; i < n; ++i) {
        float v = x[i], s = hil_sigmoid(GELU_C * (v + GELU_A * v * v * v));
        float slope = GELU_C * (1.0f + 3.0f * GELU_A * v * v);
        dx[i] = dy[i] * (s + v * s * (1.0f - s) * slope);
    }
}

static void gelu_erf(float *out, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; ++i)
        out[i] = 0.5f * x[i] * (1.0f + hil_erf(x[i] * 0.7071067811865476f));
}

static void gelu_erf_back(float *dx, const float *x, const float *dy, int64_t n)
{
    for (int64_t i = 0; i < n; ++i) {
        float v = x[i], density = 0.3989422804014327f * hil_exp(-0.5f * v * v);
        dx[i] = dy[i] * (0.5f * (1.0f + hil_erf(v * 0.7071067811865476f)) + v * density);
    }
}

static void sigmoid(float *out, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; ++i) out[i] = hil_sigmoid(x[i]);
}

static void swiglu(float *out, const float *gate, const float *up, int64_t n)
{
    for (int64_t i = 0; i < n; ++i) out[i] = gate[i] * hil_sigmoid(gate[i]) * up[i];
}

static void swiglu_back(float *const out[2], const float *const in[3], int64_t n)
{
    const float *gate = in[0], *up = in[1], *dy = in[2];
    float *dgate = out[0], *dup = out[1];
    for (int64_t i = 0; i < n; ++i) {
        float g = gate[i], u = up[i], d = dy[i];
        float s = hil_sigmoid(g);
        dgate[i] = d * u * s * (1.0f + g * (1.0f - s));
        dup[i] = d * g * s;
    }
}

static void bound(float *out, const float *x, float cap, int64_t n)
{
    for (int64_t i = 0; i < n; ++i) out[i] = cap * hil_tanh(x[i] / cap);
}

static void slope(float *dx, const float *y, const float *dy, float cap, int64_t n)
{
    for (int64_t i = 0; i < n; ++i) {
        float part = y[i] / cap;
        dx[i] = dy[i] * (1.0f - part * part);
    }
}

static void normalize(float *out, const float *x, const hil_row_norm *norm, int64_t n)
{
    const float *weight = norm->weight, *bias = norm->bias;
    float mean = norm->mean, s = norm->scale;
    if (bias)
        for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - mean) * s * weight[i] + bias[i];
    else
        for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - mean) * s * weight[i];
}

static void normalize_back(const hil_row_norm *norm, const float *x, const float *dy, int64_t n)
{
    float *restrict dweight = norm->dweight, *restrict dbias = norm->dbias;
    float mean = norm->mean, s = norm->scale;
    if (dweight)
        for (int64_t i = 0; i < n; ++i) dweight[i] += dy[i] * ((x[i] - mean) * s);
    if (dbias)
        for (int64_t i = 0; i < n; ++i) dbias[i] += dy[i];
}

/* Sums of dy * weight, plain and times the normalised x. */
static inline void project_lanes(lanes sums[2], const hil_row_norm *norm, const float *x,
                                 const float *dy, const float *weight)
{
    for (int i = 0; i < VECTORS; ++i) {
        vector g = at(dy)[i] * at(weight)[i];
        sums[0].v[i] += g;
        sums[1].v[i] += g * ((at(x)[i] - norm->mean) * norm->scale);
    }
}

static void normalize_dx(float *dx, const hil_row_norm *norm, const float *x, const float *dy,
                         int64_t n)
{
    const float *weight = norm->weight;
    float mean = norm->mean, s = norm->scale, tail[3][HIL_LANES];
    lanes sums[2] = {0};
    int64_t i = 0;
    for (; i + HIL_LANES <= n; i += HIL_LANES) project_lanes(sums, norm, x + i, dy + i, weight + i);
    if (i < n) {
        copy_tail(tail[0], x + i, n - i, mean);
        copy_tail(tail[1], dy + i, n - i, 0);
        copy_tail(tail[2], weight + i, n - i, 0);
        project_lanes(sums, norm, tail[0], tail[1], tail[2]);
    }
    float mean_plain = norm->centered ? total(&sums[0]) / (float)n : 0;
    float mean_along = total(&sums[1]) / (float)n;
    for (i = 0; i < n; ++i)
        dx[i] = s * (dy[i] * weight[i] - mean_plain - (x[i] - mean) * s * mean_along);
}

static void rotate(float *restrict low, float *restrict high, const float *restrict cosine,
                   const float *restrict sine, int64_t n)
{
    for (int64_t i = 0; i < n; ++i) {
        float a = low[i], b = high[i];
        low[i] = a * cosine[i] - b * sine[i];
        high[i] = b * cosine[i] + a * sine[i];
    }
}

/* In double: the angle may be many turns, and its remainder modulo a quarter turn must be exact to
   fp32. The first part of pi/2 has 33 bits, so that its product with up to 2^20 turns is exact. */
static void angles(float *restrict cosine, float *restrict sine, const float *restrict frequency,
                   float position, int64_t n)
{
    const double magic = 6755399441055744.0; /* 1.5 * 2^52: rounds to an integer in the low bits */
    for (int64_t i = 0; i < n; ++i) {
        double x = (double)(position * frequency[i]);
        double shifted = x * 0.6366197723675814 + magic, turns = shifted - magic;
        double r = (x - turns * 1.5707963267341256) - turns * 6.077100506506192e-11, u = r * r;
        double s = -2.5052108385441719e-8;
        s = s * u + 2.7557319223985893e-6;
        s = s * u + -1.9841269841269841e-4;
        s = s * u + 8.3333333333333333e-3;
        s = s * u + -1.6666666666666666e-1;
        s = s * u * r + r;
        double c = 2.0876756987868099e-9;
        c = c * u + -2.7557319223985893e-7;
        c = c * u + 2.4801587301587302e-5;
        c = c * u + -1.3888888888888889e-3;
        c = c * u + 4.1666666666666667e-2;
        c = c * u + -0.5;
        c = c * u + 1.0;
        uint64_t quarter;
        memcpy(&quarter, &shifted, sizeof quarter);
        uint32_t q = (uint32_t)quarter, sb = hil_bits((float)s), cb = hil_bits((float)c);
        uint32_t swap = 0u - (q & 1u);
        sine[i] = hil_float(((cb & swap) | (sb & ~swap)) ^ ((q & 2u) << 30));
        cosine[i] = hil_float(((sb & swap) | (cb & ~swap)) ^ (((q + 1u) & 2u) << 30));
    }
}

/* Philox4x32-10 (base/philox.h) for `blocks` consecutive counters. */
#define COUNTERS 64
static void philox(uint32_t *out, uint64_t key, uint64_t low, uint64_t high, int64_t blocks)
{
    for (int64_t b = 0; b < blocks; b += COUNTERS) {
        uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
        uint32_t c0[COUNTERS], c1[COUNTERS], c2[COUNTERS], c3[COUNTERS];
        for (int i = 0; i < COUNTERS; ++i) {
            uint64_t counter = low + (uint64_t)b + (uint64_t)i;
            c0[i] = (uint32_t)counter;
            c1[i] = (uint32_t)(counter >> 32);
            c2[i] = (uint32_t)high;
            c3[i] = (uint32_t)(high >> 32);
        }
        for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
            for (int i = 0; i < COUNTERS; ++i) {
                uint64_t p0 = (uint64_t)0xD2511F53u * c0[i], p1 = (uint64_t)0xCD9E8D57u * c2[i];
                c0[i] = (uint32_t)(p1 >> 32) ^ c1[i] ^ k0;
                c2[i] = (uint32_t)(p0 >> 32) ^ c3[i] ^ k1;
                c1[i] = (uint32_t)p1;
                c3[i] = (uint32_t)p0;
            }
        int64_t part = blocks - b < COUNTERS ? blocks - b : COUNTERS;
        for (int64_t i = 0; i < part; ++i) {
            uint32_t *word = out + 4 * (b + i);
            word[0] = c0[i];
            word[1] = c1[i];
            word[2] = c2[i];
            word[3] = c3[i];
        }
    }
}

static void keep(float *out, const uint32_t *word, int32_t dropped, float kept, int64_t n)
{
    for (int64_t i = 0; i < n; ++i) out[i] = hil_choose((int32_t)(word[i] >> 8) < dropped, 0, kept);
}

static void multiply_add(float *sums, const float *x, const float *y, int64_t n)
{
    for (int64_t i = 0; i < n; ++i) sums[i] += x[i] * y[i];
}

static void silu(float *out, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; ++i) out[i] = x[i] * hil_sigmoid(x[i]);
}

static void silu_back(float *dx, const float *x, const float *dy, int64_t n)
{
    for (int64_t i = 0; i < n; ++i) {
        float s = hil_sigmoid(x[i]);
        dx[i] = dy[i] * s * (1.0f + x[i] * (1.0f - s));
    }
}

#define STATE_LANES 4

/* Columns that are held in registers while all rows are read. */
static inline void read_columns(float *out, const float *matrix, const float *factor, int64_t rows,
                                int64_t cols)
{
    lanes sums[STATE_LANES] = {0};
    for (int64_t r = 0; r < rows; ++r)
        for (int k = 0; k < STATE_LANES; ++k)
            for (int i = 0; i < VECTORS; ++i)
                sums[k].v[i] += at(matrix + r * cols + k * HIL_LANES)[i] * factor[r];
    memcpy(out, sums, sizeof sums);
}

static void read_state(float *out, const float *matrix, const float *factor, int64_t rows,
                       int64_t cols)
{
    const int64_t step = STATE_LANES * HIL_LANES;
    int64_t c = 0;
    for (; c + step <= cols; c += step) read_columns(out + c, matrix + c, factor, rows, cols);
    for (int64_t i = c; i < cols; ++i) out[i] = 0;
    for (int64_t r = 0; r < rows && c < cols; ++r)
        for (int64_t i = c; i < cols; ++i) out[i] += matrix[r * cols + i] * factor[r];
}

static inline void dot_lanes(lanes *s, const float *x, const float *y)
{
    for (int i = 0; i < VECTORS; ++i) s->v[i] += at(x)[i] * at(y)[i];
}

static void dot_state(float *out, const float *matrix, const float *x, int64_t rows, int64_t cols)
{
    int64_t whole = cols / HIL_LANES * HIL_LANES;
    float last[HIL_LANES], tail[HIL_LANES];
    copy_tail(last, x + whole, cols - whole, 0);
    for (int64_t r = 0; r < rows; ++r) {
        lanes s = {0};
        for (int64_t i = 0; i < whole; i += HIL_LANES) dot_lanes(&s, matrix + r * cols + i, x + i);
        if (whole < cols) {
            copy_tail(tail, matrix + r * cols + whole, cols - whole, 0);
            dot_lanes(&s, tail, last);
        }
        out[r] = total(&s);
    }
}

static void update_state(float *matrix, float kept, const float *factor, const float *x,
                         int64_t rows, int64_t cols)
{
    for (int64_t r = 0; r < rows; ++r) {
        float *row = matrix + r * cols;
        for (int64_t i = 0; i < cols; ++i) row[i] = row[i] * kept + x[i] * factor[r];
    }
}

const hil_row_kernel ROWS_KERNEL = {
    .name = ROWS_NAME,
    .convert =
        {
            .from_bf16 = from_bf16,
            .to_bf16 = hil_bf16_round_row,
            .from_f16 = hil_f16_load_row,
            .to_f16 = hil_f16_round_row,
        },
    .math =
        {
            .add = add,
            .multiply = multiply,
            .scale = scale,
            .sum = sum,
            .sum_squares = sum_squares,
            .max = max,
            .exp_sum = exp_sum,
        },
    .activation =
        {
            .sigmoid = sigmoid,
            .gelu_tanh = gelu_tanh,
            .gelu_tanh_back = gelu_tanh_back,
            .gelu_erf = gelu_erf,
            .gelu_erf_back = gelu_erf_back,
            .swiglu = swiglu,
            .swiglu_back = swiglu_back,
        },
    .cap =
        {
            .bound = bound,
            .slope = slope,
        },
    .norm =
        {
            .normalize = normalize,
            .normalize_back = normalize_back,
            .normalize_dx = normalize_dx,
        },
    .position =
        {
            .rotate = rotate,
            .angles = angles,
        },
    .random =
        {
            .philox = philox,
            .keep = keep,
        },
    .conv =
        {
            .multiply_add = multiply_add,
            .silu = silu,
            .silu_back = silu_back,
        },
    .state =
        {
            .read = read_state,
            .dots = dot_state,
            .update = update_state,
        },
};
