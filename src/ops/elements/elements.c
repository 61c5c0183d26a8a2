/* elements.c - element-wise operations, in pieces that fit the cache. */
#include "ops/elements/elements.h"

#include "ops/infer.h"
#include "ops/rows/rows.h"

/* If an output overwrites an input, a piece is computed in a buffer first: compilers do not
   vectorise a loop whose pointers are equal. */
static bool is_over(const hil_elements *job, int out)
{
    for (int i = 0; i < job->ins; ++i)
        if (job->in[i].data == job->out[out].data) return true;
    return false;
}

static void run_task(void *context, int64_t task, int thread)
{
    (void)thread;
    const hil_elements *job = context;
    float buffer[5][HIL_PIECE] __attribute__((aligned(64)));
    int64_t at = task * HIL_ELEMENTS_TASK;
    for (int p = 0; p < HIL_ELEMENTS_TASK / HIL_PIECE && at < job->count; ++p, at += HIL_PIECE) {
        int64_t n = job->count - at < HIL_PIECE ? job->count - at : HIL_PIECE;
        const float *in[3];
        float *out[2];
        for (int i = 0; i < job->ins; ++i) in[i] = hil_row_read(&job->in[i], at, n, buffer[i]);
        for (int i = 0; i < job->outs; ++i)
            out[i] = job->out[i].data && !is_over(job, i)
                         ? hil_row_place(&job->out[i], at, job->add[i], buffer[3 + i])
                         : buffer[3 + i];
        job->piece(job, at, n, in, out);
        for (int i = 0; i < job->outs; ++i)
            if (job->out[i].data) hil_row_write(&job->out[i], at, n, out[i], job->add[i]);
    }
}

void hil_elements_run(const hil_elements *job)
{
    int64_t size = HIL_ELEMENTS_TASK;
    hil_pool_run(job->call->pool, run_task, (void *)(uintptr_t)job, (job->count + size - 1) / size);
}

hil_status hil_elements_single_infer(hil_op_call *call)
{
    HIL_TRY(hil_infer_float(call, 0, 0));
    hil_infer_out(call, call->compute, &call->in[0].shape);
    return HIL_OK;
}

hil_status hil_elements_single_run(hil_op_call *call, hil_elements_fn *piece)
{
    hil_elements_run(&(hil_elements){.piece = piece,
                                     .call = call,
                                     .count = hil_shape_count(&call->in[0].shape),
                                     .ins = 1,
                                     .outs = 1,
                                     .in = {call->in[0]},
                                     .out = {call->out[0]}});
    return HIL_OK;
}

hil_status hil_elements_single_back(hil_op_call *call, hil_elements_fn *piece)
{
    if (!call->din[0].data) return HIL_OK;
    hil_elements_run(&(hil_elements){.piece = piece,
                                     .call = call,
                                     .count = hil_shape_count(&call->in[0].shape),
                                     .ins = 2,
                                     .outs = 1,
                                     .in = {call->in[0], call->dout[0]},
                                     .out = {call->din[0]},
                                     .add = {call->din_add[0]}});
    return HIL_OK;
}

hil_status hil_elements_pair_infer(hil_op_call *call)
{
    HIL_TRY(hil_infer_float(call, 0, 0));
    HIL_TRY(hil_infer_float(call, 1, 0));
    HIL_TRY(hil_infer_same(call, 1));
    hil_infer_out(call, call->compute, &call->in[0].shape);
    return HIL_OK;
}

hil_status hil_elements_pair_run(hil_op_call *call, hil_elements_fn *piece)
{
    hil_elements_run(&(hil_elements){.piece = piece,
                                     .call = call,
                                     .count = hil_shape_count(&call->in[0].shape),
                                     .ins = 2,
                                     .outs = 1,
                                     .in = {call->in[0], call->in[1]},
                                     .out = {call->out[0]}});
    return HIL_OK;
}

hil_status hil_elements_pair_back(hil_op_call *call, hil_elements_fn *piece)
{
    if (!call->din[0].data && !call->din[1].data) return HIL_OK;
    hil_elements_run(&(hil_elements){.piece = piece,
                                     .call = call,
                                     .count = hil_shape_count(&call->in[0].shape),
                                     .ins = 3,
                                     .outs = 2,
                                     .in = {call->in[0], call->in[1], call->dout[0]},
                                     .out = {call->din[0], call->din[1]},
                                     .add = {call->din_add[0], call->din_add[1]}});
    return HIL_OK;
}
