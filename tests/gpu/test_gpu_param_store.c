/* A parameter store on a GPU, on a stream of the program's: the CPU's bits for any placement, and
   no call but the step waits for the GPU. The program's side is a device of its own. */
#include "base/clock.h"
#include "device/cuda.h"
#include "train/param_store_kinds.h"

static hil_device *gpu;

/* A gradient that is complete when the stream gets there. */
static const void *lend(hil_param_store *store, int slot, const void *bytes, size_t count)
{
    static void *memory[SLOTS], *made[SLOTS];
    (void)store;
    if (!memory[slot]) {
        CHECK_OK(gpu->heap->alloc(gpu, MOST * sizeof(float), &memory[slot]));
        CHECK_OK(gpu->heap->share(gpu, MOST * sizeof(float), &made[slot]));
    }
    memcpy(made[slot], bytes, count);
    CHECK_OK(gpu->queue->copy(gpu, HIL_STREAM_COMPUTE, memory[slot], made[slot], count));
    return memory[slot];
}

static void look(hil_param_store *store, void *out, const void *weights, size_t bytes)
{
    (void)store;
    CHECK_OK(gpu->queue->copy(gpu, HIL_STREAM_COMPUTE, out, weights, bytes));
}

#define BUSY ((size_t)256 << 20)

/* While the stream copies for a long time, a step up to its norm is queued in much less. */
static void check_queued(const kinds_side *side)
{
    static const placement at = {.device = 64 * M, .host = 64 * M};
    hil_stored_param *param[PARAMS];
    hil_param_store *store = open_store("bf16", side, &at, param);
    char seen[PARAMS][64];
    void *from, *to;
    double norm;
    CHECK_OK(gpu->heap->share(gpu, BUSY, &from));
    CHECK_OK(gpu->heap->alloc(gpu, BUSY, &to));
    for (int s = 0; s < 2; ++s) (void)take_step(store, side, &at, param, s, seen);
    CHECK_OK(hil_param_store_wait(store));
    CHECK_OK(hil_param_store_begin(store, HIL_PARAM_STORE_TRAIN));
    for (int i = 0; i < 100; ++i)
        CHECK_OK(gpu->queue->copy(gpu, HIL_STREAM_COMPUTE, to, from, BUSY));
    double begun = hil_clock_now();
    for (int micro = 0; micro < MICROS; ++micro)
        for (int p = 0; p < PARAMS; ++p) {
            const void *weights;
            CHECK_OK(hil_param_store_acquire(store, param[p], 0, &weights));
            give(store, side, param[p], 0, micro, p);
            hil_param_store_release(store, param[p], 0);
        }
    double queued = hil_clock_now() - begun;
    CHECK_OK(hil_param_store_step(store, 0.5, &norm));
    CHECK(queued < (hil_clock_now() - begun) / 4);
    CHECK_OK(hil_param_store_end(store));
    hil_param_store_destroy(store);
    gpu->heap->free(gpu, to);
    gpu->heap->unshare(gpu, from);
}

int main(void)
{
    static const placement at = {.device = 64 * M, .host = 8 * M};
    static outcome fp16;
    if (hil_cuda_count() == 0) {
        fprintf(stderr, "no GPU here: skipped\n");
        return CHECK_SKIP;
    }
    CHECK_OK(hil_cuda_open(&gpu, 0));
    kinds_side side = {"cuda", hil_cuda_stream_for(gpu, HIL_STREAM_COMPUTE), lend, look, NULL};
    check_device(&side, &fp16);
    check_queued(&side);
    CHECK_OK(gpu->adopt(gpu, NULL)); /* CUDA's default stream */
    side.stream = NULL;
    check_placements("fp16", &side, &at, 1, false, &fp16);
    check_queued(&side);
    hil_cuda_close(gpu);
    return 0;
}
