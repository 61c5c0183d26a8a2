/* preference.cu - pairs of answers: losses of tokens to a loss of each pair, and its gradient.

   A thread sums the documents of which it has the first place, so a document is summed in order. */
#include "ops/cuda_kernel.h"
#include "ops/loss/preference_pair.h"

#define THREADS 256

typedef struct preference {
    const float *loss, *reference;
    const int32_t *first, *target;
    float *number;         /* (HIL_PREFERENCES, B, T) */
    float *gradient;       /* (B, T) */
    int64_t length, count; /* T, B * T */
    float scale;
    hil_preference_attr attr;
} preference;

static __device__ bool has_prompts(const preference &p)
{
    return p.attr.loss.kind == HIL_PREFER_ORPO;
}

/* Sums the document of a sequence that begins at place `begin`. */
static __device__ hil_answer add_up(const preference &p, int64_t sequence, int64_t begin)
{
    hil_answer out = {};
    for (int64_t at = begin; at < p.length; ++at) {
        int64_t i = sequence * p.length + at;
        if (p.first[i] != begin) break;
        hil_answer_add(&out, p.target[i], p.loss[i], p.reference[i], has_prompts(p));
    }
    return out;
}

/* The gradient of each token's loss in a document. */
static __device__ void spread(const preference &p, int64_t sequence, int64_t begin, double slope)
{
    float each = (float)slope, of_prompt = (float)p.attr.token_weight;
    for (int64_t at = begin; at < p.length; ++at) {
        int64_t i = sequence * p.length + at;
        if (p.first[i] != begin) break;
        if (p.target[i] >= 0)
            p.gradient[i] = p.scale * each;
        else if (p.target[i] < -1 && has_prompts(p))
            p.gradient[i] = p.scale * of_prompt;
    }
}

/* `chosen` and `rejected` are where the answers begin. */
static __device__ void compare(const preference &p, int64_t sequence, int64_t chosen,
                               int64_t rejected)
{
    hil_answer good = add_up(p, sequence, chosen), bad = add_up(p, sequence, rejected);
    if (!good.tokens && !bad.tokens) return;
    hil_compared pair = hil_answer_compare(&p.attr, &good, &bad);
    for (int k = 0; k < HIL_PREFERENCES; ++k)
        p.number[k * p.count + sequence * p.length + rejected] = (float)pair.number[k];
    spread(p, sequence, chosen, pair.slope[0]);
    spread(p, sequence, rejected, pair.slope[1]);
}

/* A block for each sequence. */
static __global__ void __launch_bounds__(THREADS) compare_pairs(const preference p)
{
    int64_t sequence = blockIdx.x;
    const int32_t *first = p.first + sequence * p.length;
    for (int64_t at = threadIdx.x; at < p.length; at += THREADS) {
        for (int k = 0; k < HIL_PREFERENCES; ++k)
            p.number[k * p.count + sequence * p.length + at] = 0;
        p.gradient[sequence * p.length + at] = 0;
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
    const hil_shape *shape = &call->in[0].shape;
    preference p = {.loss = (const float *)call->in[0].data,
                    .reference = (const float *)call->in[1].data,
                    .first = (const int32_t *)call->in[2].data,
                    .target = (const int32_t *)call->in[3].data,
                    .number = (float *)call->out[0].data,
                    .gradient = (float *)call->out[1].data,
                    .length = shape->dim[1],
                    .count = hil_shape_count(shape),
                    .scale = call->loss_scale,
                    .attr = *(const hil_preference_attr *)call->attr};
    if (p.count == 0) return HIL_OK;
    compare_pairs<<<(unsigned)shape->dim[0], THREADS, 0,
                    hil_cuda_stream(call->device, HIL_STREAM_COMPUTE)>>>(p);
    return hil_cuda_launched(call->device, "preference");
}

static hil_status backward(hil_op_call *call)
{
    if (!call->din[0].data) return HIL_OK;
    return hil_op_cuda_convert(call->device, &call->din[0], &call->out[1], call->din_add[0]);
}

const hil_op_kernel hil_cuda_preference = {
    .op = &hil_op_preference, .forward = forward, .backward = backward};
