/* The budget of tensors is hard, and memory is not reused before its copy-out ends. */
#include "tier/buffers.h"

#include "base/alloc.h"
#include "waiter.h"

#define KIB ((size_t)1024)

static void check_budget(void)
{
    hil_tiers tiers;
    hil_buffers *buffers;
    void *memory[16], *more;
    hil_tiers_options options = {.device_bytes = 1024 * KIB};
    CHECK_OK(hil_tiers_open(&tiers, &options));
    CHECK_FAILS(hil_buffers_create(&buffers, &tiers, 2048 * KIB), HIL_ERR_BUDGET, "device");
    CHECK_OK(hil_buffers_create(&buffers, &tiers, 512 * KIB));
    CHECK_OK(hil_buffers_take(buffers, 0, &memory[0]));
    CHECK(memory[0] != NULL && (uintptr_t)memory[0] % 64 == 0);
    hil_buffers_give(buffers, memory[0]);
    hil_buffers_give(buffers, NULL);
    for (int i = 0; i < 16; ++i) {
        CHECK_OK(hil_buffers_take(buffers, 32 * KIB - (size_t)i % 64, &memory[i]));
        CHECK_INT((uintptr_t)memory[i] % 64, 0);
        memset(memory[i], i, 32 * KIB - (size_t)i % 64);
    }
    CHECK_INT(hil_buffers_bytes(buffers), 512 * KIB);
    CHECK_INT(hil_buffers_peak(buffers), 512 * KIB);
    CHECK_FAILS(hil_buffers_take(buffers, 1, &more), HIL_ERR_BUDGET,
                "--device-memory (now 1.0 MiB");
    CHECK(more == NULL);
    CHECK_FAILS(hil_buffers_take(buffers, 1, &more), HIL_ERR_BUDGET, "--micro-batch");
    hil_buffers_give(buffers, memory[3]);
    CHECK_FAILS(hil_buffers_take(buffers, 100 * KIB, &more), HIL_ERR_BUDGET, "68.0 KiB missing");
    hil_buffers_give(buffers, memory[5]);
    CHECK_FAILS(hil_buffers_take(buffers, 64 * KIB, &more), HIL_ERR_BUDGET, "no gap of 64.0 KiB");
    CHECK_OK(hil_buffers_take(buffers, 32 * KIB, &more));
    CHECK(more == memory[3]);
    hil_buffers_give(buffers, more);
    long before = hil_alloc_count();
    for (int i = 0; i < 16; ++i) {
        if (i != 3 && i != 5) {
            for (size_t k = 0; k < 32 * KIB - (size_t)i % 64; ++k)
                CHECK(((char *)memory[i])[k] == i);
            hil_buffers_give(buffers, memory[i]);
        }
    }
    CHECK_OK(hil_buffers_take(buffers, 512 * KIB, &more));
    hil_buffers_give(buffers, more);
    CHECK_INT(hil_alloc_count(), before);
    CHECK_INT(hil_buffers_bytes(buffers), 0);
    hil_buffers_destroy(buffers);
    hil_buffers_destroy(NULL);
    hil_tiers_close(&tiers);
}

static atomic_int done;

static hil_status slow(void *context, int64_t index)
{
    (void)context;
    (void)index;
    waiter_await();
    atomic_store(&done, 1);
    return HIL_OK;
}

static hil_status fails(void *context, int64_t index)
{
    (void)context;
    (void)index;
    return hil_fail(HIL_ERR_IO, "the drive is gone");
}

static void check_fences(void)
{
    hil_tiers tiers;
    hil_buffers *buffers;
    void *first, *second;
    hil_fence fence = {0}, after;
    hil_account account;
    hil_tiers_options options = {.device_bytes = 64 * KIB};
    CHECK_OK(hil_tiers_open(&tiers, &options));
    CHECK_OK(hil_buffers_create(&buffers, &tiers, 64 * KIB));
    hil_job job = {.link = HIL_LINK_UPDATE, .run = slow, .name = "slow"};
    CHECK_OK(hil_buffers_take(buffers, 64 * KIB, &first));
    CHECK_OK(hil_links_submit(tiers.links, &job, &fence));
    hil_buffers_give_after(buffers, first, &fence);
    CHECK_OK(hil_buffers_take_after(buffers, 100, &second, &after));
    CHECK(memcmp(&after, &fence, sizeof after) == 0);
    CHECK_INT(atomic_load(&done), 0);
    hil_buffers_give_after(buffers, second, &after);
    atomic_store(&waiter_comes, 1);
    CHECK_OK(hil_buffers_take(buffers, 100, &second));
    CHECK_INT(atomic_load(&done), 1);
    hil_links_take_account(tiers.links, &account);
    CHECK(account.wait[HIL_WAIT_MEMORY] > 0.01);
    hil_buffers_give(buffers, second);

    job.run = fails;
    CHECK_OK(hil_buffers_take(buffers, 64 * KIB, &first));
    CHECK_OK(hil_links_submit(tiers.links, &job, &fence));
    hil_buffers_give_after(buffers, first, &fence);
    CHECK_FAILS(hil_buffers_take(buffers, 100, &second), HIL_ERR_IO, "the drive is gone");
    CHECK(second == NULL);
    CHECK_INT(hil_buffers_bytes(buffers), 0);
    hil_buffers_destroy(buffers);
    hil_tiers_close(&tiers);
}

int main(void)
{
    check_budget();
    check_fences();
    return 0;
}
