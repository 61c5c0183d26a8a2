/* train_open.c - prepares a run: checks options, opens model, data and folder, resumes. */
#include "run/train.h"

#include "base/note.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/hash.h"
#include "format/checkpoint_manifest.h"
#include "plan/outline.h"
#include "plan/plan_print.h"
#include "plan/plan_report.h"
#include "run/model_compare.h"

#include <math.h>
#include <string.h>

typedef hil_training job;

static hil_status check_range(const char *name, double value, double least, double most)
{
    if (value >= least && value <= most) return HIL_OK;
    return hil_fail(HIL_ERR_USAGE, "--%s %g: expected %g to %g", name, value, least, most);
}

hil_status hil_training_check(const hil_train_options *o)
{
    if (o->resume && o->overwrite)
        return hil_fail(HIL_ERR_USAGE, "--resume and --overwrite contradict each other");
    if (o->resume && !o->keep)
        return hil_fail(HIL_ERR_USAGE, "--resume and --keep 0 contradict each other");
    bool sets = o->eval_data || o->eval_set_count;
    if (sets && o->eval_fraction > 0)
        return hil_fail(HIL_ERR_USAGE, "--eval-data and --eval-fraction contradict each other");
    if (o->eval_every && !sets && !(o->eval_fraction > 0))
        return hil_fail(HIL_ERR_USAGE,
                        "--eval-every %lld: there is nothing to evaluate on; give --eval-data PATH "
                        "or --eval-fraction 0.05",
                        (long long)o->eval_every);
    if ((o->keep_best || o->patience) && !o->eval_every)
        return hil_fail(HIL_ERR_USAGE, "%s needs --eval-every N: it compares evaluations",
                        o->keep_best ? "--keep-best" : "--patience");
    if (o->sample_prompt && !o->sample_every)
        return hil_fail(HIL_ERR_USAGE, "--sample-prompt needs --sample-every N");
    hil_preference_kind kind;
    HIL_TRY(hil_source_loss_read(o->loss, &kind));
    if (o->sample_every && kind != HIL_PREFER_NONE)
        return hil_fail(HIL_ERR_USAGE, "--sample-every and --loss %s contradict each other",
                        o->loss);
    if (o->keep_best && !o->keep)
        return hil_fail(HIL_ERR_USAGE, "--keep-best and --keep 0 contradict each other");
    if (o->base_dtype && !o->adapter.source)
        return hil_fail(HIL_ERR_USAGE,
                        "--base-dtype %s is for weights that are not trained: give --adapter lora "
                        "too",
                        o->base_dtype);
    if (o->resume_deepspeed && o->adapter.source)
        return hil_fail(HIL_ERR_USAGE, "--resume-deepspeed and --adapter contradict each other");
    if (o->steps > 0 && o->epochs > 0)
        return hil_fail(HIL_ERR_USAGE, "--steps and --epochs contradict each other");
    if (hil_reference_wanted(kind) && o->adapter.saves && !o->reference && !o->precompute_reference)
        return hil_fail(HIL_ERR_USAGE,
                        "--modules-to-save trains parts of the model, which --loss %s needs as "
                        "they are: they are the reference (--precompute-reference keeps what it "
                        "says of the data)",
                        o->loss);
    HIL_TRY(check_range("steps", (double)o->steps, 0, 1e15));
    HIL_TRY(check_range("epochs", o->epochs, 0, 1e9));
    HIL_TRY(check_range("batch", (double)o->batch, 1, 1e9));
    HIL_TRY(check_range("lr", o->lr, 0, 1e30));
    HIL_TRY(check_range("weight-decay", o->weight_decay, 0, 1e6));
    HIL_TRY(check_range("clip", o->clip, 0, 1e30));
    HIL_TRY(check_range("beta1", o->beta1, 0, 0.9999999));
    HIL_TRY(check_range("beta2", o->beta2 < 0 ? 0 : o->beta2, 0, 0.9999999));
    HIL_TRY(check_range("eps", o->eps, 0, 1));
    HIL_TRY(check_range("router-z-loss", o->router_z_loss, 0, 1e6));
    HIL_TRY(check_range("min-lr", o->min_lr, 0, o->lr));
    if (o->min_lr > 0 && (o->schedule == HIL_SCHEDULE_CONSTANT || o->curve.kind))
        return hil_fail(HIL_ERR_USAGE,
                        "--min-lr is for rates that fall: give --schedule cosine or linear%s",
                        o->curve.kind ? ", and a --deepspeed file without a scheduler" : "");
    HIL_TRY(check_range("warmup", (double)o->warmup, 0, 1e15));
    HIL_TRY(check_range("eval-fraction", o->eval_fraction, 0, 0.99));
    HIL_TRY(check_range("eval-every", (double)o->eval_every, 0, 1e15));
    HIL_TRY(check_range("sample-every", (double)o->sample_every, 0, 1e15));
    HIL_TRY(check_range("patience", (double)o->patience, 0, 1e15));
    HIL_TRY(check_range("save-every", (double)o->save_every, 0, 1e15));
    HIL_TRY(check_range("zero", (double)o->zero, 0, 3));
    HIL_TRY(check_range("keep", (double)o->keep, 0, 1e6));
    return HIL_OK;
}

hil_loss_request hil_training_loss(const hil_train_options *o)
{
    const char *precompute = o->reference              ? "reference"
                             : o->precompute_reference ? "precompute-reference"
                                                       : NULL;
    return (hil_loss_request){o->loss, o->beta, o->preference, precompute, o->router_z_loss};
}

/* Finds what the numbers of a precomputed reference are bound to. */
static hil_status key_reference(job *j)
{
    const hil_train_options *o = j->options;
    if (!j->run.preference.precomputed) return HIL_OK;
    if (o->reference)
        return hil_source_reference(&j->source, o->reference, NULL, &j->run.reference_key);
    j->run.reference_key =
        j->source.bare ? hil_hash(0, &o->seed, sizeof o->seed) : j->source.base_key;
    return HIL_OK;
}

/* Fails unless all ranks have the same options and data. Call once all of these are known. */
static hil_status compare_runs(const job *j)
{
    hil_facts facts = {0};
    if (hil_comm_size(j->comm) == 1) return HIL_OK;
    uint64_t held_out = 0;
    for (size_t i = 0; i < j->set_count; ++i) held_out += hil_dataset_content(j->sets[i].data);
    hil_status mine = hil_run_state_facts(j->options, &j->run, j->steps, held_out, &facts);
    hil_status status =
        hil_facts_compare(j->comm, &facts, mine, "all ranks must have the same options and data");
    hil_facts_free(&facts);
    return status;
}

static hil_status check_space(const job *j)
{
    hil_status status = HIL_OK;
    if (j->rank == 0 && j->options->keep)
        status = hil_folder_check_space(&j->folder, &j->source, j->model->store, j->save_dtype,
                                        j->options->keep + j->options->keep_best);
    return hil_ranks_follow(j->comm, status);
}

static hil_status open_model(job *j)
{
    const hil_train_options *o = j->options;
    hil_trainer_options trainer;
    hil_trainer_defaults(&trainer);
    trainer.dtype = o->dtype;
    trainer.optimizer = o->optimizer;
    trainer.freeze = o->freeze;
    trainer.freeze_count = o->freeze_count;
    trainer.threads = o->threads;
    trainer.seed = o->seed;
    trainer.weight_decay = o->weight_decay;
    trainer.clip = o->clip;
    trainer.beta1 = o->beta1;
    trainer.beta2 = o->beta2;
    trainer.eps = o->eps;
    trainer.recompute = o->recompute;
    trainer.tile_size = o->tile_size;
    trainer.comm = o->comm;
    trainer.zero = o->zero;
    trainer.sequences = j->share;
    trainer.length = j->run.seq;
    trainer.micro_batch = trainer.micro_batch_gpu = o->micro_batch;
    if (!o->micro_batch) {
        trainer.micro_batch = hil_source_micro_batch(&j->source, j->run.seq, j->share, false);
        trainer.micro_batch_gpu = hil_source_micro_batch(&j->source, j->run.seq, j->share, true);
    }
    trainer.device = o->device;
    trainer.memory = o->memory;
    trainer.preference = j->run.preference;
    trainer.loss_scale = o->loss_scale;
    trainer.prefetch = o->prefetch;
    trainer.plan = o->plan;
    trainer.probe_cache = o->probe_cache;
    trainer.stop = o->stop;
    trainer.base_dtype = o->base_dtype;
    HIL_TRY(
        hil_ranks_agree(o->comm, hil_training_prompt(o, &j->source, &j->prompt, &trainer.cache)));
    HIL_TRY(hil_source_load(&j->source, &trainer, j->observer, &j->model, &j->trainer));
    hil_trainer_set_timeline(j->trainer, j->timeline);
    j->run.micro_batch = j->trainer->options.micro_batch;
    j->run.beta2 = j->trainer->optimizer.beta2;
    j->run.scaling = j->trainer->scaling;
    j->run.adapter = j->source.adapter.root ? &j->source.adapter : NULL;
    j->run.base_key = j->source.base_key;
    HIL_TRY(hil_ranks_agree(o->comm, key_reference(j)));
    j->save_dtype = j->source.adapter.root ? HIL_F32 : j->source.config.dtype;
    if (j->rank == 0) HIL_TRY(hil_source_keep_adapter(&j->source));
    if (o->save_dtype) HIL_TRY(hil_dtype_parse(o->save_dtype, &j->save_dtype));
    return check_space(j);
}

static void note_device(const job *j)
{
    const hil_device *device = j->trainer->device;
    char memory[32], free[32], outside[32], shared[64] = "";
    if (!device) return;
    if (j->trainer->sharers > 1)
        snprintf(shared, sizeof shared, ", shared by %d ranks", j->trainer->sharers);
    hil_note(j->observer,
             "%s with %s, %s of it free%s; CUDA and its libraries take %s outside the budget",
             device->name, hil_text_bytes(memory, device->memory),
             hil_text_bytes(free, device->available), shared,
             hil_text_bytes(outside, device->outside));
}

static hil_status note_plan(const job *j)
{
    const hil_planned *planned = &j->trainer->planned;
    hil_plan_view view = {
        .outline = &planned->outline, .plan = &planned->plan, .machine = &planned->machine};
    hil_plan_report report;
    hil_text text = {0};
    hil_plan_report_fill(&view, &report);
    hil_status status = hil_plan_print_short(&report, &text);
    if (status == HIL_OK) hil_note(j->observer, "%s", text.data);
    hil_text_free(&text);
    return status;
}

/* Another instruction set sums in another order: correct, but the last bits differ. */
static hil_status compare_instructions(const job *j, const json_t *state)
{
    const char *before = j->run.isa;
    HIL_TRY(hil_json_string(state, "instructions", "checkpoint", &before));
    if (strcmp(before, j->run.isa) != 0)
        hil_note(j->observer, "computed with %s before, with %s now: the last bits will differ",
                 before, j->run.isa);
    return HIL_OK;
}

static void compare_ranks(job *j)
{
    int64_t ranks = hil_comm_size(j->comm), before = j->run.ranks;
    if (ranks != before)
        hil_note(j->observer,
                 "computed by %lld rank%s before, by %lld now: the last bits will differ",
                 (long long)before, before == 1 ? "" : "s", (long long)ranks);
    j->run.ranks = ranks;
}

/* A run that was begun without --keep-best may have removed its best checkpoint: the next is the
   best then. */
static hil_status find_best(job *j)
{
    char path[HIL_PATH_MAX];
    if (!j->options->keep_best || j->run.best_step < 0) return HIL_OK;
    HIL_TRY(hil_step_path(path, j->folder.checkpoints, j->run.best_step));
    if (!hil_file_exists(path)) j->run.best_step = -1;
    j->saver.best = j->run.best_step;
    return HIL_OK;
}

static hil_status read_state(job *j, int64_t step)
{
    json_t *state;
    HIL_TRY(hil_checkpoint_state(j->folder.checkpoints, step, &state));
    hil_status status = hil_run_state_read(state, j->options, &j->run);
    if (status == HIL_OK) status = compare_instructions(j, state);
    json_decref(state);
    HIL_TRY(status);
    compare_ranks(j);
    if (j->run.step != step || j->run.tokens < 0)
        return hil_fail(HIL_ERR_INPUT, "%s/step-%lld holds the state of step %lld",
                        j->folder.checkpoints, (long long)step, (long long)j->run.step);
    if (j->run.step > j->steps)
        return hil_fail(HIL_ERR_USAGE,
                        "cannot resume: the run is at step %lld, beyond --steps %lld",
                        (long long)j->run.step, (long long)j->steps);
    return HIL_OK;
}

static hil_status load(job *j, int64_t step)
{
    HIL_TRY(hil_checkpoint_load(j->folder.checkpoints, step, j->model->store));
    j->trainer->scaling = j->run.scaling;
    j->trainer->step = j->saver.saved = j->resumed = j->run.step;
    return find_best(j);
}

static bool same_bytes(const hil_bytes *a, const hil_bytes *b)
{
    bool both = a->data && b->data;
    return both ? a->size == b->size && memcmp(a->data, b->data, a->size) == 0 : a->data == b->data;
}

/* On rank 0: a resumed run keeps the model files that it started with. */
static hil_status resume_files(job *j)
{
    hil_sidecar_files saved = {0};
    hil_status status = hil_checkpoint_files(j->folder.checkpoints, j->saver.saved, &saved);
    if (status != HIL_OK) {
        hil_sidecar_files_free(&saved);
        return status;
    }
    for (int i = 0; i < HIL_SIDECAR_FILES; ++i)
        if (!same_bytes(&saved.file[i], &j->source.files.file[i]))
            hil_note(j->observer, "%s/%s is not as it was: the run keeps what it began with",
                     j->source.folder, hil_sidecar_file_name((hil_sidecar_file)i));
    hil_sidecar_files_free(&j->source.files);
    j->source.files = saved;
    return HIL_OK;
}

/* On rank 0: prepares the output folder for the first step. */
static hil_status begin_folder(job *j)
{
    if (j->saver.saved >= 0) {
        HIL_TRY(hil_checkpoint_return_to(j->folder.checkpoints, j->saver.saved));
        hil_note(j->observer, "resuming after step %lld", (long long)j->saver.saved);
        HIL_TRY(resume_files(j));
    }
    HIL_TRY(hil_folder_begin(&j->folder, j->options));
    HIL_TRY(hil_checkpoint_tidy(j->folder.checkpoints, j->options->keep, j->saver.best));
    HIL_TRY(hil_metrics_open(&j->metrics, j->folder.metrics, j->run.step));
    return hil_dir_sync(j->folder.path);
}

/* Broadcasts rank 0's last evaluation, so that all ranks skip one that was already done. */
static hil_status share_metrics(job *j)
{
    struct {
        int64_t evaluated;
        double loss;
    } known = {j->metrics.evaluated, j->metrics.eval_loss};
    HIL_TRY(hil_comm_broadcast(j->comm, HIL_CHANNEL_CONTROL, &known, sizeof known));
    j->metrics.evaluated = known.evaluated;
    j->metrics.eval_loss = known.loss;
    return HIL_OK;
}

static hil_status sync_metrics(void *metrics)
{
    return hil_metrics_sync(metrics);
}

static void open_saver(job *j)
{
    j->saver.options = (hil_checkpoint_options){.folder = j->folder.checkpoints,
                                                .store = j->model->store,
                                                .comm = j->comm,
                                                .lock = &j->folder.lock,
                                                .files = &j->source.files};
    j->saver.ready = sync_metrics;
    j->saver.context = &j->metrics;
    j->saver.keep = j->options->keep;
}

/* Loads the newest whole checkpoint, if asked and if there is one; then begins the folder. */
static hil_status resume(job *j)
{
    hil_checkpoint_found found = {.step = -1};
    if (j->options->resume) {
        hil_comm_set_activity(j->comm, "looking for a checkpoint");
        HIL_TRY(hil_checkpoint_find(j->folder.checkpoints, j->comm, &found));
        if (found.warning[0])
            hil_note(j->observer, "%s: taking step %lld", found.warning, (long long)found.step);
        else if (found.step < 0 && !j->options->resume_deepspeed)
            hil_note(j->observer, "no checkpoint in %s: starting afresh", j->folder.path);
    }
    hil_comm_set_activity(j->comm, "resuming");
    HIL_TRY(hil_ranks_agree(j->comm, found.step >= 0 ? read_state(j, found.step) : HIL_OK));
    HIL_TRY(hil_training_reference(j));
    bool import = found.step < 0 && j->options->resume_deepspeed;
    HIL_TRY(hil_ranks_agree(j->comm, found.step >= 0 ? load(j, found.step)
                                     : import        ? hil_training_load_deepspeed(j)
                                                     : HIL_OK));
    HIL_TRY(hil_ranks_follow(j->comm, j->rank ? HIL_OK : begin_folder(j)));
    return share_metrics(j);
}

/* The budgets of one rank, as the options set them; 0: no limit was set. */
static hil_tier_budgets budgets(const job *j)
{
    const hil_train_options *o = j->options;
    uint64_t device = o->memory.device ? j->trainer->planned.budget.device : 0;
    uint64_t sharers = (uint64_t)hil_comm_local_size(o->comm);
    hil_tier_budgets budget = {device, o->memory.host / sharers, 0};
    for (size_t i = 0; i < o->memory.disk_count; ++i)
        budget.disk += o->memory.disks[i].bytes / sharers;
    for (size_t i = 0; i < o->memory.disk_count; ++i)
        if (!o->memory.disks[i].bytes) budget.disk = 0;
    return budget;
}

static void note_job(job *j)
{
    const hil_train_options *o = j->options;
    const hil_source *source = &j->source;
    for (size_t i = 0; i < hil_store_count(j->model->store); ++i)
        j->parameters += hil_param_elements(hil_store_at(j->model->store, i));
    bool random = source->bare && j->saver.saved < 0;
    char parameters[32], ranks[32] = "";
    if (j->run.ranks > 1) snprintf(ranks, sizeof ranks, " on %d ranks", (int)j->run.ranks);
    hil_text_count(parameters, (uint64_t)j->parameters);
    hil_note(j->observer,
             "%s with %s parameters in %s%s%s; %lld tokens of data%s; %lld step%s of %lld x %lld "
             "tokens",
             source->config.arch->name, parameters, o->dtype, ranks,
             random ? ", random weights (from config.json alone)" : "",
             (long long)j->run.data_tokens, j->bytes ? " (bytes)" : "", (long long)j->steps,
             j->steps == 1 ? "" : "s", (long long)o->batch, (long long)j->run.seq);
    if (random && hil_source_has_weights(source))
        hil_note(j->observer, "the weights in %s are not used; to start from them: --model %s",
                 source->folder, source->folder);
    hil_source_note_adapter(source, j->model, j->observer);
    hil_training_note_data(j);
}

/* Divides the batch among ranks, and checks that a micro-batch fits into a rank's share. */
static hil_status share_batch(job *j)
{
    const hil_train_options *o = j->options;
    int ranks = hil_comm_size(j->comm);
    HIL_TRY(hil_ranks_share(ranks, o->batch, &j->share));
    if (ranks > 1 && o->micro_batch > j->share)
        return hil_fail(HIL_ERR_USAGE,
                        "--micro-batch %lld: of --batch %lld each of %d ranks computes %lld; use "
                        "that or less",
                        (long long)o->micro_batch, (long long)o->batch, ranks, (long long)j->share);
    return check_range("micro-batch", (double)o->micro_batch, 0, (double)o->batch);
}

static hil_status open_source(job *j)
{
    const hil_train_options *o = j->options;
    if (!o->model || !o->out || !o->data_count)
        return hil_fail(HIL_ERR_USAGE, "train needs a model, data and an output folder");
    HIL_TRY(hil_training_check(o));
    HIL_TRY(hil_source_open(&j->source, o->model));
    HIL_TRY(hil_source_adapt(&j->source, &o->adapter));
    const hil_loss_request loss = hil_training_loss(o);
    HIL_TRY(hil_source_loss(&j->source, &loss, &j->run.preference));
    if (j->rank == 0) HIL_TRY(hil_source_keep(&j->source));
    j->run.config_key = j->source.config_key;
    HIL_TRY(hil_source_seq(&j->source, o->seq, &j->run.seq));
    HIL_TRY(share_batch(j));
    HIL_TRY(HIL_ALLOC(j->share, &j->index));
    HIL_TRY(hil_training_find_data(j));
    if (j->bytes) hil_sidecar_files_drop_tokenizer(&j->source.files);
    return HIL_OK;
}

static hil_status open_folder(job *j)
{
    const hil_train_options *o = j->options;
    if (j->rank) return hil_folder_join(&j->folder, o->out);
    HIL_TRY(hil_folder_open(&j->folder, o, &j->source));
    return o->trace ? hil_timeline_open(&j->timeline, o->trace, hil_clock_now()) : HIL_OK;
}

hil_status hil_training_open(job *j)
{
    j->run.isa = hil_cpu_name(hil_cpu_best());
    j->run.ranks = hil_comm_size(j->comm);
    hil_comm_set_activity(j->comm, "opening the run");
    HIL_TRY(hil_ranks_agree(j->comm, open_source(j)));
    HIL_TRY(hil_source_compare(j->comm, &j->source));
    HIL_TRY(hil_ranks_follow(j->comm, open_folder(j)));
    HIL_TRY(hil_folder_check_shared(&j->folder, j->comm));
    HIL_TRY(open_model(j));
    j->budget = budgets(j);
    HIL_TRY(hil_training_open_data(j));
    HIL_TRY(compare_runs(j));
    HIL_TRY(check_space(j));
    open_saver(j);
    HIL_TRY(resume(j));
    note_job(j);
    note_device(j);
    HIL_TRY(note_plan(j));
    return j->rank ? HIL_OK : hil_training_open_report(j);
}

void hil_training_close(job *j)
{
    hil_saver_close(&j->saver);
    hil_metrics_close(&j->metrics);
    hil_trainer_destroy(j->trainer);
    hil_timeline_close(j->timeline);
    hil_model_destroy(j->model);
    hil_training_close_data(j);
    hil_source_close(&j->source);
    hil_folder_close(&j->folder);
    hil_free(j->index);
    hil_ids_free(&j->prompt);
}
