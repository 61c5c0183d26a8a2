/* batch_input.c - copies arrays of micro-batches to the device, and losses and logits back. */
#include "autograd/batch_input.h"

#include "base/alloc.h"

#include <string.h>

/* Bytes: logits are copied back in pieces of at least this size. */
#define SHARED_LEAST ((size_t)1 << 20)

/* Whether a device computes; false also in a rehearsal of one. */
static bool is_live(const hil_feed *feed)
{
    return feed->device && !hil_pool_is_dry(feed->pool);
}

static void drop_memory(hil_feed *feed)
{
    if (feed->memory && is_live(feed))
        feed->device->heap->unshare(feed->device, feed->memory);
    else
        hil_free(feed->memory);
    feed->memory = NULL;
    feed->bytes = 0;
}

static hil_status reserve(hil_feed *feed, size_t bytes)
{
    if (feed->memory && bytes <= feed->bytes) return HIL_OK;
    drop_memory(feed);
    if (is_live(feed)) {
        if (bytes < SHARED_LEAST) bytes = SHARED_LEAST;
        HIL_TRY(feed->device->heap->share(feed->device, bytes, (void **)&feed->memory));
    } else {
        HIL_TRY(HIL_ALLOC(bytes, &feed->memory));
    }
    feed->bytes = bytes;
    return HIL_OK;
}

static int64_t positions(const hil_micro *micro)
{
    return micro->sequences * micro->length;
}

/* Fraction of causal pairs left after document masking. */
static double share_of(const hil_micro *micro)
{
    int64_t length = micro->length, pairs = micro->sequences * length * (length + 1) / 2, lost = 0;
    for (int64_t i = 0; micro->first && i < positions(micro); ++i) lost += micro->first[i];
    return pairs ? (double)(pairs - lost) / (double)pairs : 1;
}

/* Copies the four arrays of a micro-batch, contiguous; missing ones are zeros. */
static void pack(const hil_micro *micro, int32_t *to)
{
    const int32_t *const array[] = {micro->token, micro->target, micro->position, micro->first};
    size_t bytes = (size_t)positions(micro) * sizeof *to;
    for (int i = 0; i < 4; ++i, to += positions(micro)) {
        if (array[i])
            memcpy(to, array[i], bytes);
        else
            memset(to, 0, bytes);
    }
}

static hil_status send_ids(hil_feed *feed, size_t losses)
{
    size_t bytes = 0;
    for (int64_t m = 0; m < feed->count; ++m)
        bytes += 4 * (size_t)positions(&feed->micro[m]) * sizeof(int32_t);
    if (is_live(feed)) HIL_TRY(reserve(feed, losses + bytes));
    HIL_TRY(hil_buffers_take(feed->buffers, bytes, &feed->ids));
    size_t at = 0;
    for (int64_t m = 0; m < feed->count; ++m) {
        hil_micro *micro = &feed->micro[m];
        micro->on_device = (const int32_t *)((char *)feed->ids + at);
        micro->share = share_of(micro);
        if (is_live(feed)) pack(micro, (int32_t *)(feed->memory + losses + at));
        at += 4 * (size_t)positions(micro) * sizeof(int32_t);
    }
    if (!is_live(feed)) return HIL_OK;
    feed->busy = true;
    return feed->device->queue->copy(feed->device, HIL_STREAM_COMPUTE, feed->ids,
                                     feed->memory + losses, bytes);
}

hil_status hil_feed_begin(hil_feed *feed, const hil_micro *micro, int64_t count)
{
    size_t losses = (size_t)count * sizeof *feed->loss;
    HIL_TRY(HIL_GROW(&feed->micro, &feed->micro_room, count));
    memcpy(feed->micro, micro, (size_t)count * sizeof *micro);
    feed->count = count;
    HIL_TRY(reserve(feed, losses));
    if (feed->device) HIL_TRY(send_ids(feed, losses));
    feed->loss = (double *)(void *)feed->memory;
    memset(feed->loss, 0, losses);
    return HIL_OK;
}

hil_status hil_feed_wait(hil_feed *feed)
{
    if (!feed->busy) return HIL_OK;
    feed->busy = false;
    return feed->device->queue->finish(feed->device);
}

void hil_feed_end(hil_feed *feed)
{
    (void)hil_feed_wait(feed);
    if (feed->ids) hil_buffers_give(feed->buffers, feed->ids);
    feed->ids = NULL;
}

void hil_feed_free(hil_feed *feed)
{
    hil_free(feed->micro);
    drop_memory(feed);
}

hil_status hil_feed_read(hil_feed *feed, const hil_tensor *x, float *out)
{
    int64_t count = hil_shape_count(&x->shape);
    if (hil_pool_is_dry(feed->pool)) return HIL_OK;
    if (!feed->device) {
        hil_to_f32(out, x->data, x->dtype, count);
        return HIL_OK;
    }
    size_t size = hil_dtype_size(x->dtype);
    int64_t most = (int64_t)(feed->bytes / size);
    for (int64_t at = 0; at < count; at += most) {
        int64_t n = count - at < most ? count - at : most;
        const char *from = (const char *)x->data + (size_t)at * size;
        HIL_TRY(feed->device->queue->copy(feed->device, HIL_STREAM_COMPUTE, feed->memory, from,
                                          (size_t)n * size));
        feed->busy = true;
        HIL_TRY(hil_feed_wait(feed));
        hil_to_f32(out + at, feed->memory, x->dtype, n);
    }
    return HIL_OK;
}
