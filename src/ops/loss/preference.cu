/* preference.cu - pairs of answers: losses of tokens to the loss of direct preference optimization.

   A thread sums the documents of which it has the first place, so a document is summed in order. */
#include "ops/cuda_kernel.h"

#define THREADS 256

typedef struct preference {
    const float *loss, *reference;
    const int32_t *first, *target;
    float *number;         /* (HIL_PREFERENCES, B, T) */
    float *slope;          /* NULL: no gradient is wanted */
    int64_t length, count; /* T, B * T */
    double beta;
} preference;

typedef struct answer {
    double logp, reference;
    bool learned;
} answer;

/* Sums the document of a sequence that begins at place `begin`. */
static __device__ answer add_up(const preference &p, int64_t sequence, int64_t begin)
{
    answer out = {0, 0, false};
    for (int64_t at = begin; at < p.length; ++at) {
        int64_t i = sequence * p.length + at;
        if (p.first[i] != begin) break;
        if (p.target[i] < 0) continue;
        out.logp -= (double)p.loss[i];
        out.reference -= (double)p.reference[i];
        out.learned = true;
    }
    return out;
}

/* `chosen` and `rejected` are where the answers begin. */
static __device__ void compare(const preference &p, int64_t sequence, int64_t chosen,
                               int64_t rejected)
{
    answer good = add_up(p, sequence, chosen), bad = add_up(p, sequence, rejected);
    if (!good.learned && !bad.learned) return;
    double of_good = p.beta * (good.logp - good.reference);
    double of_bad = p.beta * (bad.logp - bad.reference), margin = of_good - of_bad;
    double small = exp(-fabs(margin)), against = (margin > 0 ? small : 1) / (1 + small);
    float *out = p.number + sequence * p.length + rejected;
    out[HIL_PREFERENCE_LOSS * p.count] = (float)(log1p(small) + (margin < 0 ? -margin : 0));
    out[HIL_PREFERENCE_REWARD_CHOSEN * p.count] = (float)of_good;
    out[HIL_PREFERENCE_REWARD_REJECTED * p.count] = (float)of_bad;
    out[HIL_PREFERENCE_ACCURATE * p.count] = margin > 0;
    out[HIL_PREFERENCE_LOGP_CHOSEN * p.count] = (float)good.logp;
    out[HIL_PREFERENCE_LOGP_REJECTED * p.count] = (float)bad.logp;
    if (!p.slope) return;
    p.slope[sequence * p.length + chosen] = (float)(p.beta * against);
    p.slope[sequence * p.length + rejected] = -(float)(p.beta * against);
}

/* A block for each sequence. */
static __global__ void __launch_bounds__(THREADS) compare_pairs(const preference p)
{
    int64_t sequence = blockIdx.x;
    const int32_t *first = p.first + sequence * p.length;
    for (int64_t at = threadIdx.x; at < p.length; at += THREADS) {
        for (int k = 0; k < HIL_PREFERENCES; ++k)
            p.number[k * p.count + sequence * p.length + at] = 0;
        if (p.slope) p.slope[sequence * p.length + at] = 0;
    }
    __syncthreads();
    for (int64_t at = threadIdx.x; at < p.length; at += THREADS) {
        if (first[at] != at) continue;
        int before = 0; /* documents */
        for (int64_t begin = at; begin > 0; begin = first[begin - 1]) ++before;
        if (before % 2) compare(p, sequence, first[at - 1], at);
    }
}

static hil_status forward(hil_op_call *call)
{
    const hil_preference_attr *attr = (const hil_preference_attr *)call->attr;
    const hil_shape *shape = &call->in[0].shape;
    preference p = {.loss = (const float *)call->in[0].data,
                    .reference = (const float *)call->in[1].data,
                    .first = (const int32_t *)call->in[2].data,
                    .target = (const int32_t *)call->in[3].data,
                    .number = (float *)call->out[0].data,
                    .slope = call->differentiate ? (float *)call->saved[0].data : NULL,
                    .length = shape->dim[1],
                    .count = hil_shape_count(shape),
                    .beta = attr->beta};
    if (p.count == 0) return HIL_OK;
    compare_pairs<<<(unsigned)shape->dim[0], THREADS, 0,
                    hil_cuda_stream(call->device, HIL_STREAM_COMPUTE)>>>(p);
    return hil_cuda_launched(call->device, "preference");
}

typedef struct spread {
    const float *slope;
    const int32_t *first, *target;
    float *out;
    int64_t length, count;
    float scale;
    bool add;
} spread;

/* The gradient of each token's loss, from that of its document. */
static __global__ void __launch_bounds__(THREADS) spread_slopes(const spread s)
{
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= s.count) return;
    int64_t begin = i / s.length * s.length + s.first[i];
    float gradient = s.target[i] < 0 ? 0 : s.scale * s.slope[begin];
    s.out[i] = s.add ? s.out[i] + gradient : gradient;
}

static hil_status backward(hil_op_call *call)
{
    const hil_shape *shape = &call->in[0].shape;
    spread s = {.slope = (const float *)call->saved[0].data,
                .first = (const int32_t *)call->in[2].data,
                .target = (const int32_t *)call->in[3].data,
                .out = (float *)call->din[0].data,
                .length = shape->dim[1],
                .count = hil_shape_count(shape),
                .scale = call->loss_scale,
                .add = call->din_add[0]};
    if (!s.out || s.count == 0) return HIL_OK;
    spread_slopes<<<hil_blocks(s.count, THREADS), THREADS, 0,
                    hil_cuda_stream(call->device, HIL_STREAM_COMPUTE)>>>(s);
    return hil_cuda_launched(call->device, "preference");
}

const hil_op_kernel hil_cuda_preference = {
    .op = &hil_op_preference, .forward = forward, .backward = backward};
