/* batches.c - windows of a dataset as a batch, and the loss over all of them. */
#include "train/batches.h"

#include "base/clock.h"

#include <math.h>

hil_status hil_batches_fill(hil_batches *b, const int64_t *index, int64_t count, hil_batch *out)
{
    int64_t n = count * b->seq;
    HIL_TRY(HIL_GROW(&b->memory, &b->room, 4 * n));
    int32_t *token = b->memory, *target = token + n, *position = target + n, *first = position + n;
    for (int64_t i = 0; i < count; ++i) {
        int64_t at = i * b->seq;
        hil_window window = {token + at, target + at, position + at, first + at};
        HIL_TRY(hil_dataset_window(b->data, index[i], &window));
    }
    *out = (hil_batch){count, b->seq, token, target, position, first};
    return HIL_OK;
}

void hil_batches_free(hil_batches *b)
{
    hil_free(b->memory);
    b->memory = NULL;
    b->room = 0;
}

#define MOST_SEQUENCES 64

hil_status hil_batches_eval(hil_batches *b, hil_trainer *trainer, int64_t sequences, double *first,
                            hil_step_result *result)
{
    int64_t windows = hil_dataset_windows(b->data), index[MOST_SEQUENCES];
    if (sequences > MOST_SEQUENCES) sequences = MOST_SEQUENCES;
    *result = (hil_step_result){0};
    double sum = 0;
    for (int64_t at = 0; at < windows; at += sequences) {
        if (b->stop && *b->stop) return hil_fail(HIL_ERR_INTERRUPTED, "stopped");
        int64_t count = windows - at < sequences ? windows - at : sequences;
        for (int64_t i = 0; i < count; ++i) index[i] = at + i;
        hil_batch batch;
        hil_step_result part;
        HIL_TRY(hil_batches_fill(b, index, count, &batch));
        if (at == 0 && first) *first = hil_clock_now();
        HIL_TRY(hil_trainer_loss(trainer, &batch, &part));
        if (b->observer && b->observer->progress)
            b->observer->progress(b->observer->context, "evaluating", (uint64_t)(at + count),
                                  (uint64_t)windows);
        sum += part.loss * (double)part.tokens;
        result->tokens += part.tokens;
    }
    if (result->tokens == 0)
        return hil_fail(HIL_ERR_INPUT,
                        "no token is predicted: all of the data lies inside prompts");
    result->loss = sum / (double)result->tokens;
    if (!isfinite(result->loss))
        return hil_fail(HIL_ERR_NUMERIC, "the loss of the evaluation is not a finite number");
    return HIL_OK;
}
