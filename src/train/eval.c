/* eval.c - loss and perplexity of a model folder on some files. */
#include "base/clock.h"
#include "io/file.h"
#include "train/batches.h"
#include "train/source.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BATCH_TOKENS 4096 /* computed at once where the caller does not say */

void hil_eval_defaults(hil_eval_options *options)
{
    *options = (hil_eval_options){.dtype = "fp32"};
}

typedef struct job {
    hil_source source;
    hil_dataset *data;
    hil_batches batches;
    hil_model *model;
    hil_trainer *trainer;
    char cache[HIL_PATH_MAX];
} job;

/* Where the caller names no batch, the largest one that fits: the loss does not depend on it. */
static hil_status load(job *j, hil_trainer_options *options, bool fixed,
                       const hil_observer *observer)
{
    for (;;) {
        hil_status status = hil_source_load(&j->source, options, observer, &j->model, &j->trainer);
        if (status != HIL_ERR_BUDGET || fixed || options->sequences == 1) return status;
        options->sequences = options->micro_batch = options->sequences / 2;
    }
}

static hil_status run_job(job *j, const hil_eval_options *o, const hil_observer *observer,
                          hil_eval_result *result)
{
    double began = hil_clock_now(), ready = began;
    int64_t seq;
    if (!o->model || !o->data_count) return hil_fail(HIL_ERR_USAGE, "eval needs a model and data");
    HIL_TRY(hil_source_open(&j->source, o->model));
    HIL_TRY(hil_source_seq(&j->source, o->seq, &seq));
    HIL_TRY(hil_path_join(j->cache, o->cache ? o->cache : "/tmp", "hilbert-XXXXXX"));
    if (!mkdtemp(j->cache)) {
        hil_status status =
            hil_fail(HIL_ERR_IO, "cannot create the folder %s: %s", j->cache, strerror(errno));
        j->cache[0] = 0;
        return status;
    }
    hil_source_files files = {o->data, o->data_count, seq, j->cache, observer, o->stop};
    HIL_TRY(hil_source_data(&j->source, &files, &j->data));
    hil_trainer_options options;
    hil_trainer_defaults(&options);
    options.dtype = o->dtype;
    options.threads = o->threads;
    options.training = false;
    int64_t sequences = o->batch > 0 ? o->batch : BATCH_TOKENS / seq;
    if (sequences < 1) sequences = 1;
    options.sequences = options.micro_batch = sequences;
    options.length = seq;
    options.device_memory = o->device_memory;
    options.host_memory = o->host_memory;
    options.disks = o->disks;
    options.disk_count = o->disk_count;
    options.io = o->io;
    HIL_TRY(load(j, &options, o->batch > 0, observer));
    j->batches = (hil_batches){.data = j->data, .observer = observer, .stop = o->stop, .seq = seq};
    hil_step_result loss;
    HIL_TRY(hil_batches_eval(&j->batches, j->trainer, options.sequences, &ready, &loss));
    *result = (hil_eval_result){loss.loss, exp(loss.loss), hil_clock_now() - began, ready - began,
                                loss.tokens};
    return HIL_OK;
}

hil_status hil_eval(const hil_eval_options *options, const hil_observer *observer,
                    hil_eval_result *result)
{
    job j = {0};
    hil_status status = run_job(&j, options, observer, result);
    hil_trainer_destroy(j.trainer);
    hil_model_destroy(j.model);
    hil_batches_free(&j.batches);
    hil_dataset_close(j.data);
    hil_source_close(&j.source);
    if (j.cache[0]) (void)!hil_path_remove(j.cache);
    return status;
}
