/* preference.c - pairs of answers: losses of tokens to the loss of direct preference optimization.

   The gradient of a pair's loss with respect to the loss of a token is one number for each of its
   two answers; forward saves it at the place where the answer begins. */
#include "ops/infer.h"
#include "ops/ops.h"

#include <math.h>
#include <string.h>

static hil_status infer(hil_op_call *call)
{
    HIL_TRY(hil_infer_float(call, 0, 2));
    HIL_TRY(hil_infer_same(call, 1));
    if (call->in[0].dtype != HIL_F32 || call->in[1].dtype != HIL_F32)
        return hil_fail(HIL_ERR_USAGE, "preference: losses must be fp32");
    const hil_shape *shape = &call->in[0].shape;
    HIL_TRY(hil_infer_ids(call, 2, shape));
    HIL_TRY(hil_infer_ids(call, 3, shape));
    hil_shape numbers = {3, {HIL_PREFERENCES, shape->dim[0], shape->dim[1]}};
    hil_infer_out(call, HIL_F32, &numbers);
    if (call->differentiate) {
        call->saveds = 1;
        call->saved[0].dtype = HIL_F32;
        call->saved[0].shape = *shape;
    }
    return HIL_OK;
}

/* An answer: a document, with the sums over its tokens. */
typedef struct answer {
    int64_t begin; /* of all positions of the batch */
    double logp, reference;
    bool learned; /* it has a target */
} answer;

/* Sums the document that begins at `begin`; returns its end. */
static int64_t add_up(const hil_op_call *call, int64_t begin, int64_t end, answer *out)
{
    const float *loss = call->in[0].data, *reference = call->in[1].data;
    const int32_t *first = call->in[2].data, *target = call->in[3].data;
    int64_t i = begin;
    *out = (answer){.begin = begin};
    do {
        if (target[i] < 0) continue;
        out->logp -= (double)loss[i];
        out->reference -= (double)reference[i];
        out->learned = true;
    } while (++i < end && first[i] == first[begin]);
    return i;
}

static void compare(const hil_op_call *call, const answer *chosen, const answer *rejected)
{
    const hil_preference_attr *attr = call->attr;
    double rewards[2] = {attr->beta * (chosen->logp - chosen->reference),
                         attr->beta * (rejected->logp - rejected->reference)};
    double margin = rewards[0] - rewards[1], small = exp(-fabs(margin));
    double number[HIL_PREFERENCES] = {
        [HIL_PREFERENCE_LOSS] = log1p(small) + (margin < 0 ? -margin : 0),
        [HIL_PREFERENCE_REWARD_CHOSEN] = rewards[0],
        [HIL_PREFERENCE_REWARD_REJECTED] = rewards[1],
        [HIL_PREFERENCE_ACCURATE] = margin > 0,
        [HIL_PREFERENCE_LOGP_CHOSEN] = chosen->logp,
        [HIL_PREFERENCE_LOGP_REJECTED] = rejected->logp,
    };
    float *out = call->out[0].data, *slope = call->saved[0].data;
    for (int k = 0; k < HIL_PREFERENCES; ++k)
        out[k * hil_shape_count(&call->in[0].shape) + rejected->begin] = (float)number[k];
    if (!call->differentiate) return;
    double against = (margin > 0 ? small : 1) / (1 + small); /* sigmoid(-margin) */
    slope[chosen->begin] = (float)(attr->beta * against);
    slope[rejected->begin] = -slope[chosen->begin];
}

static void forward_sequence(void *context, int64_t sequence, int thread)
{
    (void)thread;
    const hil_op_call *call = context;
    int64_t length = call->in[0].shape.dim[1], count = hil_shape_count(&call->in[0].shape);
    int64_t begin = sequence * length, end = begin + length;
    size_t bytes = (size_t)length * sizeof(float);
    for (int k = 0; k < HIL_PREFERENCES; ++k)
        memset((float *)call->out[0].data + k * count + begin, 0, bytes);
    if (call->differentiate) memset((float *)call->saved[0].data + begin, 0, bytes);
    while (begin < end) {
        answer chosen, rejected;
        begin = add_up(call, begin, end, &chosen);
        if (begin == end) break; /* padding */
        begin = add_up(call, begin, end, &rejected);
        if (chosen.learned || rejected.learned) compare(call, &chosen, &rejected);
    }
}

static hil_status forward(hil_op_call *call)
{
    hil_pool_run(call->pool, forward_sequence, call, call->in[0].shape.dim[0]);
    return HIL_OK;
}

static void backward_sequence(void *context, int64_t sequence, int thread)
{
    (void)thread;
    const hil_op_call *call = context;
    const float *slope = call->saved[0].data;
    const int32_t *first = call->in[2].data, *target = call->in[3].data;
    float *out = call->din[0].data;
    int64_t length = call->in[0].shape.dim[1], begin = sequence * length;
    for (int64_t i = begin; i < begin + length; ++i) {
        float gradient = target[i] < 0 ? 0 : call->loss_scale * slope[begin + first[i]];
        out[i] = call->din_add[0] ? out[i] + gradient : gradient;
    }
}

static hil_status backward(hil_op_call *call)
{
    if (call->din[0].data)
        hil_pool_run(call->pool, backward_sequence, call, call->in[0].shape.dim[0]);
    return HIL_OK;
}

const hil_op hil_op_preference = {
    .name = "preference",
    .attr_size = sizeof(hil_preference_attr),
    .keep_in = 1 << 2 | 1 << 3,
    .loss = true,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
