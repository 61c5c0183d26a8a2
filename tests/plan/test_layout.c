/* ZeRO-Infinity's layout: the largest of the paper's sizes that fits a DGX-2 with each strategy,
   and steps whose seconds are added up by hand. */
#include "check.h"
#include "plan/layout.h"

#define GIB ((size_t)1 << 30)

/* Models of the paper's sizes, of its shapes where it names them: 10^9 parameters, hidden, layers.
 */
static const struct size {
    double billions, hidden, layers;
} sizes[] = {{1.4, 2048, 28},    {10, 4096, 50},    {13, 4096, 65},   {20, 8192, 25},
             {50, 8192, 62},     {70, 8192, 87},    {100, 8192, 125}, {500, 18432, 124},
             {1000, 25600, 128}, {5000, 49152, 174}};

static void read_cluster(hil_cluster *c)
{
    CHECK_OK(hil_cluster_read(c, HIL_TESTS "/../clusters/dgx-2.json"));
    c->layout = (hil_cluster_layout){.given = true,
                                     .activations = HIL_CLUSTER_ANY,
                                     .model_parallel = 1,
                                     .tiles = 1,
                                     .overlap = true,
                                     .efficiency = 1};
}

static double largest(hil_replicated replicated, hil_tier weights, hil_tier optimizer)
{
    hil_cluster c;
    double found = 0;
    read_cluster(&c);
    c.layout.replicated = replicated;
    c.layout.weights = (int)weights;
    c.layout.optimizer = (int)optimizer;
    size_t gpus = (size_t)c.gpus;
    hil_budget have = {.device = 31 * GIB,
                       .host = c.ram / 100 * 90 / gpus,
                       .disk = (uint64_t)c.drives * c.drive_bytes / gpus};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        const struct size *s = &sizes[i];
        hil_dense m = {.layers = s->layers,
                       .hidden = s->hidden,
                       .heads = s->hidden / 128,
                       .batch = 1,
                       .seq = 1024,
                       .interval = 1,
                       .parameters = 12 * s->layers * s->hidden * s->hidden,
                       .weight_bytes = 2,
                       .activation_bytes = 2};
        hil_layout l;
        CHECK_OK(hil_layout_choose(&c, &m, &have, &l));
        if (l.fits) found = s->billions;
    }
    return found;
}

static void check_strategies(void)
{
    CHECK_NEAR(largest(HIL_REPLICATED_ALL, HIL_DEVICE, HIL_DEVICE), 1.4, 0);
    CHECK_NEAR(largest(HIL_REPLICATED_WEIGHTS, HIL_DEVICE, HIL_HOST), 13, 0);
    CHECK_NEAR(largest(HIL_REPLICATED_NONE, HIL_DEVICE, HIL_DEVICE), 20, 0);
    CHECK_NEAR(largest(HIL_REPLICATED_NONE, HIL_HOST, HIL_HOST), 70, 0);
    CHECK_NEAR(largest(HIL_REPLICATED_NONE, HIL_DISK, HIL_DISK), 1000, 0);
}

/* Two nodes with one GPU each: 10^12 operations, 10^9 bytes of network, bus and drive per second.
 */
static const char simple[] =
    "{\"nodes\": 2, \"ram_gib\": 64, \"ram_gb_s\": 1e6, \"network\": {\"between_gb_s\": 1}, "
    "\"gpu\": {\"memory_gib\": 64, \"tensor_tflops\": 1.4285714285714286, \"fp32_tflops\": 1, "
    "\"memory_gb_s\": 1e6, \"bus_gb_s\": 1.25}, \"layout\": {}, "
    "\"drives\": {\"count\": 1, \"gb\": 100, \"read_gb_s\": 1, \"write_gb_s\": 1}}";

/* Predicts a step of one layer of 10^9 parameters and 1000 tokens, on the cluster above with the
   description's choices in `layout`. */
static hil_layout predict(hil_cluster_layout layout, double hidden)
{
    hil_cluster c;
    hil_dense m = {.layers = 1,
                   .hidden = hidden,
                   .heads = 1,
                   .batch = 1,
                   .seq = 1000,
                   .interval = 1,
                   .parameters = 1e9,
                   .weight_bytes = 2,
                   .activation_bytes = 2};
    hil_layout l;
    hil_budget have = {64 * GIB, 64 * GIB, 100 * GIB};
    CHECK_OK(hil_cluster_parse(&c, simple, sizeof simple - 1, "simple"));
    CHECK_NEAR(c.layout.efficiency, 1, 0);
    c.layout.weights = c.layout.optimizer = layout.weights;
    c.layout.activations = layout.activations;
    c.layout.overlap = layout.overlap;
    c.layout.tiles = 1000000; /* of the largest operator, whose working memory is not asked about */
    if (layout.efficiency > 0) c.layout.efficiency = layout.efficiency;
    CHECK_OK(hil_layout_choose(&c, &m, &have, &l));
    CHECK(l.fits);
    return l;
}

/* Forward 2 s, with recompute and backward 8 s; the products of attention are next to none. */
static double seconds(hil_tier tier, bool overlap)
{
    hil_cluster_layout layout = {
        .weights = (int)tier, .activations = HIL_DEVICE, .overlap = overlap};
    hil_layout l = predict(layout, 1);
    CHECK_NEAR(l.computing, 8, 1e-3);
    return l.step;
}

static void check_steps(void)
{
    /* 1 s for each of three gathers and one reduction. */
    CHECK_NEAR(seconds(HIL_DEVICE, false), 12, 1e-3);
    CHECK_NEAR(seconds(HIL_DEVICE, true), 11, 1e-3); /* backward's gather during recompute */
    /* Its half of the weights crosses the bus in 1 s before each gather, the gradient after. */
    CHECK_NEAR(seconds(HIL_HOST, false), 16, 1e-3);
    /* And 1 s of reading before that, of writing after; then 8 GB are read and 9 GB written while
       both directions share 1 GB/s, in 64 pieces of which the first read and the last write are
       alone. */
    double first = 8. / 64 + 9. / 64;
    CHECK_NEAR(seconds(HIL_DISK, false), 20 + 17, first + 0.01);
}

/* With a hidden size of 10^6 the products of attention take 4 x 10^12 operations in a pass, at half
   the speed of the others: 8 s. The checkpoint's 2 GB cross the bus in 2 s each way, while nothing
   computes, whether other transfers overlap or not. */
static void check_checkpoints(void)
{
    hil_cluster_layout layout = {.weights = HIL_DEVICE, .overlap = true};
    for (int i = 0; i < 2; ++i) {
        layout.efficiency = i ? 0.5 : 1;
        layout.activations = HIL_DEVICE;
        hil_layout kept = predict(layout, 1e6);
        CHECK_NEAR(kept.computing, (i ? 2 : 1) * (8 + 4 * 8), 0.01);
        layout.activations = HIL_HOST;
        hil_layout moved = predict(layout, 1e6);
        CHECK_NEAR(moved.computing, kept.computing, 1e-9);
        /* backward's gather is under way during the second copy: it saves 1 s of the two */
        CHECK_NEAR(moved.step, kept.step + 3, 0.01);
    }
}

int main(void)
{
    check_strategies();
    check_steps();
    check_checkpoints();
    return 0;
}
