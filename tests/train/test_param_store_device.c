/* A parameter store on a device with its own memory and asynchronous streams, which are delayed at
   random: any placement gives the CPU's bits, also if gradients are complete, and weights are read,
   only when the compute stream gets there. */
#include "device/device_threads.h"
#include "io/file.h"
#include "param_store_kinds.h"
#include "train/param_store.h"

#include <stdatomic.h>

typedef struct moving {
    void *to;
    const void *from;
    size_t bytes;
} moving;

static hil_status move(void *args)
{
    const moving *m = args;
    memcpy(m->to, m->from, m->bytes);
    return HIL_OK;
}

static void queue_move(hil_param_store *store, void *to, const void *from, size_t bytes)
{
    moving m = {to, from, bytes};
    CHECK_OK(hil_device_threads_call(store->device, HIL_STREAM_COMPUTE, move, &m, sizeof m));
}

static const void *lend(hil_param_store *store, int slot, const void *bytes, size_t count)
{
    static char memory[SLOTS][MOST * sizeof(float)], made[SLOTS][MOST * sizeof(float)];
    if (slot == 0) hil_device_threads_delay(store->device, (uint64_t)store->updates, 500);
    memcpy(made[slot], bytes, count);
    queue_move(store, memory[slot], made[slot], count);
    return memory[slot];
}

static void look(hil_param_store *store, void *out, const void *weights, size_t bytes)
{
    queue_move(store, out, weights, bytes);
}

static const kinds_side threads = {"threads", NULL, lend, look, NULL};

/* What is moved stays within the budgets. */
static void check_budget(void)
{
    hil_stored_param *param[PARAMS];
    const placement at = {.device = 2 * M, .host = 8 * M};
    hil_param_store *store = open_store("bf16", &threads, &at, param);
    hil_step_account account;
    char seen[PARAMS][64];
    CHECK(store->tiers.device_bytes <= at.device);
    for (int s = 0; s < 2; ++s) (void)take_step(store, &threads, &at, param, s, seen);
    hil_param_store_account(store, &account);
    CHECK(account.device_peak <= at.device && account.host_peak <= at.host);
    hil_param_store_destroy(store);
}

/* A budget that is not set is what is free, and only what is needed of it is taken. */
static void check_free(void)
{
    hil_stored_param *param[PARAMS];
    const placement at = {0};
    hil_param_store *store = open_store("bf16", &threads, &at, param);
    hil_param_store_bytes placed = hil_param_store_placed(store);
    CHECK(placed.device > 0 && placed.host == 0 && placed.disk == 0);
    CHECK(store->budget.device > 64 * M && store->tiers.device_bytes < 16 * M);
    hil_param_store_destroy(store);
}

/* Saved on the device and loaded on the CPU, and the reverse. */
static void check_saved(const placement *at, const outcome *want)
{
    static outcome got;
    static const placement on_cpu = {.device = 8 * M, .host = 4 * M};
    const kinds_side *side[] = {&kinds_cpu, &threads};
    const placement *place[] = {&on_cpu, at};
    for (int k = 0; k < 2; ++k) {
        char folder[] = "/tmp/param_store_device_XXXXXX";
        CHECK(mkdtemp(folder) != NULL);
        run_saving("fp16", side[k], place[k], folder, "text", &got);
        CHECK(memcmp(want, &got, sizeof got) == 0);
        run_loaded("fp16", side[!k], place[!k], folder, "text", &got);
        CHECK(memcmp(want, &got, sizeof got) == 0);
        CHECK_OK(hil_file_remove_tree(folder));
    }
}

/* Speeds are measured once, and change no bits. */
static void check_speeds(const outcome *want)
{
    static outcome got;
    char folder[] = "/tmp/param_store_device_XXXXXX", cache[64];
    CHECK(mkdtemp(folder) != NULL);
    snprintf(cache, sizeof cache, "%s/speeds.json", folder);
    placement at = {.device = 500 << 10, .host = 400 << 10, .drives = 1, .probe_cache = cache};
    run("fp16", &threads, &at, &got);
    CHECK(memcmp(want, &got, sizeof got) == 0);
    CHECK(hil_file_exists(cache));
    CHECK_OK(hil_file_remove_tree(folder));
}

static const hil_device_heap *heap; /* of the device for tests */
static _Atomic uintptr_t pinned_end;

static hil_status note_pin(hil_device *device, void *memory, size_t bytes)
{
    uintptr_t end = (uintptr_t)memory + bytes, before = pinned_end;
    while (before < end && !atomic_compare_exchange_weak(&pinned_end, &before, end)) {
    }
    return heap->pin(device, memory, bytes);
}

/* Room for sums that may be spilled, which the store takes last, is not pinned until one is. */
static void check_start(void)
{
    hil_param_store *store;
    hil_stored_param *param;
    hil_param_store_options options;
    const hil_param_store_form form = {.rows = 512, .cols = 256};
    uint64_t need[HIL_TIERS];
    hil_param_store_defaults(&options);
    options.device.name = "threads";
    options.memory = (hil_memory_options){.device = M, .host = 8 * M};
    options.tile_size = 64 << 10;
    CHECK_OK(hil_param_store_create(&store, &options));
    heap = store->device->heap;
    hil_device_heap noting = *heap;
    noting.pin = note_pin;
    store->device->heap = &noting;
    CHECK_OK(hil_param_store_add(store, "p", &form, &param));
    CHECK_OK(hil_param_store_place(store));
    hil_plan_needs(&store->plan, &store->outline, need);
    CHECK(store->plan.spilled >= 512 * 256 * sizeof(float));
    uintptr_t begin = (uintptr_t)store->tiers.host_base + need[HIL_HOST] - store->plan.spilled;
    CHECK_OK(hil_pins_wait(store->tiers.pins, store->tiers.host_base, 1)); /* weights */
    CHECK(pinned_end > (uintptr_t)store->tiers.host_base && pinned_end <= begin);
    hil_param_store_destroy(store);
}

int main(void)
{
    static const placement at[] = {{.device = 500 << 10, .host = 4 * M, .grow = 8 * M},
                                   {.device = 8 * M, .host = 4 * M},
                                   {.device = 500 << 10, .host = 4 * M, .window = 330 << 10},
                                   {.device = 500 << 10, .host = 400 << 10, .drives = 1}};
    static outcome fp16;
    check_device(&threads, &fp16);
    for (int i = 0; i < 4; ++i) check_saved(&at[i], &fp16);
    check_speeds(&fp16);
    check_budget();
    check_free();
    check_start();
    return 0;
}
