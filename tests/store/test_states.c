/* Masters come back bit for bit from weight and low half; gradients of several uses are kept apart,
   rounded once and found in the declared order; tiles are whole groups of rows. */
#include "base/philox.h"
#include "check.h"
#include "store/store.h"

#define WORK ((size_t)1 << 20)

static void check_halves(void)
{
    for (uint64_t i = 0; i < 200000; ++i) {
        uint32_t word[4];
        hil_philox(1, i, 0, word);
        uint32_t u = i < 65536 ? ((uint32_t)i << 16 | 0x8000u) : word[0];
        if ((u & 0x7fffffffu) > 0x7f800000u) continue;
        float x = hil_float(u);
        CHECK_INT(hil_bits(hil_weight_join(hil_weight_high(x), hil_weight_low(x))), u);
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
    for (int64_t tile = 0; tile < 2; ++tile) {
        CHECK_OK(hil_store_sum_acquire(store, p, segment, tile, &sum));
        for (int64_t i = 0; i < 64 * 100; ++i) sum[i] += value;
        hil_store_sum_release(store, p, segment, tile);
    }
}

static void check_uses(hil_pool *pool, hil_tiers *tiers)
{
    hil_store *store;
    hil_block block;
    CHECK_OK(hil_store_create(&store));
    hil_param *p = add(store, "p", 128, 100), *same;
    hil_param_spec again = {.name = "p", .shape = {1, {4}}};
    CHECK_FAILS(hil_store_add(store, &again, &same), HIL_ERR_USAGE, "twice");
    hil_store_options options = {pool, HIL_BF16, true, 64 * 100 * 2, 2, HIL_CODEC_F32, tiers, WORK};
    CHECK_OK(hil_store_allocate(store, &options));
    CHECK_INT(hil_param_tile_rows(p), 64);
    CHECK_OK(hil_store_initialise(store, 5));
    add_to(store, p, 7, 1.0f);
    add_to(store, p, 2, 0.00390625f); /* 2^-8: lost if it were added to 1 in bf16 */
    add_to(store, p, 7, 1.0f);
    CHECK_OK(hil_store_give_gradient(store, p, 7));
    CHECK_OK(hil_store_give_gradient(store, p, 2));
    CHECK_OK(hil_store_give_gradient(store, p, 3));
    CHECK_OK(hil_store_block_acquire(store, p, 0, &block));
    CHECK_INT(block.count, 12800);
    CHECK_INT(block.gradients, 2);
    CHECK_INT(((const uint16_t *)block.gradient[0])[12799], hil_bf16_round(0.00390625f));
    CHECK_INT(((const uint16_t *)block.gradient[1])[12799], hil_bf16_round(2.0f));
    hil_store_block_release(store, p, 0);
    hil_store_step_end(store);
    CHECK_OK(hil_store_block_acquire(store, p, 0, &block));
    CHECK_INT(block.gradients, 0);
    hil_store_destroy(store);
}

/* What a parameter starts with depends on the seed, its number and the element alone. */
static void check_initialisation(hil_pool *one, hil_pool *three, hil_tiers *tiers)
{
    float first[2][5000];
    for (int i = 0; i < 2; ++i) {
        hil_store *store;
        CHECK_OK(hil_store_create(&store));
        hil_param *p = add(store, "p", 50, 100);
        hil_dtype dtype = i ? HIL_BF16 : HIL_F32;
        hil_store_options options = {i ? three : one, dtype, true, 1 << 20, 2,
                                     HIL_CODEC_F32,   tiers, WORK};
        CHECK_OK(hil_store_allocate(store, &options));
        CHECK_OK(hil_store_initialise(store, 5));
        CHECK_OK(hil_store_read(store, p, HIL_MASTER, 0, 5000, first[i]));
        hil_store_destroy(store);
    }
    CHECK(memcmp(first[0], first[1], sizeof first[0]) == 0);
    CHECK(first[0][0] != first[0][1]);
}

int main(void)
{
    hil_pool *one, *three;
    hil_tiers tiers;
    hil_tiers_options options = {.device_bytes = 4 * WORK};
    CHECK_OK(hil_tiers_open(&tiers, &options));
    CHECK_OK(hil_pool_create(&one, 1));
    CHECK_OK(hil_pool_create(&three, 3));
    check_halves();
    check_uses(three, &tiers);
    check_initialisation(one, three, &tiers);
    hil_tiers_close(&tiers);
    hil_pool_destroy(one);
    hil_pool_destroy(three);
    return 0;
}
