/* test_batch_input_share.c - the fraction of causal pairs left after document masking, against a
   count pair by pair. */
#include "autograd/batch_input.h"
#include "base/pool.h"
#include "check.h"
#include "device/device_threads.h"

enum { B = 3, T = 37, MICROS = 4 };

static double count(const int32_t *first)
{
    double seen = 0, all = 0;
    for (int64_t row = 0; row < B * T; ++row)
        for (int64_t key = 0; key <= row % T; ++key, ++all) seen += !first || key >= first[row];
    return seen / all;
}

/* No documents, one document, cuts at different positions, documents of one token. */
static void fill(int32_t first[MICROS][B * T])
{
    static const int64_t cut[MICROS][B] = {{T, T, T}, {T, T, T}, {5, T, 11}, {1, 1, 1}};
    for (int m = 0; m < MICROS; ++m)
        for (int64_t i = 0; i < B * T; ++i)
            first[m][i] = (int32_t)(i % T / cut[m][i / T] * cut[m][i / T]);
}

int main(void)
{
    int32_t first[MICROS][B * T];
    hil_micro micro[MICROS] = {{.sequences = B, .length = T}};
    fill(first);
    for (int m = 0; m < MICROS; ++m)
        micro[m] = (hil_micro){.sequences = B, .length = T, .first = m ? first[m] : NULL};
    hil_tiers tiers;
    hil_batch_input input = {0};
    CHECK_OK(hil_device_threads_open(&input.device));
    CHECK_OK(hil_pool_create_dry(&input.pool));
    CHECK_OK(hil_tiers_open(&tiers, &(hil_tiers_options){.device_bytes = 1 << 20}));
    CHECK_OK(hil_buffers_create(&input.buffers, &tiers, 1 << 19));
    CHECK_OK(hil_batch_input_begin(&input, micro, MICROS));
    for (int m = 0; m < MICROS; ++m) CHECK_NEAR(input.micro[m].share, count(micro[m].first), 1e-12);
    CHECK(input.micro[0].share == 1 && input.micro[1].share == 1 && input.micro[2].share < 1);
    hil_batch_input_end(&input);
    hil_batch_input_free(&input);
    hil_buffers_destroy(input.buffers);
    hil_tiers_close(&tiers);
    hil_pool_destroy(input.pool);
    input.device->close(input.device);
    return 0;
}
