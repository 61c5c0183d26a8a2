/* param_store_save.c - saves a parameter store as a checkpoint while steps go on, and loads one. */
#include "train/param_store.h"

#include "base/alloc.h"
#include "format/checkpoint_manifest.h"
#include "io/file.h"
#include "plan/ranks.h"

#include <string.h>

#define KIND "parameter store"

static hil_status check_idle(const hil_param_store *store, const char *what)
{
    if (store->phase == HIL_PARAM_STORE_IDLE) return HIL_OK;
    return hil_fail(HIL_ERR_USAGE, "a store can be %s between steps only", what);
}

/* The progress of the store and of its parameters, and the program's text. */
static hil_status make_state(const hil_param_store *store, const char *extra, json_t **out)
{
    json_t *of = json_object();
    for (size_t i = 0; i < store->params; ++i)
        (void)!json_object_set_new(of, hil_param_spec_of(store->param[i]->param)->name,
                                   json_integer(store->param[i]->updates));
    bool whole = json_object_size(of) == store->params;
    *out = json_pack("{s:s, s:s, s:I, s:I, s:I, s:o}", "kind", KIND, "optimizer",
                     store->optimizer.rule->name, "updates", (json_int_t)store->updates,
                     "loss_scale", (json_int_t)store->scaling.scale, "since",
                     (json_int_t)store->scaling.good, "updates_of", of);
    if (!*out || !whole) return hil_fail(HIL_ERR_MEMORY, "out of memory: a checkpoint's state");
    if (extra && json_object_set_new(*out, "extra", json_string(extra)) != 0)
        return hil_fail(HIL_ERR_INPUT, "the text for a checkpoint is not valid UTF-8");
    return HIL_OK;
}

/* The number of the next checkpoint; makes the folder. Rank 0 alone. */
static hil_status find_number(const hil_param_store *store, int64_t *out)
{
    int64_t *steps = NULL;
    size_t count = 0;
    HIL_TRY(hil_dir_create(store->folder));
    HIL_TRY(hil_steps_list(store->folder, &steps, &count));
    if (count && steps[0] >= *out) *out = steps[0] + 1;
    hil_free(steps);
    return HIL_OK;
}

/* Waits for the save in flight. Its failure is returned once: another save may succeed. */
static hil_status end_save(hil_param_store *store)
{
    hil_status status = hil_saver_wait(&store->saver);
    atomic_store(&store->saver.failed, HIL_OK);
    return status;
}

static hil_status choose_number(const hil_param_store *store, int64_t *out)
{
    *out = store->updates;
    hil_status status = hil_comm_rank(store->comm) == 0 ? find_number(store, out) : HIL_OK;
    HIL_TRY(hil_ranks_agree(store->comm, status));
    return hil_comm_broadcast(store->comm, HIL_CHANNEL_CONTROL, out, sizeof *out);
}

/* A step that has not updated yet changes no state: its gradients are no part of a checkpoint. */
static hil_status check_save(hil_param_store *store)
{
    bool open = store->phase == HIL_PARAM_STORE_OPEN && !store->acquired && !store->comm;
    if (!open) HIL_TRY(check_idle(store, "saved"));
    if (store->saves) return end_save(store);
    return hil_fail(HIL_ERR_USAGE,
                    "the store was created without room for saving: set options.saves");
}

hil_status hil_param_store_save(hil_param_store *store, const char *folder, const char *extra,
                                int64_t keep)
{
    hil_saver *saver = &store->saver;
    json_t *state = NULL, *given;
    int64_t number;
    hil_status status;
    HIL_TRY_DONE(hil_ranks_agree(store->comm, check_save(store)));
    hil_free(store->folder);
    store->folder = NULL;
    HIL_TRY_DONE(hil_ranks_agree(store->comm, hil_text_copy(folder, &store->folder)));
    HIL_TRY_DONE(hil_ranks_agree(store->comm, make_state(store, extra, &state)));
    HIL_TRY_DONE(choose_number(store, &number));
    saver->options = (hil_checkpoint_options){
        .folder = store->folder, .store = store->states, .comm = store->comm};
    saver->keep = keep > 0 ? keep : INT64_MAX;
    HIL_TRY_DONE(hil_saver_begin(saver, number));
    HIL_TRY_DONE(hil_store_save(store->states));
    given = state;
    state = NULL;
    HIL_TRY_DONE(hil_saver_end(saver, given, -1));
done:
    json_decref(state);
    return status;
}

hil_status hil_param_store_saved(hil_param_store *store)
{
    return end_save(store);
}

static hil_status take_state(hil_param_store *store, const json_t *state, const char *what)
{
    const char *kind = "", *optimizer = "";
    const json_t *of = json_object_get(state, "updates_of");
    hil_param_store_progress progress = {.loss_scale = 1};
    HIL_TRY(hil_json_string(state, "kind", what, &kind));
    HIL_TRY(hil_json_string(state, "optimizer", what, &optimizer));
    if (strcmp(kind, KIND) != 0)
        return hil_fail(HIL_ERR_INPUT, "%s is not a checkpoint of a parameter store", what);
    if (strcmp(optimizer, store->optimizer.rule->name) != 0)
        return hil_fail(HIL_ERR_INPUT, "%s was saved with the optimizer %s, this store has %s",
                        what, optimizer, store->optimizer.rule->name);
    HIL_TRY(hil_json_int(state, "updates", what, &progress.updates));
    HIL_TRY(hil_json_int(state, "loss_scale", what, &progress.loss_scale));
    HIL_TRY(hil_json_int(state, "since", what, &progress.since));
    if (store->dtype != HIL_F16) progress.loss_scale = 1;
    HIL_TRY(hil_param_store_set_progress(store, &progress));
    for (size_t i = 0; i < store->params; ++i) {
        int64_t *updates = &store->param[i]->updates;
        HIL_TRY(hil_json_int(of, hil_param_spec_of(store->param[i]->param)->name, what, updates));
    }
    return HIL_OK;
}

static hil_status load(hil_param_store *store, const char *folder)
{
    char what[HIL_PATH_MAX];
    int64_t step = store->found.step;
    if (step < 0) return hil_fail(HIL_ERR_INPUT, "there is no checkpoint in %s", folder);
    json_decref(store->loaded);
    store->loaded = NULL;
    HIL_TRY(hil_step_path(what, folder, step));
    HIL_TRY(hil_checkpoint_state(folder, step, &store->loaded));
    HIL_TRY(take_state(store, store->loaded, what));
    return hil_checkpoint_load(folder, step, store->states);
}

hil_status hil_param_store_load(hil_param_store *store, const char *folder,
                                hil_param_store_loaded *out)
{
    const hil_checkpoint_found *found = &store->found;
    *out = (hil_param_store_loaded){.step = -1};
    HIL_TRY(hil_ranks_agree(store->comm, check_idle(store, "loaded")));
    HIL_TRY(hil_ranks_agree(store->comm, end_save(store)));
    HIL_TRY(hil_checkpoint_find(folder, store->comm, &store->found));
    HIL_TRY(hil_ranks_agree(store->comm, load(store, folder)));
    out->step = found->step;
    out->extra = json_string_value(json_object_get(store->loaded, "extra"));
    out->warning = found->warning[0] ? found->warning : NULL;
    return HIL_OK;
}
