/* train_data.c - the data of a training run: files in their shares, and sets to evaluate on. */
#include "run/train.h"

#include "base/hash.h"
#include "base/note.h"
#include "data/files.h"
#include "plan/ranks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef hil_training job;

static hil_status read_paths(job *j)
{
    const hil_train_options *o = j->options;
    size_t weighted = 0;
    HIL_TRY(HIL_ALLOC(o->data_count, &j->paths));
    HIL_TRY(HIL_ALLOC(o->data_count, &j->weights));
    for (size_t i = 0; i < o->data_count; ++i) {
        size_t length;
        HIL_TRY(hil_files_weight(o->data[i], &length, &j->weights[i]));
        HIL_TRY(HIL_ALLOC(length + 1, &j->paths[i]));
        memcpy(j->paths[i], o->data[i], length);
        weighted += j->weights[i] > 0;
    }
    if (weighted == o->data_count) return HIL_OK;
    hil_free(j->weights);
    j->weights = NULL;
    if (!weighted) return HIL_OK;
    return hil_fail(HIL_ERR_USAGE, "--data: give all files a weight (PATH:0.5), or none");
}

static size_t given_sets(const hil_train_options *o)
{
    return o->eval_set_count + (o->eval_data != NULL);
}

static const char *set_path(const hil_train_options *o, size_t index)
{
    return index < o->eval_set_count ? o->eval_sets[index] : o->eval_data;
}

hil_status hil_training_find_data(job *j)
{
    const hil_train_options *o = j->options;
    const hil_source *source = &j->source;
    const hil_source_words words = {o->tokenizer, o->format};
    bool bytes;
    HIL_TRY(read_paths(j));
    HIL_TRY(hil_source_check_data(source, &words, (const char *const *)j->paths, o->data_count,
                                  &j->bytes));
    for (size_t i = 0; i < given_sets(o); ++i) {
        const char *path = set_path(o, i);
        for (size_t k = 0; k < i; ++k)
            if (strcmp(path, set_path(o, k)) == 0)
                return hil_fail(HIL_ERR_USAGE, "--eval-data %s is given twice", path);
        HIL_TRY(hil_source_check_data(source, &words, &path, 1, &bytes));
    }
    return HIL_OK;
}

/* Opens the tokens of some paths. A key that is not 0 names a cache that another rank has prepared;
   on return it is that of the cache. */
static hil_status open_paths(job *j, const char *const *paths, size_t count, uint64_t *key,
                             hil_dataset **out)
{
    const hil_train_options *o = j->options;
    hil_source_files files = {.path = paths,
                              .count = count,
                              .seq = j->run.seq,
                              .format = o->format,
                              .train_on = o->train_on,
                              .cache = j->folder.cache,
                              .observer = j->observer,
                              .stop = o->stop,
                              .prepared = *key};
    HIL_TRY(hil_source_data(&j->source, &files, out));
    *key = hil_dataset_key(*out);
    return HIL_OK;
}

static hil_status open_mix(job *j, uint64_t *keys)
{
    size_t count = j->options->data_count;
    hil_dataset **parts;
    HIL_TRY(HIL_ALLOC(count, &parts));
    hil_status status = HIL_OK;
    for (size_t i = 0; i < count && status == HIL_OK; ++i)
        status = open_paths(j, (const char *const *)&j->paths[i], 1, &keys[i], &parts[i]);
    if (status == HIL_OK) status = hil_dataset_mix(&j->data, parts, j->weights, count);
    for (size_t i = 0; i < count; ++i) hil_dataset_close(parts[i]);
    hil_free(parts);
    return status;
}

static hil_status open_files(job *j, uint64_t *keys)
{
    const hil_train_options *o = j->options;
    if (j->weights)
        HIL_TRY(open_mix(j, keys));
    else
        HIL_TRY(open_paths(j, (const char *const *)j->paths, o->data_count, keys, &j->data));
    for (size_t i = 0; i < given_sets(o); ++i) {
        hil_eval_set *set = &j->sets[i];
        set->name = set_path(o, i);
        HIL_TRY(open_paths(j, &set->name, 1, &keys[o->data_count + i], &set->data));
        j->set_count = i + 1;
    }
    return HIL_OK;
}

/* Rank 0 prepares the caches, then the others open them. */
static hil_status share_files(job *j)
{
    size_t count = j->options->data_count + given_sets(j->options);
    uint64_t *keys = NULL;
    hil_status status;
    HIL_TRY_DONE(hil_ranks_agree(j->comm, HIL_ALLOC(count, &keys)));
    hil_comm_set_activity(j->comm, j->rank ? "waiting for the data" : "reading the data");
    HIL_TRY_DONE(hil_ranks_follow(j->comm, j->rank ? HIL_OK : open_files(j, keys)));
    HIL_TRY_DONE(hil_comm_broadcast(j->comm, HIL_CHANNEL_CONTROL, keys, count * sizeof *keys));
    status = hil_ranks_agree(j->comm, j->rank ? open_files(j, keys) : HIL_OK);
done:
    hil_free(keys);
    return status;
}

hil_status hil_training_open_data(job *j)
{
    const hil_train_options *o = j->options;
    HIL_TRY(hil_ranks_agree(j->comm, HIL_ALLOC(given_sets(o) + 1, &j->sets)));
    HIL_TRY(share_files(j));
    j->run.data_tokens = hil_dataset_tokens(j->data);
    j->run.data_content = hil_dataset_content(j->data);
    if (o->eval_fraction > 0) {
        HIL_TRY(hil_dataset_hold_out(j->data, o->eval_fraction, &j->sets->data));
        j->sets->name = "held out";
        j->set_count = 1;
    }
    j->batches = (hil_batches){.data = j->data, .seq = j->run.seq};
    j->eval_batches = (hil_batches){.observer = j->observer, .seq = j->run.seq};
    j->steps = o->steps;
    double epochs = o->epochs > 0 ? o->epochs : 1;
    if (!j->steps)
        j->steps = (int64_t)ceil(epochs * (double)hil_dataset_epoch(j->data) / (double)o->batch);
    return HIL_OK;
}

void hil_training_note_data(const job *j)
{
    hil_source_note_examples(j->data, "data", j->observer);
    double sum = 0;
    for (size_t i = 0; j->weights && i < j->options->data_count; ++i) sum += j->weights[i];
    for (size_t i = 0; j->weights && i < j->options->data_count; ++i)
        hil_note(j->observer, "data: %.3g%% of the examples from %s, %.3g times in an epoch",
                 100 * j->weights[i] / sum, j->paths[i], hil_dataset_passes(j->data, i));
    for (size_t i = 0; i < given_sets(j->options); ++i) {
        char what[HIL_PATH_MAX + 32];
        snprintf(what, sizeof what, "evaluation data%s%s", j->set_count > 1 ? " " : "",
                 j->set_count > 1 ? j->sets[i].name : "");
        hil_source_note_examples(j->sets[i].data, what, j->observer);
    }
}

void hil_training_close_data(job *j)
{
    hil_batches_free(&j->batches);
    hil_batches_free(&j->eval_batches);
    for (size_t i = 0; j->sets && i <= given_sets(j->options); ++i) {
        hil_dataset_close(j->sets[i].data);
        hil_ledger_close(j->sets[i].reference);
    }
    hil_ledger_close(j->reference);
    hil_dataset_close(j->data);
    for (size_t i = 0; j->paths && i < j->options->data_count; ++i) hil_free(j->paths[i]);
    hil_free(j->paths);
    hil_free(j->weights);
    hil_free(j->sets);
}
