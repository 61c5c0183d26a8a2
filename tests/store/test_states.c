/* Masters are restored bit for bit from weight and rest. Gradients of several uses are kept apart,
   rounded once and given in the order of segments. Vectors of a layer share a unit. Tiles are whole
   groups of rows. */
#include "base/philox.h"
#include "check.h"
#include "store_open.h"
#include "store/pass.h"
#include "store/store.h"
#include "store/unit.h"
#include "store/update.h"

#include <math.h>

#define WORK ((size_t)1 << 20)

static void check_halves(void)
{
    for (uint64_t i = 0; i < 200000; ++i) {
        uint32_t word[4];
        hil_philox(1, i, 0, word);
        uint32_t u = i < 65536 ? ((uint32_t)i << 16 | 0x8000u) : word[0];
        if ((u & 0x7fffffffu) > 0x7f800000u) continue;
        float x = hil_float(u);
        CHECK_INT(hil_bits(hil_bf16_join(hil_bf16_high(x), hil_bf16_low(x))), u);
    }
}

static hil_param *add(hil_store *store, const char *name, int64_t rows, int64_t cols)
{
    hil_param *p;
    hil_param_spec spec = {
        .name = name, .shape = {2, {rows, cols}}, .init = HIL_INIT_NORMAL, .std = 1};
    CHECK_OK(hil_store_add(store, &spec, &p));
    return p;
}

static void add_to(hil_store *store, hil_param *p, int segment, float value)
{
    float *sum;
    bool add;
    for (int64_t tile = 0; tile < 2; ++tile) {
        CHECK_OK(hil_store_sum_acquire(store, p, segment, tile, &sum, &add));
        for (int64_t i = 0; i < 64 * 100; ++i) sum[i] = (add ? sum[i] : 0) + value;
        hil_store_sum_release(store, p, segment, tile);
    }
}

/* What the update rule was given for the last element of each tile: number of gradients, and their
   values. */
typedef struct shown {
    int gradients;
    uint16_t first, second;
} shown;
static shown last_shown;

static void show(const void *rule, const hil_block *block)
{
    (void)rule;
    last_shown = (shown){.gradients = block->gradients};
    if (block->gradients > 0)
        last_shown.first = ((const uint16_t *)block->gradient[0])[block->count - 1];
    if (block->gradients > 1)
        last_shown.second = ((const uint16_t *)block->gradient[1])[block->count - 1];
}

static void check_uses(hil_pool *pool)
{
    hil_store *store;
    CHECK_OK(hil_store_create(&store));
    hil_param *p = add(store, "p", 128, 100), *same;
    hil_param_spec again = {.name = "p", .shape = {1, {4}}};
    CHECK_FAILS(hil_store_add(store, &again, &same), HIL_ERR_USAGE, "twice");
    hil_store_options options = {
        .compute = HIL_BF16, .training = true, .tile_size = 64 * 100 * 2, .moments = 2};
    store_rig rig;
    store_rig_open(&rig, store, pool, &options);
    CHECK_INT(hil_param_tile_rows(p), 64);
    CHECK_OK(hil_store_initialise(store, 5));
    CHECK_OK(hil_store_pass_begin(store, HIL_PASS_TRAIN));
    add_to(store, p, 7, 1.0f);
    add_to(store, p, 2, 0.00390625f); /* 2^-8: lost if added to 1 in bf16 */
    add_to(store, p, 7, 1.0f);
    CHECK_OK(hil_store_give_gradients(store, 7));
    CHECK_OK(hil_store_give_gradients(store, 2));
    CHECK_OK(hil_store_give_gradients(store, 3));
    CHECK_OK(hil_store_pass_end(store));
    double norm;
    CHECK_OK(hil_store_norm(store, &norm));
    CHECK_NEAR(norm, 2.00390625 * sqrt(12800), 1e-9);
    CHECK_OK(hil_store_update(store, show, "", 1));
    CHECK_OK(hil_store_sweep_wait(store));
    CHECK_INT(last_shown.gradients, 2);
    CHECK_INT(last_shown.first, hil_bf16_round(0.00390625f));
    CHECK_INT(last_shown.second, hil_bf16_round(2.0f));
    hil_store_step_end(store);
    last_shown = (shown){0};
    CHECK_OK(hil_store_update(store, show, "", 1));
    CHECK_OK(hil_store_sweep_wait(store));
    CHECK_INT(last_shown.gradients, 0);
    store_rig_close(&rig);
}

enum { VECTORS = 150, LONGEST = 700 };

static int64_t vector_length(int i)
{
    return 1 + i * 97 % LONGEST;
}

/* One unit with more members than one rounding call takes; some of them get no gradient. */
static void check_vectors(hil_pool *pool)
{
    hil_store *store;
    hil_param *p[VECTORS];
    CHECK_OK(hil_store_create(&store));
    for (int i = 0; i < VECTORS; ++i) {
        char name[16];
        snprintf(name, sizeof name, "v%d", i);
        hil_param_spec spec = {.name = name, .shape = {1, {vector_length(i)}}};
        CHECK_OK(hil_store_add(store, &spec, &p[i]));
    }
    hil_store_options options = {
        .compute = HIL_BF16, .training = true, .tile_size = 1 << 20, .moments = 2};
    store_rig rig;
    store_rig_open(&rig, store, pool, &options);
    CHECK_INT(hil_store_units(store), 1);
    CHECK_OK(hil_store_initialise(store, 5));
    double expected = 0, norm;
    CHECK_OK(hil_store_pass_begin(store, HIL_PASS_TRAIN));
    for (int i = 0; i < VECTORS; ++i) {
        float *sum;
        bool added;
        if (i % 7 == 3) continue;
        CHECK_OK(hil_store_sum_acquire(store, p[i], 0, 0, &sum, &added));
        CHECK(!added);
        for (int64_t k = 0; k < vector_length(i); ++k) sum[k] = (float)(i + 1);
        hil_store_sum_release(store, p[i], 0, 0);
        expected += (double)vector_length(i) * (i + 1) * (i + 1);
    }
    CHECK_OK(hil_store_give_gradients(store, 0));
    CHECK_OK(hil_store_pass_end(store));
    CHECK_OK(hil_store_norm(store, &norm));
    CHECK_NEAR(norm, sqrt(expected), 1e-9);
    hil_store_step_end(store);
    store_rig_close(&rig);
}

/* Initial values depend only on the seed, the parameter's number and the element's index. */
static void check_initialisation(hil_pool *one, hil_pool *three)
{
    float first[2][5000];
    for (int i = 0; i < 2; ++i) {
        hil_store *store;
        CHECK_OK(hil_store_create(&store));
        hil_param *p = add(store, "p", 50, 100);
        hil_store_options options = {.compute = i ? HIL_BF16 : HIL_F32,
                                     .training = true,
                                     .tile_size = 1 << 20,
                                     .moments = 2};
        store_rig rig;
        store_rig_open(&rig, store, i ? three : one, &options);
        CHECK_OK(hil_store_initialise(store, 5));
        CHECK_OK(hil_store_read(store, p, HIL_MASTER, 0, 5000, first[i]));
        store_rig_close(&rig);
    }
    CHECK(memcmp(first[0], first[1], sizeof first[0]) == 0);
    CHECK(first[0][0] != first[0][1]);
}

int main(void)
{
    hil_pool *one, *three;
    CHECK_OK(hil_pool_create(&one, 1));
    CHECK_OK(hil_pool_create(&three, 3));
    check_halves();
    check_uses(three);
    check_vectors(three);
    check_initialisation(one, three);
    hil_pool_destroy(one);
    hil_pool_destroy(three);
    return 0;
}
