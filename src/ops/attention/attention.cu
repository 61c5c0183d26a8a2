/* attention.cu - causal attention with grouped heads: chooses its implementation on a GPU. */
#include "ops/attention/attention_cuda.h"
#include "ops/attention/attention_hopper.h"
extern "C" {
#include "ops/attention/attention_parts.h"
}

static hil_cuda_attention describe(const hil_op_call *call)
{
    hil_attention_parts parts = hil_attention_parts_of(call, call->in);
    const int64_t *q = parts.q.shape.dim;
    return {.batch = q[0],
            .queries = q[1],
            .heads = q[2],
            .groups = parts.k.shape.dim[2],
            .dim = q[3],
            .capacity = q[1],
            .q = hil_view_of(&parts.q),
            .k = hil_view_of(&parts.k),
            .v = hil_view_of(&parts.v),
            .q_stride = parts.q_stride,
            .kv_stride = parts.kv_stride,
            .out = hil_view_of(&call->out[0])};
}

static hil_cuda_attention describe_training(const hil_op_call *call)
{
    const hil_attention_attr *attr = (const hil_attention_attr *)call->attr;
    hil_cuda_attention a = describe(call);
    a.documents = call->share < 1;
    a.first = (const int32_t *)call->in[call->ins - 1].data;
    a.window = attr->window;
    a.chunk = attr->chunk;
    a.scale = (float)attr->scale;
    a.cap = (float)attr->cap;
    a.lse = (float *)call->saved[0].data;
    a.drops = attr->dropout > 0;
    if (a.drops) a.mask = hil_mask_create(&call->random, attr->dropout);
    return a;
}

typedef enum implementation { PLAIN, TILES, DNN, HOPPER } implementation;

/* Whether document masking leaves so many pairs that cuDNN, which computes all of them, is faster
   than our tiles, which skip masked ones but are slower by this factor (on an H200). Inside a
   window the fraction left is about that of documents of equal length. */
static bool is_dense(const hil_cuda_attention *a, double share)
{
    if (a->window > 0 && a->window < a->queries) share *= (double)a->queries / (double)a->window;
    return share >= (a->dim > 64 ? 0.4 : 0.5);
}

/* The implementation for a call. It depends on shapes and documents only, so that forward, backward
   and recompute use the same one. *workspace: bytes for cuDNN or for Hopper's backward. */
static implementation choose(const hil_op_call *call, bool backward, size_t *workspace)
{
    *workspace = 0;
    hil_cuda_attention a = describe_training(call);
    if (a.q.dtype != a.k.dtype || a.q.dtype != a.v.dtype || a.q.dtype != call->compute)
        return PLAIN;
    if (a.cap > 0) return PLAIN;
    if (a.chunk > 0 && a.chunk < a.queries) return hil_attention_tiles_can(&a) ? TILES : PLAIN;
    if (backward && hil_attention_hopper_can(call->device, &a)) {
        *workspace = hil_attention_hopper_scratch(&a);
        return HOPPER;
    }
    if (is_dense(&a, call->share) && hil_attention_dnn_plan(call->device, &a, backward, workspace))
        return DNN;
    return hil_attention_tiles_can(&a) ? TILES : PLAIN;
}

/* choose, just before the call runs: also builds cuDNN's plan. If that fails, another
   implementation computes the same with less scratch. */
static implementation choose_ready(const hil_op_call *call, bool backward, size_t *workspace)
{
    implementation chosen = choose(call, backward, workspace);
    hil_cuda_attention a = describe_training(call);
    if (chosen != DNN || hil_attention_dnn_build(call->device, &a, backward)) return chosen;
    return hil_attention_tiles_can(&a) ? TILES : PLAIN;
}

static hil_status check_dim(const hil_op_call *call)
{
    int64_t dim = call->in[0].shape.dim[3];
    if (dim <= HIL_PLAIN_DIM) return HIL_OK;
    return hil_fail(HIL_ERR_USAGE, "attention: heads of %lld numbers, a GPU takes at most %d",
                    (long long)dim, HIL_PLAIN_DIM);
}

/* Acquires the sinks, if there are any, until end_sinks. */
static hil_status begin_sinks(const hil_op_call *call, hil_cuda_attention *a)
{
    if (!call->params) return HIL_OK;
    const void *data;
    HIL_TRY(call->source->weight_begin(call->owner, 0, 0, &data));
    a->sinks = {(void *)(uintptr_t)data, call->param[0].dtype};
    return HIL_OK;
}

static void end_sinks(const hil_op_call *call)
{
    if (call->params) call->source->weight_end(call->owner, 0, 0);
}

static size_t whole_lines(size_t bytes)
{
    return (bytes + 255) & ~(size_t)255;
}

/* Scratch of the sinks' backward, which runs first: delta (B, H, T); then, where it returns, their
   gradients (B, H). */
static size_t layout_sinks(const hil_op_call *call, size_t *bytes)
{
    const int64_t *dim = call->saved[0].shape.dim;
    hil_scratch_add(bytes, dim[0] * dim[1] * dim[2], sizeof(float));
    return hil_scratch_add(bytes, dim[0] * dim[1], sizeof(float));
}

/* Scratch. cuDNN and Hopper's backward: a workspace; in backward also memory for gradients that are
   not wanted or must be added. Otherwise: delta (B, H, T). */
static void add_scratch(hil_op_call *call)
{
    size_t workspace, most[2] = {call->forward_scratch, call->backward_scratch}, need[2] = {0, 0};
    choose(call, false, &need[0]);
    if (choose(call, true, &workspace) >= DNN) {
        need[1] = whole_lines(workspace);
        for (int i = 0; i < call->ins - 1; ++i)
            need[1] += whole_lines(hil_tensor_bytes(&call->in[i]));
    } else {
        hil_scratch_add(&need[1], hil_shape_count(&call->saved[0].shape), sizeof(float));
    }
    size_t sinks = 0;
    if (call->params) layout_sinks(call, &sinks);
    if (sinks > need[1]) need[1] = sinks;
    call->forward_scratch = need[0] > most[0] ? need[0] : most[0];
    call->backward_scratch = need[1] > most[1] ? need[1] : most[1];
}

/* A rehearsal does not know the documents, so it takes the maximum over all implementations. */
static hil_status infer(hil_op_call *call)
{
    HIL_TRY(check_dim(call));
    const double share[] = {0, 0.9, 1}; /* tiles, cuDNN with documents, without */
    double own = call->share;
    for (int i = 0; i < 3; ++i) {
        call->share = share[i];
        add_scratch(call);
    }
    call->share = own;
    return HIL_OK;
}

static hil_status run_forward(hil_op_call *call, const hil_cuda_attention *a)
{
    size_t workspace;
    implementation chosen = choose_ready(call, false, &workspace);
    if (chosen == PLAIN) return hil_attention_plain_forward(call->device, a);
    HIL_TRY(chosen == DNN ? hil_attention_dnn_forward(call->device, a, call->scratch)
                          : hil_attention_tiles_forward(call->device, a));
    return a->sinks.data ? hil_attention_sinks_add(call->device, a) : HIL_OK;
}

static hil_status forward(hil_op_call *call)
{
    hil_cuda_attention a = describe_training(call);
    HIL_TRY(begin_sinks(call, &a));
    hil_status status = run_forward(call, &a);
    end_sinks(call);
    return status;
}

static void set_gradients(const hil_op_call *call, const hil_tensor *x, hil_cuda_attention *a)
{
    hil_attention_parts parts = hil_attention_parts_of(call, x);
    a->dq = hil_view_of(&parts.q);
    a->dk = hil_view_of(&parts.k);
    a->dv = hil_view_of(&parts.v);
}

/* cuDNN and Hopper's backward overwrite all gradients, so gradients that must be added, or are not
   wanted, are written to scratch first. */
static hil_status backward_whole(hil_op_call *call, hil_cuda_attention *a, implementation chosen,
                                 size_t workspace)
{
    hil_tensor made[3];
    char *room = (char *)call->scratch + whole_lines(workspace);
    for (int i = 0; i < call->ins - 1; ++i) {
        made[i] = call->din[i];
        if (made[i].data && !call->din_add[i]) continue;
        made[i] = call->in[i];
        made[i].data = room;
        room += whole_lines(hil_tensor_bytes(&made[i]));
    }
    set_gradients(call, made, a);
    HIL_TRY(chosen == DNN ? hil_attention_dnn_backward(call->device, a, call->scratch)
                          : hil_attention_hopper_backward(call->device, a, call->scratch));
    for (int i = 0; i < call->ins - 1; ++i)
        if (call->din[i].data && call->din_add[i])
            HIL_TRY(hil_op_cuda_convert(call->device, &call->din[i], &made[i], true));
    return HIL_OK;
}

static hil_status back_sinks(const hil_op_call *call, hil_cuda_attention a)
{
    float *sum;
    bool add;
    size_t bytes = 0;
    float *each = (float *)hil_scratch_at(call, layout_sinks(call, &bytes));
    a.delta = (float *)call->scratch;
    HIL_TRY(begin_sinks(call, &a)); /* as the CPU does, also if they are frozen */
    bool wanted = call->param[0].trainable;
    hil_status status = wanted ? hil_attention_sinks_backward(call->device, &a, each) : HIL_OK;
    end_sinks(call);
    if (status != HIL_OK || !wanted) return status;
    HIL_TRY(call->source->gradient_begin(call->owner, 0, 0, &sum, &add));
    status = hil_op_cuda_gather(call->device, {sum, each, a.batch, a.heads, add});
    call->source->gradient_end(call->owner, 0, 0);
    return status;
}

static hil_status backward(hil_op_call *call)
{
    hil_cuda_attention a = describe_training(call);
    size_t workspace;
    a.dout = hil_view_of(&call->dout[0]);
    if (call->params) HIL_TRY(back_sinks(call, a));
    set_gradients(call, call->din, &a);
    if (!a.dq.data && !a.dk.data && !a.dv.data) return HIL_OK;
    implementation chosen = choose_ready(call, true, &workspace);
    if (chosen >= DNN) return backward_whole(call, &a, chosen, workspace);
    bool packed = hil_attention_is_packed(call);
    a.add_dq = call->din_add[0];
    a.add_dk = call->din_add[packed ? 0 : 1], a.add_dv = call->din_add[packed ? 0 : 2];
    a.delta = (float *)call->scratch;
    return chosen == TILES ? hil_attention_tiles_backward(call->device, &a)
                           : hil_attention_plain_backward(call->device, &a);
}

const hil_op_kernel hil_cuda_attention_op = {
    .op = &hil_op_attention, .infer = infer, .forward = forward, .backward = backward};

/* Writes rows [length, length + T) of the cache. */
static hil_status extend(const hil_op_call *call, const hil_tensor *x, int64_t stride, void *cache)
{
    const hil_cached_attr *attr = (const hil_cached_attr *)call->attr;
    const int64_t *dim = x->shape.dim;
    size_t size = hil_dtype_size(x->dtype), row = (size_t)(dim[2] * dim[3]) * size;
    size_t pitch = (size_t)stride * size;
    for (int64_t b = 0; b < dim[0]; ++b)
        HIL_TRY(hil_cuda_check(
            call->device,
            cudaMemcpy2DAsync((char *)cache + (size_t)(b * attr->capacity + attr->length) * row,
                              row, (const char *)x->data + (size_t)(b * dim[1]) * pitch, pitch, row,
                              (size_t)dim[1], cudaMemcpyDeviceToDevice,
                              hil_cuda_of(call->device)->stream),
            "extend the cache"));
    return HIL_OK;
}

static hil_status infer_cached(hil_op_call *call)
{
    HIL_TRY(check_dim(call));
    hil_attention_parts parts = hil_attention_parts_of(call, call->in);
    if (parts.k.dtype == call->compute && parts.v.dtype == call->compute) return HIL_OK;
    return hil_fail(HIL_ERR_USAGE,
                    "attention: keys are %s, the cache is %s; a GPU wants both alike",
                    hil_dtype_name(parts.k.dtype), hil_dtype_name(call->compute));
}

static hil_status forward_cached(hil_op_call *call)
{
    const hil_cached_attr *attr = (const hil_cached_attr *)call->attr;
    hil_cuda_attention a = describe(call);
    hil_attention_parts parts = hil_attention_parts_of(call, call->in);
    HIL_TRY(extend(call, &parts.k, parts.kv_stride, attr->k));
    HIL_TRY(extend(call, &parts.v, parts.kv_stride, attr->v));
    a.k = {attr->k, call->compute};
    a.v = {attr->v, call->compute};
    a.kv_stride = a.groups * a.dim;
    a.past = attr->length;
    a.capacity = attr->capacity;
    a.window = attr->window;
    a.chunk = attr->chunk;
    a.scale = (float)attr->scale;
    a.cap = (float)attr->cap;
    HIL_TRY(begin_sinks(call, &a));
    hil_status status = hil_attention_plain_forward(call->device, &a);
    end_sinks(call);
    return status;
}

const hil_op_kernel hil_cuda_attention_cached = {
    .op = &hil_op_attention_cached, .infer = infer_cached, .forward = forward_cached};
