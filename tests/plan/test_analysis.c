/* Every cell of the ZeRO-Infinity paper's table, and its statements about bandwidth. */
#include "check.h"
#include "plan/analysis.h"

#define K 1024.
#define GIB (K * K * K)
#define TIB (K * GIB)
#define PEAK 70e12 /* of a V100 */

static const struct row {
    double parameters;              /* 10^12 */
    double layers, hidden, heads;   /* hidden in K */
    double states, all, checkpoint; /* TiB: model states; activations and checkpoints of a node */
    double work_states, work_activations; /* GiB */
} table[] = {
    {0.10, 80, 10, 128, 1.83, 2.03, 0.05, 1.56, 1.63},
    {0.50, 100, 20, 160, 9.16, 3.91, 0.12, 6.25, 2.50},
    {1.01, 128, 25, 256, 18.31, 7.13, 0.20, 9.77, 3.56},
    {10.05, 195, 64, 512, 182.81, 24.38, 0.76, 64, 8},
    {101.47, 315, 160, 1024, 1845.70, 88.59, 3.08, 400, 18},
};

static hil_dense paper(double layers, double hidden, double heads, double batch)
{
    return (hil_dense){layers, hidden, heads, batch, 1024, 1, 0, 20, 2, 16, 2};
}

/* The paper prints two digits, and may round the last either way. */
#define CHECK_CELL(value, printed) CHECK_NEAR(value, printed, 0.005 + 1e-9)

static void check_table(void)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; ++i) {
        const struct row *r = &table[i];
        hil_dense gpu = paper(r->layers, r->hidden * K, r->heads, 4);
        hil_dense node = gpu, checkpoint = gpu;
        node.batch = 4 * 16;
        checkpoint.batch = 32;
        hil_dense_memory m;
        hil_dense_count(&gpu, &m);
        CHECK_CELL(m.parameters * 1e-12, r->parameters);
        CHECK_CELL(m.states / TIB, r->states);
        CHECK_CELL(m.working_states / GIB, r->work_states);
        CHECK_CELL(m.working_activations / GIB, r->work_activations);
        hil_dense_count(&node, &m);
        CHECK_CELL(m.activations / TIB, r->all);
        hil_dense_count(&checkpoint, &m);
        CHECK_CELL(m.checkpoints / TIB, r->checkpoint);
        CHECK_NEAR(hil_dense_work(&gpu) / (96. * 4 * 1024 * r->layers * gpu.hidden * gpu.hidden), 1,
                   1e-12);
    }
}

static void check_intensity(void)
{
    for (double batch = 1; batch <= 16; batch *= 2)
        for (double interval = 1; interval <= 4; interval *= 2) {
            hil_dense m = paper(100, 8192, 64, batch);
            hil_intensity i;
            m.interval = interval;
            hil_dense_intensity(&m, &i);
            CHECK_NEAR(i.weights, 1024 * batch, 1e-6);
            CHECK_NEAR(i.optimizer, 1024 * batch / 4, 1e-6);
            CHECK_NEAR(i.checkpoints, 24 * 8192 * interval, 1e-6);
        }
}

static void check_bandwidth(void)
{
    hil_intensity i;
    hil_dense one = paper(100, 2048, 16, 1), two = paper(100, 8192, 64, 2);
    hil_dense_intensity(&one, &i);
    /* 70 GB/s for weights and gradients give more than half even with a batch of one. */
    CHECK(hil_efficiency(i.weights, 70e9, PEAK) > 0.5);
    CHECK(hil_efficiency(i.weights, 68e9, PEAK) < 0.5);
    /* 2 GB/s for activations at hidden 2K, less than 1 GB/s beyond 8K. */
    CHECK(hil_efficiency(i.checkpoints, 2e9, PEAK) > 0.5);
    CHECK(hil_bandwidth_needed(i.checkpoints, 0.5, PEAK) < 2e9);
    CHECK(hil_bandwidth_needed(i.checkpoints, 0.5, PEAK) > 1e9);
    hil_dense_intensity(&two, &i);
    CHECK(hil_bandwidth_needed(i.checkpoints, 0.5, PEAK) < 1e9);
    /* About 1.5 TB/s for the optimizer's states give 90% at a batch of two. */
    CHECK(hil_efficiency(i.optimizer, 1.5e12, PEAK) > 0.9);
    double needed = hil_bandwidth_needed(i.optimizer, 0.9, PEAK);
    CHECK(needed > 1.1e12 && needed < 1.5e12);
    CHECK_NEAR(hil_efficiency(i.optimizer, needed, PEAK), 0.9, 1e-12);
    /* The optimizer needs four times what weights need. */
    CHECK_NEAR(needed, 4 * hil_bandwidth_needed(i.weights, 0.9, PEAK), 1);
}

/* Fewer bytes per parameter need less memory and less bandwidth. */
static void check_layout(void)
{
    hil_dense ours = paper(80, 10240, 128, 4), theirs = ours;
    ours.state_bytes = 14;
    ours.optimizer_bytes = 13;
    hil_dense_memory a, b;
    hil_dense_count(&ours, &a);
    hil_dense_count(&theirs, &b);
    CHECK_NEAR(a.states / b.states, 0.7, 1e-12);
    hil_intensity x, y;
    hil_dense_intensity(&ours, &x);
    hil_dense_intensity(&theirs, &y);
    CHECK_NEAR(x.optimizer / y.optimizer, 16. / 13, 1e-12);
    ours.parameters = 7e9;
    hil_dense_count(&ours, &a);
    CHECK_NEAR(a.states, 14 * 7e9, 1);
}

int main(void)
{
    check_table();
    check_intensity();
    check_bandwidth();
    check_layout();
    return 0;
}
