/* test_gpu_device.c - a GPU as a device: memory, pinned memory, streams that wait for one
   another. */
#include "gpu/gpu_check.h"

#include <sys/mman.h>

#define BYTES ((size_t)96 << 20)
#define ROUNDS 20

static void check_about(void)
{
    CHECK(strlen(gpu->name) > 0);
    CHECK(gpu->memory > (size_t)1 << 30);
    CHECK(gpu->available > 0 && gpu->available < gpu->memory);
    CHECK(gpu->outside > 0 && gpu->outside < (size_t)4 << 30);
}

static void *map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

/* Copies data in, across and out on three streams, each of which follows the one before. A stream
   that did not wait would read old data. */
static void check_order(void)
{
    uint64_t *in = map(BYTES), *out = map(BYTES);
    void *first, *second;
    hil_event *event[3];
    CHECK_OK(gpu->heap->pin(gpu, in, BYTES));
    CHECK_OK(gpu->heap->pin(gpu, out, BYTES));
    CHECK_OK(gpu->heap->alloc(gpu, BYTES, &first));
    CHECK_OK(gpu->heap->alloc(gpu, BYTES, &second));
    CHECK_INT((uintptr_t)first % 256, 0);
    for (int i = 0; i < 3; ++i) CHECK_OK(gpu->events->create(gpu, &event[i]));
    for (uint64_t round = 1; round <= ROUNDS; ++round) {
        for (size_t i = 0; i < BYTES / 8; ++i) in[i] = round * i;
        CHECK_OK(gpu->queue->copy(gpu, HIL_STREAM_IN, first, in, BYTES));
        CHECK_OK(gpu->events->record(gpu, HIL_STREAM_IN, event[0]));
        CHECK_OK(gpu->events->follow(gpu, HIL_STREAM_COMPUTE, event[0]));
        CHECK_OK(gpu->queue->copy(gpu, HIL_STREAM_COMPUTE, second, first, BYTES));
        CHECK_OK(gpu->queue->zero(gpu, HIL_STREAM_COMPUTE, second, 64));
        CHECK_OK(gpu->events->record(gpu, HIL_STREAM_COMPUTE, event[1]));
        CHECK_OK(gpu->events->follow(gpu, HIL_STREAM_OUT, event[1]));
        CHECK_OK(gpu->queue->copy(gpu, HIL_STREAM_OUT, out, second, BYTES));
        CHECK_OK(gpu->events->record(gpu, HIL_STREAM_OUT, event[2]));
        CHECK_OK(gpu->events->wait(gpu, event[2]));
        for (size_t i = 0; i < 8; ++i) CHECK_INT(out[i], 0);
        CHECK(memcmp(out + 8, in + 8, BYTES - 64) == 0);
    }
    for (int i = 0; i < 3; ++i) gpu->events->destroy(gpu, event[i]);
    gpu->heap->free(gpu, first);
    gpu->heap->free(gpu, second);
    gpu->heap->unpin(gpu, in, BYTES);
    gpu->heap->unpin(gpu, out, BYTES);
    munmap(in, BYTES);
    munmap(out, BYTES);
}

/* Memory is pinned in several pieces; a copy crosses from one to the next. */
static void check_pieces(void)
{
    size_t bytes = 3 * gpu->pin_piece + 4096 * 3;
    char *host = map(bytes);
    void *there;
    CHECK_OK(gpu->heap->pin(gpu, host, bytes));
    CHECK_OK(gpu->heap->alloc(gpu, bytes, &there));
    for (size_t i = 0; i < bytes; i += 4096) host[i] = (char)(i / 4096 % 251);
    CHECK_OK(gpu->queue->copy(gpu, HIL_STREAM_COMPUTE, there, host, bytes));
    CHECK_OK(gpu->queue->finish(gpu));
    for (size_t i = 0; i < bytes; i += 4096) host[i] = 0;
    CHECK_OK(gpu->queue->copy(gpu, HIL_STREAM_COMPUTE, host, there, bytes));
    CHECK_OK(gpu->queue->finish(gpu));
    for (size_t i = 0; i < bytes; i += 4096) CHECK_INT(host[i], (char)(i / 4096 % 251));
    gpu->heap->free(gpu, there);
    gpu->heap->unpin(gpu, host, bytes);
    CHECK_OK(gpu->heap->pin(gpu, host, 4096)); /* pins again: unpin left nothing */
    gpu->heap->unpin(gpu, host, 4096);
    munmap(host, bytes);
}

static void check_shared(void)
{
    float *x, host[5000];
    double *sum, want = 0.5;
    hil_tensor tensor = {HIL_F32, {1, {5000}}, NULL};
    for (int i = 0; i < 5000; ++i) want += host[i] = (float)(i % 17) / 4;
    CHECK_OK(gpu->heap->share(gpu, sizeof *sum, (void **)&sum));
    CHECK(*sum == 0);
    *sum = 0.5;
    CHECK_OK(gpu->heap->alloc(gpu, sizeof host, (void **)&x));
    CHECK_OK(gpu->queue->copy(gpu, HIL_STREAM_COMPUTE, x, host, sizeof host));
    tensor.data = x;
    CHECK_OK(hil_cuda_ops.sum(gpu, &tensor, sum));
    CHECK_OK(gpu->queue->finish(gpu));
    CHECK(*sum == want);
    gpu->heap->free(gpu, x);
    gpu->heap->unshare(gpu, sum);
}

int main(void)
{
    gpu_begin();
    check_about();
    check_order();
    check_pieces();
    check_shared();
    void *memory;
    CHECK_FAILS(gpu->heap->alloc(gpu, gpu->memory * 2, &memory), HIL_ERR_MEMORY, "out of memory");
    gpu_end();
    return 0;
}
