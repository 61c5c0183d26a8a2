/* preference.c - pairs of answers: losses of tokens to a loss of each pair, and its gradient. */
#include "ops/loss/preference_pair.h"

#include "ops/infer.h"

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
    call->outs = 2;
    call->out[1].dtype = HIL_F32;
    call->out[1].shape = *shape;
    return HIL_OK;
}

static bool has_prompts(const hil_op_call *call)
{
    return ((const hil_preference_attr *)call->attr)->loss.kind == HIL_PREFER_ORPO;
}

/* Sums the document that begins at `begin` of all positions of the batch; returns its end. */
static int64_t add_up(const hil_op_call *call, int64_t begin, int64_t end, hil_answer *out)
{
    const float *loss = call->in[0].data, *reference = call->in[1].data;
    const int32_t *first = call->in[2].data, *target = call->in[3].data;
    int64_t i = begin;
    *out = (hil_answer){0};
    do hil_answer_add(out, target[i], (double)loss[i], (double)reference[i], has_prompts(call));
    while (++i < end && first[i] == first[begin]);
    return i;
}

/* The gradient of each token's loss in a document. */
static void spread(const hil_op_call *call, int64_t begin, int64_t end, double slope)
{
    const hil_preference_attr *attr = call->attr;
    const int32_t *target = call->in[3].data;
    float *gradient = call->out[1].data, each = (float)slope, of_prompt = (float)attr->token_weight;
    for (int64_t i = begin; i < end; ++i)
        if (target[i] >= 0)
            gradient[i] = call->loss_scale * each;
        else if (target[i] < -1 && has_prompts(call))
            gradient[i] = call->loss_scale * of_prompt;
}

static void forward_sequence(void *context, int64_t sequence, int thread)
{
    (void)thread;
    const hil_op_call *call = context;
    int64_t length = call->in[0].shape.dim[1], count = hil_shape_count(&call->in[0].shape);
    int64_t begin = sequence * length, end = begin + length;
    float *number = call->out[0].data;
    size_t bytes = (size_t)length * sizeof(float);
    for (int k = 0; k < HIL_PREFERENCES; ++k) memset(number + k * count + begin, 0, bytes);
    memset((float *)call->out[1].data + begin, 0, bytes);
    while (begin < end) {
        hil_answer chosen, rejected;
        int64_t middle = add_up(call, begin, end, &chosen);
        if (middle == end) break; /* padding */
        int64_t last = add_up(call, middle, end, &rejected);
        if (chosen.tokens || rejected.tokens) {
            hil_compared pair = hil_answer_compare(call->attr, &chosen, &rejected);
            for (int k = 0; k < HIL_PREFERENCES; ++k)
                number[k * count + middle] = (float)pair.number[k];
            spread(call, begin, middle, pair.slope[0]);
            spread(call, middle, last, pair.slope[1]);
        }
        begin = last;
    }
}

static hil_status forward(hil_op_call *call)
{
    hil_pool_run(call->pool, forward_sequence, call, call->in[0].shape.dim[0]);
    return HIL_OK;
}

static hil_status backward(hil_op_call *call)
{
    if (!call->din[0].data) return HIL_OK;
    return hil_op_convert(NULL, call->pool, &call->din[0], &call->out[1], call->din_add[0]);
}

const hil_op hil_op_preference = {
    .name = "preference",
    .attr_size = sizeof(hil_preference_attr),
    .keep_out = 1 << 1,
    .loss = true,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
