/* Update rules match their formulas in double. Every instruction set gives the same bits. bf16 and
   fp16 weights with their rests are updated like fp32 masters. Weights and moments may be updated
   one after the other. A block's squares may be summed in pieces. */
#include "base/cpu.h"
#include "base/normal.h"
#include "check.h"
#include "kernels/kernels.h"
#include "optim/rule.h"

enum { N = 1000 };
enum { M8 = (N + 255) / 256 * 260 };

typedef struct state {
    float w[N], m[N], v[N], g[N];
    unsigned char m8[M8], v8[M8];
    uint16_t high[N], low[N], half[N];
} state;

/* shrink, rest of beta1, beta2 and its rest, rate, root, eps, factor, lr */
static const hil_rule_step numbers = {0.9999f, 0.1f,  0.95f, 0.05f, 0.002f,
                                      1.3f,    1e-8f, 0.5f,  0.01f};

static float number(uint64_t i)
{
    float one;
    hil_normal_fill(11, 5, 4 * (int64_t)i, 1, 1, &one);
    return one;
}

/* Gradients are the same number in all three dtypes. */
static void fill(state *s, hil_dtype dtype)
{
    for (int i = 0; i < N; ++i) {
        s->w[i] = number((uint64_t)i);
        s->m[i] = 0.1f * number((uint64_t)i + 10000);
        s->v[i] = 0.01f * fabsf(number((uint64_t)i + 20000));
        s->g[i] = hil_bf16_load(hil_bf16_round(number((uint64_t)i + 30000)));
        if (fabsf(s->g[i]) < 0x1p-12f) s->g[i] = 0;
        s->half[i] = dtype == HIL_F16 ? hil_f16_round(s->g[i]) : hil_bf16_round(s->g[i]);
        s->high[i] = dtype == HIL_F16 ? hil_f16_round(s->w[i]) : hil_bf16_high(s->w[i]);
        s->low[i] = hil_bf16_low(s->w[i]);
    }
    hil_q8_encode(s->m8, s->m, HIL_Q8_SIGNED, N);
    hil_q8_encode(s->v8, s->v, HIL_Q8_UNSIGNED, N);
}

static hil_block block_of(state *s, hil_dtype dtype, const hil_rule *rule)
{
    hil_block block = {.count = N, .dtype = dtype, .gradients = 2};
    block.weight = dtype == HIL_F32 ? (void *)s->w : s->high;
    block.rest = dtype == HIL_F32 ? NULL : dtype == HIL_BF16 ? (void *)s->low : s->w;
    bool q8 = rule->codec == HIL_CODEC_Q8;
    block.moment[0] = q8 ? (void *)s->m8 : s->m;
    if (rule->moments == 2) block.moment[1] = q8 ? (void *)s->v8 : s->v;
    for (int u = 0; u < 2; ++u) block.gradient[u] = dtype == HIL_F32 ? (void *)s->g : s->half;
    return block;
}

static void check_squares(hil_block block, double expected)
{
    double whole[HIL_SQUARES] = {0}, pieces[HIL_SQUARES] = {0}, sum = 0;
    hil_block_square(&block, whole);
    for (int k = 0; k < HIL_SQUARES; ++k) sum += whole[k];
    CHECK_NEAR(sum, expected, 1e-9 * expected);
    size_t size = hil_dtype_size(block.dtype);
    for (int64_t first = 0, count; first < N; first += count) {
        count = first == 0 ? 256 : first == 256 ? 512 : N - first;
        hil_block piece = block;
        piece.count = count;
        for (int u = 0; u < 2; ++u)
            piece.gradient[u] = (const char *)block.gradient[u] + (size_t)first * size;
        hil_block_square(&piece, pieces);
    }
    CHECK(memcmp(whole, pieces, sizeof whole) == 0);
}

/* First the weights, which leaves the moments, then these. */
static void check_late(const hil_rule *rule, hil_dtype dtype, int gradients, const state *whole)
{
    static state s, start;
    memset(&s, 0, sizeof s);
    fill(&s, dtype);
    start = s;
    hil_block block = block_of(&s, dtype, rule);
    block.gradients = gradients;
    block.scope = HIL_SCOPE_WEIGHTS;
    hil_rule_update(rule, &numbers, &block);
    CHECK(memcmp(s.m, start.m, sizeof s.m) == 0 && memcmp(s.v, start.v, sizeof s.v) == 0);
    CHECK(memcmp(s.w, whole->w, sizeof s.w) == 0);
    CHECK(memcmp(s.high, whole->high, sizeof s.high) == 0);
    CHECK(memcmp(s.low, whole->low, sizeof s.low) == 0);
    block.scope = HIL_SCOPE_MOMENTS;
    hil_rule_update(rule, &numbers, &block);
    CHECK(memcmp(&s, whole, sizeof s) == 0);
}

static void check_parts(const hil_rule *rule, hil_dtype dtype)
{
    static state whole;
    if (!rule->in_parts) return;
    for (int gradients = 1; gradients <= 2; ++gradients) {
        memset(&whole, 0, sizeof whole);
        fill(&whole, dtype);
        hil_block block = block_of(&whole, dtype, rule);
        block.gradients = gradients;
        hil_rule_update(rule, &numbers, &block);
        check_late(rule, dtype, gradients, &whole);
    }
}

/* Compares all dtypes and instruction sets with fp32. */
static void check_bits(const hil_rule *rule, state *reference)
{
    static state s;
    for (int level = HIL_CPU_PORTABLE; level <= HIL_CPU_AMX; ++level)
        for (int dtype = HIL_F32; dtype <= HIL_F16; ++dtype) {
            hil_cpu_limit((hil_cpu_level)level);
            check_parts(rule, (hil_dtype)dtype);
            memset(&s, 0, sizeof s);
            fill(&s, (hil_dtype)dtype);
            hil_block block = block_of(&s, (hil_dtype)dtype, rule);
            hil_rule_update(rule, &numbers, &block);
            if (level == HIL_CPU_PORTABLE && dtype == HIL_F32) *reference = s;
            CHECK(memcmp(s.m, reference->m, sizeof s.m) == 0);
            CHECK(memcmp(s.v, reference->v, sizeof s.v) == 0);
            CHECK(memcmp(s.m8, reference->m8, sizeof s.m8) == 0);
            CHECK(memcmp(s.v8, reference->v8, sizeof s.v8) == 0);
            for (int i = 0; i < N; ++i) {
                float w = dtype == HIL_BF16 ? hil_bf16_join(s.high[i], s.low[i]) : s.w[i];
                CHECK_INT(hil_bits(w), hil_bits(reference->w[i]));
                if (dtype == HIL_F16) CHECK_INT(s.high[i], hil_f16_round(w));
            }
            double square = 0;
            for (int i = 0; i < N; ++i) square += 4 * (double)s.g[i] * (double)s.g[i];
            check_squares(block, square);
        }
    hil_cpu_limit(HIL_CPU_AMX);
}

static void check_adamw(const state *got)
{
    static state start;
    fill(&start, HIL_F32);
    for (int i = 0; i < N; ++i) {
        double g = 0.5 * 2 * (double)start.g[i];
        double m = (double)start.m[i] + 0.1 * (g - (double)start.m[i]);
        double v = 0.95 * (double)start.v[i] + 0.05 * g * g;
        double w = 0.9999 * (double)start.w[i] - 0.002 * m / (sqrt(v) * 1.3 + 1e-8);
        CHECK_NEAR((double)got->m[i], m, 1e-6);
        CHECK_NEAR((double)got->v[i], v, 1e-6 * (1 + v));
        CHECK_NEAR((double)got->w[i], w, 1e-6 * (1 + fabs(w)));
    }
}

static void check_lion(const state *got)
{
    static state start;
    fill(&start, HIL_F32);
    for (int i = 0; i < N; ++i) {
        double g = 0.5 * 2 * (double)start.g[i], m = (double)start.m[i];
        double u = 0.9 * m + 0.1 * g;
        double w = 0.9999 * (double)start.w[i] - 0.002 * (u > 0 ? 1 : u < 0 ? -1 : 0);
        CHECK_NEAR((double)got->w[i], w, 1e-6 * (1 + fabs(w)));
        CHECK_NEAR((double)got->m[i], 0.95 * m + 0.05 * g, 1e-6);
    }
}

/* One step from the decoded moments equals AdamW's. The new moments are within half a code step,
   which is 0.9 / 64 of the largest (0.9 / 128 without sign), for values of at least a tenth of the
   largest. */
static void check_adamw8bit(const state *got)
{
    static state start, full;
    fill(&start, HIL_F32);
    full = start;
    hil_q8_decode(full.m, start.m8, HIL_Q8_SIGNED, N);
    hil_q8_decode(full.v, start.v8, HIL_Q8_UNSIGNED, N);
    hil_block block = block_of(&full, HIL_F32, &hil_rules[HIL_ADAMW]);
    hil_rule_update(&hil_rules[HIL_ADAMW], &numbers, &block);
    CHECK(memcmp(full.w, got->w, sizeof full.w) == 0);
    float m[N], v[N];
    hil_q8_decode(m, got->m8, HIL_Q8_SIGNED, N);
    hil_q8_decode(v, got->v8, HIL_Q8_UNSIGNED, N);
    for (int first = 0; first < N; first += 256) {
        float m_scale, v_scale;
        memcpy(&m_scale, got->m8 + first / 256 * 260, 4);
        memcpy(&v_scale, got->v8 + first / 256 * 260, 4);
        for (int i = first; i < N && i < first + 256; ++i) {
            if (fabsf(full.m[i]) > 0.1f * m_scale)
                CHECK(fabsf(m[i] - full.m[i]) <= 0.45001f / 64 * m_scale);
            if (full.v[i] > 0.1f * v_scale)
                CHECK(fabsf(v[i] - full.v[i]) <= 0.45001f / 128 * v_scale);
        }
    }
}

int main(void)
{
    static state got[HIL_RULES];
    for (int r = 0; r < HIL_RULES; ++r) {
        const hil_rule *found;
        CHECK_INT(hil_rules[r].kind, r);
        CHECK_OK(hil_rule_find(hil_rules[r].name, &found));
        CHECK(found == &hil_rules[r]);
        check_bits(&hil_rules[r], &got[r]);
    }
    const hil_rule *none;
    CHECK_FAILS(hil_rule_find("sgd", &none), HIL_ERR_USAGE, "adamw, lion, adamw8bit or muon");
    check_adamw(&got[HIL_ADAMW]);
    check_lion(&got[HIL_LION]);
    check_adamw8bit(&got[HIL_ADAMW8BIT]);
    return 0;
}
