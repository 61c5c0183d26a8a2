/* batch_input.c - copies arrays of micro-batches to the device, and losses and logits back. */
#include "autograd/batch_input.h"

#include "base/alloc.h"

#include <string.h>

/* Bytes: logits are copied back in pieces of at least this size. */
#define SHARED_LEAST ((size_t)1 << 20)

/* Whether a device computes; false also in a rehearsal of one. */
static bool is_live(const hil_batch_input *input)
{
    return input->device && !hil_pool_is_dry(input->pool);
}

static void drop_memory(hil_batch_input *input)
{
    if (input->memory && is_live(input))
        input->device->heap->unshare(input->device, input->memory);
    else
        hil_free(input->memory);
    input->memory = NULL;
    input->bytes = 0;
}

static hil_status reserve(hil_batch_input *input, size_t bytes)
{
    if (input->memory && bytes <= input->bytes) return HIL_OK;
    drop_memory(input);
    if (is_live(input)) {
        if (bytes < SHARED_LEAST) bytes = SHARED_LEAST;
        HIL_TRY(input->device->heap->share(input->device, bytes, (void **)&input->memory));
    } else {
        HIL_TRY(HIL_ALLOC(bytes, &input->memory));
    }
    input->bytes = bytes;
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

/* Bytes of a micro-batch on the device. */
static size_t size_of(const hil_batch_input *input, const hil_micro *micro)
{
    size_t each = HIL_TOKEN_BYTES + (input->references ? HIL_REFERENCE_BYTES : 0);
    return (size_t)positions(micro) * each;
}

/* Copies the arrays of a micro-batch, contiguous; missing ones are zeros. */
static void pack(const hil_batch_input *input, const hil_micro *micro, char *to)
{
    const void *const array[] = {micro->token, micro->target, micro->position, micro->first,
                                 micro->reference};
    size_t bytes = (size_t)positions(micro) * sizeof(int32_t);
    for (int i = 0; i < (input->references ? 5 : 4); ++i, to += bytes) {
        if (array[i])
            memcpy(to, array[i], bytes);
        else
            memset(to, 0, bytes);
    }
}

static hil_status send_ids(hil_batch_input *input, size_t losses)
{
    size_t bytes = 0;
    for (int64_t m = 0; m < input->count; ++m) bytes += size_of(input, &input->micro[m]);
    if (is_live(input)) HIL_TRY(reserve(input, losses + bytes));
    HIL_TRY(hil_buffers_take(input->buffers, bytes, &input->ids));
    size_t at = 0;
    for (int64_t m = 0; m < input->count; ++m) {
        hil_micro *micro = &input->micro[m];
        micro->on_device = (const int32_t *)((char *)input->ids + at);
        micro->share = share_of(micro);
        if (is_live(input)) pack(input, micro, input->memory + losses + at);
        at += size_of(input, micro);
    }
    if (!is_live(input)) return HIL_OK;
    input->busy = true;
    return input->device->queue->copy(input->device, HIL_STREAM_COMPUTE, input->ids,
                                      input->memory + losses, bytes);
}

hil_status hil_batch_input_begin(hil_batch_input *input, const hil_micro *micro, int64_t count)
{
    size_t losses = (size_t)(count * HIL_PREFERENCES) * sizeof *input->loss;
    HIL_TRY(HIL_GROW(&input->micro, &input->micro_room, count));
    memcpy(input->micro, micro, (size_t)count * sizeof *micro);
    input->count = count;
    HIL_TRY(reserve(input, losses));
    if (input->device) HIL_TRY(send_ids(input, losses));
    input->loss = (double *)(void *)input->memory;
    memset(input->loss, 0, losses);
    return HIL_OK;
}

hil_status hil_batch_input_wait(hil_batch_input *input)
{
    if (!input->busy) return HIL_OK;
    input->busy = false;
    return input->device->queue->finish(input->device);
}

void hil_batch_input_end(hil_batch_input *input)
{
    (void)hil_batch_input_wait(input);
    if (input->ids) hil_buffers_give(input->buffers, input->ids);
    input->ids = NULL;
}

void hil_batch_input_free(hil_batch_input *input)
{
    hil_free(input->micro);
    drop_memory(input);
}

hil_status hil_batch_input_read(hil_batch_input *input, const hil_tensor *x, float *out)
{
    int64_t count = hil_shape_count(&x->shape);
    if (hil_pool_is_dry(input->pool)) return HIL_OK;
    if (!input->device) {
        hil_dtype_to_f32(out, x->data, x->dtype, count);
        return HIL_OK;
    }
    size_t size = hil_dtype_size(x->dtype);
    int64_t most = (int64_t)(input->bytes / size);
    for (int64_t at = 0; at < count; at += most) {
        int64_t n = count - at < most ? count - at : most;
        const char *from = (const char *)x->data + (size_t)at * size;
        HIL_TRY(input->device->queue->copy(input->device, HIL_STREAM_COMPUTE, input->memory, from,
                                           (size_t)n * size));
        input->busy = true;
        HIL_TRY(hil_batch_input_wait(input));
        hil_dtype_to_f32(out + at, input->memory, x->dtype, n);
    }
    return HIL_OK;
}
