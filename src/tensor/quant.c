/* quant.c - layout, quant and expansion of tiles, on the CPU. See [Note: quant]. */
#include "tensor/quant.h"

#include <math.h>
#include <string.h>

static const char *const names[] = {
    [HIL_QUANT_NONE] = "none", [HIL_QUANT_NF4] = "nf4", [HIL_QUANT_NF4_PLAIN] = "nf4-plain",
    [HIL_QUANT_INT8] = "int8", [HIL_QUANT_FP8] = "fp8", [HIL_QUANT_BF16] = "bf16"};

hil_status hil_quant_parse(const char *name, hil_dtype compute, hil_quant *out)
{
    static const hil_quant known[] = {HIL_QUANT_NF4, HIL_QUANT_INT8, HIL_QUANT_FP8, HIL_QUANT_BF16};
    *out = HIL_QUANT_NONE;
    if (!name) return HIL_OK;
    for (size_t i = 0; i < sizeof known / sizeof *known; ++i)
        if (strcmp(name, names[known[i]]) == 0) {
            if (known[i] != HIL_QUANT_BF16 || compute != HIL_BF16) *out = known[i];
            return HIL_OK;
        }
    return hil_fail(HIL_ERR_USAGE, "unknown --base-dtype \"%s\": expected nf4, int8, fp8 or bf16",
                    name);
}

const char *hil_quant_name(hil_quant quant)
{
    return names[quant];
}

static int64_t divide_up(int64_t count, int64_t by)
{
    return (count + by - 1) / by;
}

static size_t align(size_t bytes)
{
    return (bytes + HIL_QUANT_ALIGN - 1) / HIL_QUANT_ALIGN * HIL_QUANT_ALIGN;
}

size_t hil_quant_codes(hil_quant quant, int64_t count)
{
    if (quant == HIL_QUANT_BF16) return (size_t)count * 2;
    if (quant == HIL_QUANT_INT8 || quant == HIL_QUANT_FP8) return (size_t)count;
    return (size_t)divide_up(count, 2);
}

int64_t hil_quant_rows(hil_quant quant)
{
    return quant == HIL_QUANT_FP8 ? HIL_QUANT_SQUARE : 1;
}

void hil_quant_place(hil_quant_tile *out, hil_quant quant, int64_t row, int64_t rows, int64_t cols)
{
    *out = (hil_quant_tile){.quant = quant, .row = row, .rows = rows, .cols = cols};
    out->blocks = divide_up(rows * cols, HIL_QUANT_BLOCK);
    size_t at = 0, table = 16 * sizeof(float), number = sizeof(float);
    switch (quant) {
    case HIL_QUANT_NF4:
        out->nested_table = at + table;
        out->nested = out->nested_table + align((HIL_QUANT_NEST_TABLE + 1) * number);
        out->scales = out->nested + align((size_t)(out->blocks / HIL_QUANT_NESTED + 2) * number);
        out->codes = out->scales + align((size_t)out->blocks);
        break;
    case HIL_QUANT_NF4_PLAIN:
        out->scales = table;
        out->codes = out->scales + align((size_t)out->blocks * number);
        break;
    case HIL_QUANT_INT8:
        out->codes = align((size_t)rows * number);
        break;
    case HIL_QUANT_FP8:
        out->codes =
            align((size_t)(divide_up(rows, HIL_QUANT_SQUARE) * divide_up(cols, HIL_QUANT_SQUARE)) *
                  number);
        break;
    default:
        break;
    }
    out->bytes = out->codes + align(hil_quant_codes(quant, rows * cols));
}

static const float *floats_at(const void *bytes, size_t at)
{
    return (const float *)(const void *)((const char *)bytes + at);
}

/* The fp32 scale of a block of nf4. */
static float block_scale(const hil_quant_tile *t, const void *bytes, int64_t block)
{
    if (t->quant == HIL_QUANT_NF4_PLAIN) return floats_at(bytes, t->scales)[block];
    const float *table = floats_at(bytes, t->nested_table);
    unsigned code = ((const unsigned char *)bytes + t->scales)[block];
    int64_t nested = (hil_quant_phase(t) + block) / HIL_QUANT_NESTED;
    return table[code] * floats_at(bytes, t->nested)[nested] + table[HIL_QUANT_NEST_TABLE];
}

/* The sixteen values of a block are multiplied and rounded once, then copied by code. */
static void expand_nf4(const hil_quant_tile *t, const void *bytes, int64_t first, int64_t count,
                       const hil_tensor *out)
{
    const float *table = bytes;
    const unsigned char *codes = (const unsigned char *)bytes + t->codes;
    for (int64_t done = 0; done < count; done += HIL_QUANT_BLOCK) {
        int64_t n = count - done < HIL_QUANT_BLOCK ? count - done : HIL_QUANT_BLOCK;
        float scale = block_scale(t, bytes, (first + done) / HIL_QUANT_BLOCK), value[16];
        const unsigned char *from = codes + (first + done) / 2;
        for (int i = 0; i < 16; ++i) value[i] = table[i] * scale;
        if (out->dtype == HIL_F32) {
            float *to = (float *)out->data + done;
            for (int64_t i = 0; i < n; ++i)
                to[i] = value[i % 2 ? from[i / 2] & 15 : from[i / 2] >> 4];
        } else {
            uint16_t *to = (uint16_t *)out->data + done, half[16];
            hil_dtype_from_f32(half, value, out->dtype, 16);
            for (int64_t i = 0; i < n; ++i)
                to[i] = half[i % 2 ? from[i / 2] & 15 : from[i / 2] >> 4];
        }
    }
}

/* `n` numbers of one row, from column `col` on, with one scale (of fp8: inside a square). */
static void expand_run(const hil_quant_tile *t, const void *bytes, int64_t at, int64_t n,
                       float *out)
{
    const unsigned char *codes = (const unsigned char *)bytes + t->codes;
    int64_t row = at / t->cols, col = at % t->cols;
    if (t->quant == HIL_QUANT_BF16) {
        hil_dtype_to_f32(out, codes + 2 * at, HIL_BF16, n);
    } else if (t->quant == HIL_QUANT_INT8) {
        float scale = floats_at(bytes, t->scales)[row];
        for (int64_t i = 0; i < n; ++i)
            out[i] = hil_quant_int8_load((signed char)codes[at + i], scale);
    } else {
        int64_t across = divide_up(t->cols, HIL_QUANT_SQUARE);
        float scale =
            floats_at(bytes, t->scales)[row / HIL_QUANT_SQUARE * across + col / HIL_QUANT_SQUARE];
        for (int64_t i = 0; i < n; ++i) out[i] = hil_quant_e4m3_load(codes[at + i]) * scale;
    }
}

void hil_quant_expand(const hil_quant_tile *t, const void *bytes, int64_t first, int64_t count,
                      const hil_tensor *out)
{
    if (t->quant == HIL_QUANT_NF4 || t->quant == HIL_QUANT_NF4_PLAIN) {
        expand_nf4(t, bytes, first, count, out);
        return;
    }
    float run[HIL_QUANT_SQUARE];
    for (int64_t done = 0; done < count;) {
        int64_t at = first + done, col = at % t->cols;
        int64_t n = HIL_QUANT_SQUARE - col % HIL_QUANT_SQUARE;
        if (n > t->cols - col) n = t->cols - col;
        if (n > count - done) n = count - done;
        expand_run(t, bytes, at, n, run);
        hil_dtype_from_f32((char *)out->data + (size_t)done * hil_dtype_size(out->dtype), run,
                           out->dtype, n);
        done += n;
    }
}

static float largest(const float *in, int64_t count)
{
    float most = 0;
    for (int64_t i = 0; i < count; ++i) most = fabsf(in[i]) > most ? fabsf(in[i]) : most;
    return most;
}

static float clamp(float x, float most)
{
    return x > most ? most : x < -most ? -most : x;
}

static void encode_nf4(const hil_quant_part *p)
{
    for (int64_t at = 0; at < p->count; at += HIL_QUANT_BLOCK) {
        int64_t n = p->count - at < HIL_QUANT_BLOCK ? p->count - at : HIL_QUANT_BLOCK;
        float most = largest(p->in + at, n), bounded = hil_quant_nf4_bound(most);
        bool whole = n == HIL_QUANT_BLOCK;
        unsigned code[HIL_QUANT_BLOCK + 1];
        p->scale[at / HIL_QUANT_BLOCK] = whole ? most : bounded;
        if (!p->codes) continue;
        for (int64_t i = 0; i < n; ++i)
            code[i] = hil_quant_nf4_scaled(p->in[at + i], bounded, whole);
        code[n] = hil_quant_nf4_code(0);
        unsigned char *codes = p->codes + at / 2;
        for (int64_t i = 0; i < n; i += 2)
            codes[i / 2] = (unsigned char)(code[i] << 4 | code[i + 1]);
    }
}

/* bitsandbytes rounds the numbers to fp16 first. */
#define HALF_MOST 65504.0f
static void round_to_half(const float *in, int64_t count, float *out)
{
    uint16_t half[HIL_QUANT_SQUARE];
    for (int64_t i = 0; i < count; ++i) out[i] = clamp(in[i], HALF_MOST);
    hil_dtype_from_f32(half, out, HIL_F16, count);
    hil_dtype_to_f32(out, half, HIL_F16, count);
}

static void encode_int8(const hil_quant_part *p)
{
    float run[HIL_QUANT_SQUARE];
    for (int64_t row = 0; row * p->cols < p->count; ++row) {
        const float *in = p->in + row * p->cols;
        float most = 0, steps;
        round_to_half(&(float){largest(in, p->cols)}, 1, &most);
        steps = most > 0 ? 1.0f / most * 127.0f : 0; /* as PyTorch divides a number by a tensor */
        p->scale[row] = most;
        if (!p->codes) continue;
        signed char *codes = (signed char *)p->codes + row * p->cols;
        for (int64_t at = 0; at < p->cols; at += HIL_QUANT_SQUARE) {
            int64_t n = p->cols - at < HIL_QUANT_SQUARE ? p->cols - at : HIL_QUANT_SQUARE;
            round_to_half(in + at, n, run);
            for (int64_t i = 0; i < n; ++i) codes[at + i] = (signed char)rintf(run[i] * steps);
        }
    }
}

/* As transformers does it: the scale is the inverse of 448 / largest. A square of zeros has 1. */
static void encode_square(const hil_quant_part *p, int64_t row, int64_t col)
{
    int64_t rows = p->count / p->cols - row, cols = p->cols - col;
    if (rows > HIL_QUANT_SQUARE) rows = HIL_QUANT_SQUARE;
    if (cols > HIL_QUANT_SQUARE) cols = HIL_QUANT_SQUARE;
    const float *in = p->in + row * p->cols + col;
    float most = 0;
    for (int64_t r = 0; r < rows; ++r) {
        float of_row = largest(in + r * p->cols, cols);
        if (of_row > most) most = of_row;
    }
    float steps = most > 0 ? 1.0f / most * HIL_QUANT_E4M3_MOST : 1;
    int64_t across = divide_up(p->cols, HIL_QUANT_SQUARE);
    p->scale[row / HIL_QUANT_SQUARE * across + col / HIL_QUANT_SQUARE] = 1.0f / steps;
    if (!p->codes) return;
    unsigned char *codes = p->codes + row * p->cols + col;
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < cols; ++c)
            codes[r * p->cols + c] = (unsigned char)hil_quant_e4m3_round(
                clamp(in[r * p->cols + c] * steps, HIL_QUANT_E4M3_MOST));
}

void hil_quant_encode(const hil_quant_part *p)
{
    switch (p->quant) {
    case HIL_QUANT_BF16:
        hil_dtype_from_f32(p->codes, p->in, HIL_BF16, p->count);
        break;
    case HIL_QUANT_INT8:
        encode_int8(p);
        break;
    case HIL_QUANT_FP8:
        for (int64_t row = 0; row * p->cols < p->count; row += HIL_QUANT_SQUARE)
            for (int64_t col = 0; col < p->cols; col += HIL_QUANT_SQUARE)
                encode_square(p, row, col);
        break;
    default:
        encode_nf4(p);
    }
}

/* [Note: mean of scales] The offset of nf4 is the mean of the scales, in fp32, added in the order
   in which PyTorch's CPU kernel adds a contiguous array on one thread: eight lanes (one below eight
   elements), four vectors of them at a time, and sums of up to four levels. PyTorch adds in this
   order with any number of threads below 32768 scales, a matrix of 2M elements. */
#define LEVELS 4
#define VECTORS 4
#define LANES 8

static int64_t level_power(int64_t rows)
{
    int64_t log = 0;
    while ((int64_t)1 << log < rows) ++log;
    return log / LEVELS > 4 ? log / LEVELS : 4;
}

/* Sums of whole rows of VECTORS x lanes elements, in level[0]. */
static void add_rows(const float *in, int64_t rows, int lanes, float level[LEVELS][VECTORS * LANES])
{
    int width = VECTORS * lanes;
    int64_t power = level_power(rows), step = (int64_t)1 << power, at = 0;
    while (at + step <= rows) {
        for (int64_t end = at + step; at < end; ++at)
            for (int i = 0; i < width; ++i) level[0][i] += in[at * width + i];
        for (int k = 1; k < LEVELS; ++k) {
            for (int i = 0; i < width; ++i) level[k][i] += level[k - 1][i];
            memset(level[k - 1], 0, sizeof level[k - 1]);
            if (at & (step - 1) << (k * power)) break;
        }
    }
    for (; at < rows; ++at)
        for (int i = 0; i < width; ++i) level[0][i] += in[at * width + i];
    for (int k = 1; k < LEVELS; ++k)
        for (int i = 0; i < width; ++i) level[0][i] += level[k][i];
}

float hil_quant_mean(const float *scale, int64_t blocks)
{
    int lanes = blocks < LANES ? 1 : LANES;
    int64_t vectors = blocks / lanes, rows = vectors / VECTORS;
    float level[LEVELS][VECTORS * LANES] = {{0}}, sum = 0;
    float *lane = level[0];
    add_rows(scale, rows, lanes, level);
    for (int64_t v = rows * VECTORS; v < vectors; ++v)
        for (int i = 0; i < lanes; ++i) lane[i] += scale[v * lanes + i];
    for (int v = 1; v < VECTORS; ++v)
        for (int i = 0; i < lanes; ++i) lane[i] += lane[v * lanes + i];
    for (int64_t i = vectors * lanes; i < blocks; ++i) sum += scale[i];
    for (int i = 0; i < lanes; ++i) sum += lane[i];
    return blocks ? sum / (float)blocks : 0;
}

/* The nearest value of the table, after rounding to one of 65536 steps as bitsandbytes does. */
static unsigned nest_code(float x)
{
    const float *table = hil_quant_nest_table, steps = 65535;
    float step = (float)(int32_t)((clamp(x, 1) + 1.0f) * 0.5f * steps + 0.5f);
    float value = -1.0f + 2.0f * step / steps;
    unsigned low = 0, high = HIL_QUANT_NEST_TABLE - 1; /* borders [0, low) are below the value */
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (0.5f * (table[middle] + table[middle + 1]) < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

float hil_quant_nest(const float *scale, int64_t blocks, float offset, unsigned char *codes)
{
    float moved[HIL_QUANT_NESTED] = {0};
    for (int64_t i = 0; i < blocks; ++i) moved[i] = scale[i] - offset;
    float most = largest(moved, blocks), inverse = 1.0f / most;
    for (int64_t i = 0; i < blocks; ++i)
        codes[i] = most > 0 ? (unsigned char)nest_code(moved[i] * inverse) : 0;
    return most;
}
