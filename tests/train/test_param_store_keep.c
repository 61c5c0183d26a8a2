/* Bytes that a store keeps come back unchanged from host memory and disk, in any order, between and
   within steps, on the CPU and on a device whose streams are delayed at random; they stay within
   the budgets, and a refusal leaves the store as it was. */
#include "device/device_threads.h"
#include "param_store_kinds.h"
#include "train/param_store.h"

enum { KEPT = 12, LARGE = 200 << 10 };

static size_t size_of(int i)
{
    return i == 5 ? 0 : (size_t)(i * 37 % 13) * (LARGE / 13) + (size_t)i;
}

static char byte_of(int round, int i, size_t at)
{
    return (char)(at * 31 + (size_t)(i * 7 + round * 11));
}

typedef struct rig {
    hil_param_store *store;
    hil_stored_param *param[PARAMS];
    placement at;
    const kinds_side *side;
    char *data, *back; /* of the program, which the device can copy */
    hil_kept *kept[KEPT];
} rig;

static const void *lend(hil_param_store *store, int slot, const void *bytes, size_t count)
{
    static char memory[SLOTS][MOST * sizeof(float)];
    (void)store;
    return memcpy(memory[slot], bytes, count);
}

static void look(hil_param_store *store, void *out, const void *weights, size_t bytes)
{
    hil_device *device = store->device;
    CHECK_OK(device->queue->copy(device, HIL_STREAM_COMPUTE, out, weights, bytes));
}

static void finish(const rig *r)
{
    if (r->store->device) CHECK_OK(r->store->device->queue->finish(r->store->device));
}

static void keep(rig *r, int round, int i)
{
    finish(r);
    for (size_t at = 0; at < size_of(i); ++at) r->data[at] = byte_of(round, i, at);
    CHECK_OK(hil_param_store_keep(r->store, r->data, size_of(i), &r->kept[i]));
}

static void fetch(rig *r, int round, int i)
{
    memset(r->back, 0x55, LARGE);
    CHECK_OK(hil_param_store_fetch(r->store, r->kept[i], r->back));
    finish(r);
    for (size_t at = 0; at < size_of(i); ++at) CHECK(r->back[at] == byte_of(round, i, at));
    CHECK(r->back[size_of(i)] == 0x55);
}

static void drop(rig *r, int i)
{
    hil_param_store_drop(r->store, r->kept[i]);
    r->kept[i] = NULL;
}

static char *pages(const rig *r)
{
    void *memory;
    CHECK(posix_memalign(&memory, 4096, 2 * LARGE) == 0);
    hil_device *device = r->store->device;
    if (device) CHECK_OK(device->heap->pin(device, memory, 2 * LARGE));
    return memory;
}

static void give_pages(const rig *r, char *memory)
{
    hil_device *device = r->store->device;
    if (device) device->heap->unpin(device, memory, 2 * LARGE);
    free(memory);
}

/* Forward keeps, backward fetches in reverse; some are fetched twice, or out of order. */
static void check_rounds(rig *r)
{
    char seen[PARAMS][64];
    for (int round = 0; round < 3; ++round) {
        if (r->store->device) hil_device_threads_delay(r->store->device, (uint64_t)round, 300);
        for (int i = 0; i < KEPT; ++i) keep(r, round, i);
        if (round == 1) (void)take_step(r->store, r->side, &r->at, r->param, 0, seen);
        fetch(r, round, 3);
        for (int i = KEPT - 1; i >= 0; --i) {
            fetch(r, round, i);
            if (i % 4 == 1) fetch(r, round, i);
            drop(r, i);
            if (i == 6) keep(r, round, 11), fetch(r, round, 11), drop(r, 11);
        }
    }
}

static void check_side(const kinds_side *side, int drives, uint64_t host)
{
    rig r = {.side = side, .at = {.device = 2 * M, .host = 4 * M, .drives = drives}};
    hil_step_account account;
    r.at.keep_window = 128 << 10;
    r.at.keep_host = host;
    r.store = open_store("bf16", side, &r.at, r.param);
    r.data = pages(&r);
    r.back = pages(&r);
    check_rounds(&r);
    hil_param_store_account(r.store, &account);
    CHECK(account.device_peak <= r.at.device && account.host_peak <= r.at.host);
    CHECK((account.disk_written_bytes > 0) == (drives > 0));
    keep(&r, 0, 7); /* destroying the store drops it */
    finish(&r);
    give_pages(&r, r.data);
    give_pages(&r, r.back);
    hil_param_store_destroy(r.store);
}

static void check_refused(void)
{
    rig r = {.side = &kinds_cpu, .at = {.device = 2 * M, .host = 4 * M}};
    r.store = open_store("bf16", r.side, &r.at, r.param);
    CHECK_FAILS(hil_param_store_keep(r.store, &r, 1, &r.kept[0]), HIL_ERR_USAGE, "keep_window");
    hil_param_store_destroy(r.store);
    r.at.keep_window = r.at.keep_host = 128 << 10;
    r.store = open_store("bf16", r.side, &r.at, r.param);
    r.data = pages(&r);
    r.back = pages(&r);
    keep(&r, 0, 6);
    CHECK_FAILS(hil_param_store_keep(r.store, r.data, LARGE, &r.kept[0]), HIL_ERR_BUDGET, "host");
    CHECK(r.kept[0] == NULL);
    fetch(&r, 0, 6);
    hil_param_store_drop(r.store, NULL);
    give_pages(&r, r.data);
    give_pages(&r, r.back);
    hil_param_store_destroy(r.store);
}

int main(void)
{
    static const kinds_side device = {"threads", NULL, lend, look, NULL};
    const kinds_side *side[] = {&kinds_cpu, &device};
    for (int k = 0; k < 2; ++k) {
        check_side(side[k], 0, 3 * M);
        check_side(side[k], 1, 256 << 10);
    }
    check_refused();
    return 0;
}
