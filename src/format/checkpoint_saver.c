/* checkpoint_saver.c - writes a checkpoint from the states of a sweep; see [Note: saving]. */
#include "format/checkpoint_saver.h"
#include "store/update.h"

#include <stdio.h>

static void keep_failure(hil_saver *s, hil_status status)
{
    if (status == HIL_OK || atomic_load(&s->failed) != HIL_OK) return;
    snprintf(s->message, sizeof s->message, "%s", hil_status_message());
    atomic_store(&s->failed, (int)status);
}

/* Runs on the SAVE link's thread, because creating files is slow too. */
static void begin(hil_saver *s)
{
    s->begun = true;
    keep_failure(s, hil_checkpoint_begin(&s->writer, &s->options));
}

/* Runs on the SAVE link's thread. The writer keeps a failure until hil_checkpoint_finish, where the
   ranks agree on it. */
static hil_status put(void *context, hil_param *param, hil_state state, int64_t first,
                      int64_t count, const float *data)
{
    hil_saver *s = context;
    if (!s->begun) begin(s);
    if (s->writer) (void)!hil_checkpoint_put(s->writer, param, state, first, count, data);
    return HIL_OK;
}

static hil_status make_whole(hil_saver *s)
{
    hil_comm *comm = s->options.comm;
    hil_checkpoint_writer *writer = s->writer;
    hil_status ready = s->ready ? s->ready(s->context) : HIL_OK;
    hil_status status = hil_comm_agree(comm, HIL_CHANNEL_SAVE, ready, NULL);
    s->writer = NULL;
    if (status != HIL_OK) {
        hil_checkpoint_abandon(writer);
        return status;
    }
    HIL_TRY(hil_checkpoint_finish(writer, s->state));
    s->saved = s->options.step;
    if (hil_comm_rank(comm) == 0) status = hil_checkpoint_tidy(s->options.folder, s->keep, s->best);
    return hil_comm_agree(comm, HIL_CHANNEL_SAVE, status, NULL);
}

static hil_status finish(void *context)
{
    hil_saver *s = context;
    if (!s->begun) begin(s);
    if (s->writer) keep_failure(s, make_whole(s));
    return HIL_OK;
}

hil_status hil_saver_check(hil_saver *s)
{
    hil_status failed = (hil_status)atomic_load(&s->failed);
    return failed == HIL_OK ? HIL_OK : hil_fail(failed, "%s", s->message);
}

hil_status hil_saver_begin(hil_saver *s, int64_t step)
{
    HIL_TRY(hil_saver_wait(s));
    s->options.step = step;
    s->active = true;
    s->begun = false;
    hil_store_save_next(s->options.store, &(hil_saving){put, s});
    return HIL_OK;
}

hil_status hil_saver_end(hil_saver *s, json_t *state, int64_t best)
{
    s->state = state;
    s->best = best;
    return hil_store_save_finish(s->options.store, finish, s);
}

hil_status hil_saver_wait(hil_saver *s)
{
    if (!s->active) return hil_saver_check(s);
    HIL_TRY(hil_store_saved(s->options.store));
    s->active = false;
    json_decref(s->state);
    s->state = NULL;
    return hil_saver_check(s);
}

void hil_saver_close(hil_saver *s)
{
    if (!s->active) return;
    (void)!hil_store_saved(s->options.store); /* its failure was returned by an earlier call */
    hil_checkpoint_abandon(s->writer);
    s->writer = NULL;
    json_decref(s->state);
    s->state = NULL;
    s->active = false;
}
