/* AdamW against the formula in double; every instruction set gives the same bits; bf16 weights with
   their low halves take the same path as fp32 masters. */
#include "base/cpu.h"
#include "base/philox.h"
#include "check.h"
#include "optim/adamw.h"

enum { N = 1000 };

typedef struct state {
    float w[N], m[N], v[N], g[N];
    uint16_t high[N], low[N], half[N];
} state;

static float number(uint64_t i)
{
    uint32_t word[4];
    float pair[2];
    hil_philox(11, i, 5, word);
    hil_philox_normal(word[0], word[1], pair);
    return pair[0];
}

static void fill(state *s)
{
    for (int i = 0; i < N; ++i) {
        s->w[i] = number((uint64_t)i);
        s->m[i] = 0.1f * number((uint64_t)i + 10000);
        s->v[i] = 0.01f * fabsf(number((uint64_t)i + 20000));
        s->half[i] = hil_bf16_round(number((uint64_t)i + 30000));
        s->g[i] = hil_bf16_load(s->half[i]);
        s->high[i] = hil_weight_high(s->w[i]);
        s->low[i] = hil_weight_low(s->w[i]);
    }
}

int main(void)
{
    static state full, halves, reference;
    const hil_adamw rule = {0.9999f, 0.1f, 0.95f, 0.05f, 0.002f, 1.3f, 1e-8f, 0.5f};
    for (int level = HIL_CPU_PORTABLE; level <= HIL_CPU_AMX; ++level) {
        hil_cpu_limit((hil_cpu_level)level);
        fill(&full);
        fill(&halves);
        hil_block block = {N, HIL_F32, full.w, NULL, {full.m, full.v}, {full.g, full.g}, 2};
        hil_adamw_block(&rule, &block);
        if (level == HIL_CPU_PORTABLE) reference = full;
        CHECK(memcmp(full.w, reference.w, sizeof full.w) == 0);
        CHECK(memcmp(full.m, reference.m, sizeof full.m) == 0);
        CHECK(memcmp(full.v, reference.v, sizeof full.v) == 0);
        hil_block packed = {
            N, HIL_BF16, halves.high, halves.low, {halves.m, halves.v}, {halves.half, halves.half},
            2};
        hil_adamw_block(&rule, &packed);
        for (int i = 0; i < N; ++i)
            CHECK_INT(hil_bits(hil_weight_join(halves.high[i], halves.low[i])),
                      hil_bits(full.w[i]));
        double square = 0;
        for (int i = 0; i < N; ++i) square += 4 * (double)full.g[i] * (double)full.g[i];
        CHECK_NEAR(hil_block_square(&block), square, 1e-9 * square);
        CHECK_NEAR(hil_block_square(&packed), square, 1e-9 * square);
    }
    static state start;
    fill(&start);
    for (int i = 0; i < N; ++i) {
        double g = 0.5 * 2 * (double)start.g[i];
        double m = (double)start.m[i] + 0.1 * (g - (double)start.m[i]);
        double v = 0.95 * (double)start.v[i] + 0.05 * g * g;
        double w = 0.9999 * (double)start.w[i] - 0.002 * m / (sqrt(v) * 1.3 + 1e-8);
        CHECK_NEAR((double)reference.m[i], m, 1e-6);
        CHECK_NEAR((double)reference.v[i], v, 1e-6 * (1 + v));
        CHECK_NEAR((double)reference.w[i], w, 1e-6 * (1 + fabs(w)));
    }
    return 0;
}
