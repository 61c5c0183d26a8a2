/* rows_body.h - arithmetic on rows, compiled once for each instruction set: the including file
   defines ROWS_NAME and ROWS_KERNEL. */
#include "ops/rows.h"

#include <math.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wpsabi" /* vectors never cross files */

typedef float lanes __attribute__((vector_size(4 * HIL_LANES), aligned(4)));

static inline lanes load(const float *x)
{
    return *(const lanes *)x;
}

/* The last n < HIL_LANES numbers, filled up. */
static inline lanes load_tail(const float *x, int64_t n, float fill)
{
    float all[HIL_LANES];
    for (int64_t i = 0; i < HIL_LANES; ++i) all[i] = fill;
    for (int64_t i = 0; i < n; ++i) all[i] = x[i];
    return load(all);
}

static inline float total(const lanes *sums)
{
    lanes sum = *sums;
    for (int half = HIL_LANES / 2; half; half /= 2)
        for (int i = 0; i < half; ++i) sum[i] += sum[i + half];
    return sum[0];
}

static void from_bf16(float *out, const uint16_t *in, int64_t n)
{
    for (int64_t i = 0; i < n; ++i) out[i] = hil_bf16_load(in[i]);
}

/* hil_bf16_round without a branch. */
static void to_bf16(uint16_t *out, const float *in, int64_t n)
{
    for (int64_t i = 0; i < n; ++i) {
        uint32_t u = hil_bits(in[i]);
        uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
        uint32_t quiet = (u >> 16) | 0x40u;
        out[i] = (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
    }
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

static float sum(const float *x, int64_t n)
{
    lanes s = {0};
    int64_t i = 0;
    for (; i + HIL_LANES <= n; i += HIL_LANES) s += load(x + i);
    s += load_tail(x + i, n - i, 0);
    return total(&s);
}

static float sum_squares(const float *x, float mean, int64_t n)
{
    lanes s = {0};
    int64_t i = 0;
    for (; i + HIL_LANES <= n; i += HIL_LANES) {
        lanes d = load(x + i) - mean;
        s += d * d;
    }
    lanes d = load_tail(x + i, n - i, mean) - mean;
    s += d * d;
    return total(&s);
}

static float max(const float *x, int64_t n)
{
    float top[HIL_LANES];
    for (int i = 0; i < HIL_LANES; ++i) top[i] = -INFINITY;
    int64_t i = 0;
    for (; i + HIL_LANES <= n; i += HIL_LANES)
        for (int j = 0; j < HIL_LANES; ++j) top[j] = x[i + j] > top[j] ? x[i + j] : top[j];
    for (int j = 0; i < n; ++i, ++j) top[j] = x[i] > top[j] ? x[i] : top[j];
    float most = top[0];
    for (int j = 1; j < HIL_LANES; ++j) most = top[j] > most ? top[j] : most;
    return most;
}

static float exp_sum(float *x, float most, int64_t n)
{
    lanes s = {0};
    for (int64_t i = 0; i < n; ++i) {
        x[i] = expf(x[i] - most);
        s[i % HIL_LANES] += x[i];
    }
    return total(&s);
}

#define GELU_C 0.7978845608028654f /* sqrt(2 / pi) */
#define GELU_A 0.044715f

static void gelu_tanh(float *out, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; ++i) {
        float v = x[i];
        out[i] = 0.5f * v * (1.0f + tanhf(GELU_C * (v + GELU_A * v * v * v)));
    }
}

static void gelu_tanh_back(float *dx, const float *x, const float *dy, int64_t n)
{
    for (int64_t i = 0; i < n; ++i) {
        float v = x[i], t = tanhf(GELU_C * (v + GELU_A * v * v * v));
        float slope = GELU_C * (1.0f + 3.0f * GELU_A * v * v);
        dx[i] = dy[i] * (0.5f * (1.0f + t) + 0.5f * v * (1.0f - t * t) * slope);
    }
}

static void gelu_erf(float *out, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; ++i)
        out[i] = 0.5f * x[i] * (1.0f + erff(x[i] * 0.7071067811865476f));
}

static void gelu_erf_back(float *dx, const float *x, const float *dy, int64_t n)
{
    for (int64_t i = 0; i < n; ++i) {
        float v = x[i], density = 0.3989422804014327f * expf(-0.5f * v * v);
        dx[i] = dy[i] * (0.5f * (1.0f + erff(v * 0.7071067811865476f)) + v * density);
    }
}

static void swiglu(float *out, const float *gate, const float *up, int64_t n)
{
    for (int64_t i = 0; i < n; ++i) out[i] = gate[i] / (1.0f + expf(-gate[i])) * up[i];
}

static void swiglu_back(float *const out[2], const float *const in[3], int64_t n)
{
    const float *gate = in[0], *up = in[1], *dy = in[2];
    float *dgate = out[0], *dup = out[1];
    for (int64_t i = 0; i < n; ++i) {
        float g = gate[i], u = up[i], d = dy[i];
        float s = 1.0f / (1.0f + expf(-g));
        dgate[i] = d * u * s * (1.0f + g * (1.0f - s));
        dup[i] = d * g * s;
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

static void normalize_dx(float *dx, const hil_row_norm *norm, const float *x, const float *dy,
                         int64_t n)
{
    const float *weight = norm->weight;
    float mean = norm->mean, s = norm->scale;
    lanes plain = {0}, along = {0};
    int64_t i = 0;
    for (; i + HIL_LANES <= n; i += HIL_LANES) {
        lanes g = load(dy + i) * load(weight + i);
        plain += g;
        along += g * ((load(x + i) - mean) * s);
    }
    lanes g = load_tail(dy + i, n - i, 0) * load_tail(weight + i, n - i, 0);
    plain += g;
    along += g * ((load_tail(x + i, n - i, mean) - mean) * s);
    float mean_plain = norm->centered ? total(&plain) / (float)n : 0;
    float mean_along = total(&along) / (float)n;
    for (i = 0; i < n; ++i)
        dx[i] = s * (dy[i] * weight[i] - mean_plain - (x[i] - mean) * s * mean_along);
}

static void rotate(float *low, float *high, const float *cosine, const float *sine, int64_t n)
{
    for (int64_t i = 0; i < n; ++i) {
        float a = low[i], b = high[i];
        low[i] = a * cosine[i] - b * sine[i];
        high[i] = b * cosine[i] + a * sine[i];
    }
}

static void angles(float *cosine, float *sine, const float *frequency, float position, int64_t n)
{
    for (int64_t i = 0; i < n; ++i) {
        float angle = position * frequency[i];
        cosine[i] = cosf(angle);
        sine[i] = sinf(angle);
    }
}

const hil_row_kernel ROWS_KERNEL = {
    .name = ROWS_NAME,
    .from_bf16 = from_bf16,
    .to_bf16 = to_bf16,
    .add = add,
    .multiply = multiply,
    .scale = scale,
    .sum = sum,
    .sum_squares = sum_squares,
    .max = max,
    .exp_sum = exp_sum,
    .gelu_tanh = gelu_tanh,
    .gelu_tanh_back = gelu_tanh_back,
    .gelu_erf = gelu_erf,
    .gelu_erf_back = gelu_erf_back,
    .swiglu = swiglu,
    .swiglu_back = swiglu_back,
    .normalize = normalize,
    .normalize_back = normalize_back,
    .normalize_dx = normalize_dx,
    .rotate = rotate,
    .angles = angles,
};
