/* train_deepspeed.c - continues a run of DeepSpeed. */
#include "run/train.h"

#include "base/note.h"
#include "format/deepspeed_checkpoint.h"
#include "format/weights.h"

#include <math.h>

/* The loss scale goes on where it was, if it is one that ours can be. */
static void take_scale(hil_scaling *scaling, const hil_deepspeed_progress *progress)
{
    double scale = progress->loss_scale;
    scaling->skipped = progress->steps - progress->updates;
    if (scaling->window && scale >= 1 && scale <= 0x1p40 && scale == floor(scale))
        scaling->scale = (int64_t)scale;
}

static hil_status take(hil_training *j, const hil_deepspeed_checkpoint *checkpoint)
{
    hil_deepspeed_progress p = hil_deepspeed_checkpoint_progress(checkpoint);
    if (p.steps >= j->steps)
        return hil_fail(HIL_ERR_USAGE,
                        "the checkpoint of DeepSpeed is at step %lld, and the run ends at step "
                        "%lld: give --steps, which counts from the start of training",
                        (long long)p.steps, (long long)j->steps);
    for (int s = 0; s < HIL_STATES; ++s)
        HIL_TRY(hil_weights_load_state(j->model->store, j->trainer->pool,
                                       hil_deepspeed_checkpoint_state(checkpoint, (hil_state)s),
                                       (hil_state)s));
    take_scale(&j->trainer->scaling, &p);
    j->run.scaling = j->trainer->scaling;
    j->run.step = j->trainer->step = j->resumed = p.steps;
    j->run.tokens = p.samples * j->run.seq;
    hil_note(j->observer, "continuing after step %lld of DeepSpeed (ZeRO stage %d, %d rank%s)",
             (long long)p.steps, p.stage, p.ranks, p.ranks == 1 ? "" : "s");
    return HIL_OK;
}

hil_status hil_training_load_deepspeed(hil_training *j)
{
    hil_deepspeed_checkpoint *checkpoint;
    HIL_TRY(hil_deepspeed_checkpoint_open(&checkpoint, j->options->resume_deepspeed));
    hil_status status = take(j, checkpoint);
    hil_deepspeed_checkpoint_close(checkpoint);
    return status;
}
