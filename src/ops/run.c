/* run.c - runs an operation on the device of its call, or on the CPU. */
#include "ops/op.h"
#include "ops/rows/rows.h"

#define CHUNK 8192

hil_status hil_op_infer(hil_op_call *call)
{
    return call->device ? hil_device_ops_of(call->device)->infer(call) : call->op->infer(call);
}

hil_status hil_op_forward(hil_op_call *call)
{
    return call->device ? hil_device_ops_of(call->device)->forward(call) : call->op->forward(call);
}

hil_status hil_op_backward(hil_op_call *call)
{
    if (call->device) return hil_device_ops_of(call->device)->backward(call);
    return call->op->backward ? call->op->backward(call) : HIL_OK;
}

typedef struct conversion {
    const hil_tensor *to, *from;
    int64_t count;
    bool add;
} conversion;

static void convert_chunk(void *context, int64_t i, int thread)
{
    (void)thread;
    const conversion *job = context;
    int64_t first = i * CHUNK, left = job->count - first;
    hil_row_copy(job->to, first, job->from, first, left < CHUNK ? left : CHUNK, job->add);
}

hil_status hil_op_convert(hil_device *device, hil_pool *pool, const hil_tensor *to,
                          const hil_tensor *from, bool add)
{
    if (hil_pool_is_dry(pool)) return HIL_OK;
    if (device) return hil_device_ops_of(device)->convert(device, to, from, add);
    conversion job = {to, from, hil_shape_count(&to->shape), add};
    hil_pool_run(pool, convert_chunk, &job, (job.count + CHUNK - 1) / CHUNK);
    return HIL_OK;
}

hil_status hil_op_sum(hil_device *device, hil_pool *pool, const hil_tensor *x, double *out)
{
    if (hil_pool_is_dry(pool)) return HIL_OK;
    if (device) return hil_device_ops_of(device)->sum(device, x, out);
    const float *each = x->data;
    double sum = 0;
    for (int64_t i = 0; i < hil_shape_count(&x->shape); ++i) sum += (double)each[i];
    *out += sum;
    return HIL_OK;
}
