/* reference.c - computes what the reference says of the data, once, before the first step. */
#include "run/train.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/note.h"
#include "plan/ranks.h"
#include "train/pairs.h"

#include <stdio.h>
#include <string.h>

typedef hil_training job;

#define ROUND_MOST 64 /* windows that a rank computes at once */

/* [Note: precomputed reference] A model of which all parameters are trained cannot be its own
   reference once it has changed. So the log probabilities of all answers under the starting model,
   or under that of --reference, are computed before the first step, with the weights in the places
   that the plan of training gives them, and kept in OUT/cache. A run that is stopped meanwhile goes
   on with the first window that is missing. */

/* Windows of one dataset in the making. */
typedef struct making {
    job *job;
    hil_batches batches;
    hil_ledger_form form;
    hil_ledger *file; /* on rank 0 */
    int64_t sequences, done;
    double *mine, *all; /* of a round: see gather_round */
    size_t mine_room, all_room;
} making;

/* The documents of windows [at, at + count) of a batch, and their numbers in the order of the file.
   Returns how many numbers; `documents` gets the documents of each. */
static hil_status measure(making *m, const hil_batch *batch, int64_t count, double *documents,
                          size_t *numbers)
{
    int64_t all = hil_pairs_documents(batch), sums = m->form.sums;
    double *logp = NULL;
    size_t room = 0;
    hil_status status;
    *numbers = 0;
    HIL_TRY_DONE(HIL_GROW(&logp, &room, 2 * all));
    HIL_TRY_DONE(hil_trainer_reference(m->job->trainer, batch, logp, sums > 1 ? logp + all : NULL));
    HIL_TRY_DONE(HIL_GROW(&m->mine, &m->mine_room, m->sequences + sums * all));
    double *to = m->mine + m->sequences;
    for (int64_t i = 0, at = 0; i < count; ++i) {
        int64_t place = i * batch->length;
        hil_batch window = {.sequences = 1,
                            .length = batch->length,
                            .target = batch->target + place,
                            .first = batch->first + place};
        int64_t own = hil_pairs_documents(&window);
        documents[i] = (double)own;
        for (int64_t k = 0; k < sums; ++k, to += own)
            memcpy(to, logp + k * all + at, (size_t)own * sizeof *to);
        at += own;
    }
    *numbers = (size_t)(to - m->mine) - (size_t)m->sequences;
done:
    hil_free(logp);
    return status;
}

/* Computes this rank's windows of the round that begins at m->done. All batches have one shape, on
   any number of ranks, so a rank with fewer windows left takes some again. */
static hil_status compute_round(making *m, size_t *numbers)
{
    int64_t index[ROUND_MOST], at = m->done + m->sequences * m->job->rank;
    int64_t rest = at < m->form.windows ? m->form.windows - at : 0;
    int64_t mine = rest < m->sequences ? rest : m->sequences;
    double documents[ROUND_MOST] = {0};
    hil_batch batch;
    for (int64_t i = 0; i < m->sequences; ++i) index[i] = i < mine ? at + i : i % m->form.windows;
    HIL_TRY(hil_batches_fill(&m->batches, index, m->sequences, &batch));
    HIL_TRY(measure(m, &batch, mine, documents, numbers));
    memcpy(m->mine, documents, (size_t)m->sequences * sizeof *documents);
    return HIL_OK;
}

/* Rank 0 gets the rounds of all ranks: for each the documents of its windows, then their numbers.
 */
static hil_status gather_round(making *m, size_t numbers, size_t *each)
{
    hil_comm *comm = m->job->comm;
    double least = -(double)numbers;
    HIL_TRY(hil_comm_least(comm, &least, 1));
    *each = (size_t)m->sequences + (size_t)-least;
    hil_status status = HIL_GROW(&m->mine, &m->mine_room, *each);
    if (status == HIL_OK)
        status = HIL_GROW(&m->all, &m->all_room, *each * (size_t)hil_comm_size(comm));
    HIL_TRY(hil_ranks_agree(comm, status));
    return hil_comm_gather(comm, HIL_CHANNEL_CONTROL, m->mine, m->all, *each * sizeof *m->all);
}

static hil_status write_round(making *m, size_t each)
{
    for (int r = 0; r < hil_comm_size(m->job->comm); ++r) {
        const double *documents = m->all + (size_t)r * each, *sum = documents + m->sequences;
        for (int64_t i = 0; i < m->sequences; ++i) {
            int64_t count = (int64_t)documents[i];
            if (!count) break;
            HIL_TRY(hil_ledger_add(m->file, sum, count));
            sum += m->form.sums * count;
        }
    }
    return hil_ledger_flush(m->file);
}

static hil_status check_stop(const making *m)
{
    const job *j = m->job;
    int stop = j->options->stop && *j->options->stop;
    HIL_TRY(hil_comm_agree(j->comm, HIL_CHANNEL_CONTROL, hil_lock_check(&j->folder.lock), &stop));
    if (!stop) return HIL_OK;
    return hil_ranks_agree(
        j->comm, hil_fail(HIL_ERR_INTERRUPTED,
                          "stopped with the reference of %lld of %lld windows; the same command "
                          "goes on from there",
                          (long long)m->done, (long long)m->form.windows));
}

static hil_status make_rounds(making *m)
{
    job *j = m->job;
    const hil_observer *o = j->observer;
    int64_t round = m->sequences * hil_comm_size(j->comm);
    while (m->done < m->form.windows) {
        size_t numbers = 0, each;
        HIL_TRY(check_stop(m));
        hil_comm_set_activity(j->comm, "the reference, window %lld of %lld", (long long)m->done + 1,
                              (long long)m->form.windows);
        HIL_TRY(hil_ranks_agree(j->comm, compute_round(m, &numbers)));
        HIL_TRY(gather_round(m, numbers, &each));
        HIL_TRY(hil_ranks_follow(j->comm, j->rank ? HIL_OK : write_round(m, each)));
        m->done += round;
        if (m->done > m->form.windows) m->done = m->form.windows;
        if (o && o->progress)
            o->progress(o->context, "computing the reference", (uint64_t)m->done,
                        (uint64_t)m->form.windows);
    }
    return hil_ranks_follow(j->comm, j->rank ? HIL_OK : hil_ledger_end(m->file));
}

/* Whether the folder of the adapter has parts of the model too, which it trained. */
static bool adapter_has_base(const job *j)
{
    const hil_store *store = j->model->store;
    for (size_t i = 0; j->source.adapter_folder && i < hil_store_count(store); ++i) {
        const hil_param *p = hil_store_at(store, i);
        if (hil_param_trainable(p) && !hil_param_spec_of(p)->adapter) return true;
    }
    return false;
}

/* Takes the weights of --reference, or those of the model without its adapter, unless they are
   there. */
static hil_status take_reference(job *j)
{
    const char *folder = j->options->reference;
    uint64_t key;
    if (j->replaced || (!folder && !adapter_has_base(j))) return HIL_OK;
    hil_comm_set_activity(j->comm, "reading the reference");
    HIL_TRY(hil_ranks_agree(
        j->comm, folder ? hil_source_reference(&j->source, folder, j->trainer, &key)
                        : hil_source_fill_base(&j->source, j->trainer, j->options->seed)));
    j->replaced = true;
    return HIL_OK;
}

/* Computes the windows that the file does not have. It goes on with a whole round, so that windows
   are computed together that would have been without a stop. */
static hil_status complete_file(making *m, const char *path)
{
    job *j = m->job;
    hil_status status = HIL_OK;
    int64_t round = m->sequences * hil_comm_size(j->comm);
    m->done -= m->done % round;
    if (j->rank == 0) status = hil_dir_create(j->folder.cache);
    if (j->rank == 0 && status == HIL_OK) status = hil_ledger_open(&m->file, path, &m->form);
    if (j->rank == 0 && status == HIL_OK) status = hil_ledger_begin(m->file, m->done);
    HIL_TRY(hil_ranks_follow(j->comm, status));
    hil_folder_hold(&j->folder);
    HIL_TRY(take_reference(j));
    if (m->done && j->observer)
        hil_note(j->observer, "the reference of %lld of %lld windows is in %s: going on from there",
                 (long long)m->done, (long long)m->form.windows, path);
    return make_rounds(m);
}

/* All that the numbers follow from, but for the processor. They depend on the windows that are
   computed together in their last bits: experts get the tokens of all of them. */
static uint64_t key_of(const job *j, const making *m, bool held_out)
{
    const hil_train_options *o = j->options;
    const uint64_t whole[] = {hil_dataset_content(m->batches.data),
                              (uint64_t)m->form.windows,
                              (uint64_t)m->form.seq,
                              (uint64_t)m->form.sums,
                              (uint64_t)m->sequences,
                              held_out,
                              j->run.reference_key,
                              j->run.config_key,
                              o->tile_size};
    uint64_t key = hil_hash(0, whole, sizeof whole);
    key = hil_hash(key, o->dtype, strlen(o->dtype) + 1);
    const char *base = j->source.adapter.root && o->base_dtype ? o->base_dtype : o->dtype;
    return hil_hash(key, base, strlen(base) + 1);
}

/* Opens the file of a dataset; makes it first where it is not whole. */
static hil_status prepare_set(job *j, hil_dataset *data, bool held_out, hil_ledger **out)
{
    char name[64], path[HIL_PATH_MAX];
    int64_t windows = hil_dataset_windows(data), most = j->run.micro_batch;
    making m = {.job = j,
                .batches = {.data = data, .seq = j->run.seq},
                .form = {.windows = windows,
                         .seq = j->run.seq,
                         .sums = j->run.preference.kind == HIL_PREFER_KTO ? 2 : 1},
                .sequences = most < ROUND_MOST ? most : ROUND_MOST};
    hil_status status;
    m.form.key = key_of(j, &m, held_out);
    snprintf(name, sizeof name, "reference-%016llx", (unsigned long long)m.form.key);
    HIL_TRY_DONE(hil_ranks_agree(j->comm, hil_path_join(path, j->folder.cache, name)));
    HIL_TRY_DONE(hil_ranks_agree(j->comm, hil_ledger_open(out, path, &m.form)));
    m.done = hil_ledger_windows(*out);
    HIL_TRY_DONE(hil_comm_broadcast(j->comm, HIL_CHANNEL_CONTROL, &m.done, sizeof m.done));
    if (m.done < windows) {
        hil_ledger_close(*out);
        *out = NULL;
        HIL_TRY_DONE(complete_file(&m, path));
        HIL_TRY_DONE(hil_ranks_agree(j->comm, hil_ledger_open(out, path, &m.form)));
    }
    if (hil_ledger_windows(*out) < windows)
        status = hil_fail(HIL_ERR_IO, "%s is not as it was written", path);
    status = hil_ranks_agree(j->comm, status);
done:
    hil_ledger_close(m.file);
    hil_batches_free(&m.batches);
    hil_free(m.mine);
    hil_free(m.all);
    return status;
}

static hil_status prepare_sets(job *j)
{
    bool held_out = j->options->eval_fraction > 0;
    HIL_TRY(prepare_set(j, j->data, false, &j->reference));
    for (size_t i = 0; i < j->set_count; ++i)
        HIL_TRY(prepare_set(j, j->sets[i].data, held_out, &j->sets[i].reference));
    j->batches.reference = j->reference;
    return HIL_OK;
}

hil_status hil_training_reference(job *j)
{
    const hil_train_options *o = j->options;
    if (!j->run.preference.precomputed) return HIL_OK;
    double began = hil_clock_now();
    HIL_TRY(prepare_sets(j));
    hil_note(j->observer, "reference: %s, %.1f s", o->reference ? o->reference : o->model,
             hil_clock_now() - began);
    if (!j->replaced) return HIL_OK;
    hil_comm_set_activity(j->comm, "reading the weights");
    return hil_ranks_agree(j->comm, hil_source_fill(&j->source, j->trainer, o->seed));
}
