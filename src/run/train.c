/* train.c - a training run: steps, evaluations, checkpoints, and the model at the end. */
#include "run/train.h"

#include "base/note.h"
#include "base/clock.h"
#include "format/checkpoint.h"
#include "optim/schedule.h"
#include "train/account.h"
#include "train/pairs.h"
#include "plan/outline.h"
#include "plan/ranks.h"
#include "base/sized.h"
#include "store/update.h"

#include <math.h>
#include <sys/resource.h>

typedef hil_training job;

void hil_train_defaults_sized(hil_train_options *options, size_t size)
{
    hil_trainer_options trainer;
    hil_trainer_defaults(&trainer);
    const hil_train_options defaults = {
        .preference = {0, -1, -1, -1, -1},
        .format = "auto",
        .train_on = "assistant",
        .loss = "cross-entropy",
        .device = trainer.device,
        .batch = 8,
        .adapter.dropout = -1,
        .lr = 1e-4,
        .weight_decay = trainer.weight_decay,
        .clip = trainer.clip,
        .beta1 = trainer.beta1,
        .beta2 = trainer.beta2,
        .optimizer = trainer.optimizer,
        .eps = trainer.eps,
        .schedule = HIL_SCHEDULE_COSINE,
        .dtype = trainer.dtype,
        .seed = 42,
        .shuffle = true,
        .keep = 2,
        .tile_size = trainer.tile_size,
        .zero = 3,
        .prefetch = true,
        .report = true,
    };
    hil_sized_fill(options, size, &defaults, sizeof defaults);
}

/* Completes the checkpoint that the last sweep filled with the run's present state. */
static hil_status end_save(job *j)
{
    json_t *state;
    j->run.scaling = j->trainer->scaling;
    HIL_TRY(hil_run_state_write(j->options, &j->run, &state));
    return hil_saver_end(&j->saver, state, j->options->keep_best ? j->run.best_step : -1);
}

/* Saves the present states without an update. */
static hil_status save_now(job *j)
{
    HIL_TRY(hil_saver_begin(&j->saver, j->run.step));
    HIL_TRY(hil_store_save(j->model->store));
    return end_save(j);
}

static hil_status wait_saved(job *j)
{
    hil_comm_set_activity(j->comm, "step %lld, saving", (long long)j->run.step);
    return hil_saver_wait(&j->saver);
}

/* Uses the memory of the step's batch: budgets have room for only one. */
static hil_status evaluate_set(job *j, hil_eval_set *set)
{
    j->batch_ready = 0;
    j->eval_batches.data = set->data;
    j->eval_batches.reference = set->reference;
    hil_batches_move(&j->batches, &j->eval_batches);
    hil_status status =
        hil_batches_eval(&j->eval_batches, j->trainer, j->run.micro_batch, NULL, &set->result);
    hil_batches_move(&j->eval_batches, &j->batches);
    return status;
}

/* The losses of several sets, as JSON and as a note. */
static hil_status print_losses(const job *j, hil_text *json, hil_text *note)
{
    for (size_t i = 0; i < j->set_count; ++i) {
        const hil_eval_set *set = &j->sets[i];
        HIL_TRY(hil_text_print(json, i ? ", " : "{"));
        HIL_TRY(hil_text_quote(json, set->name));
        HIL_TRY(hil_text_print(json, ": %.17g", set->result.loss));
        HIL_TRY(hil_text_print(note, "%s%s %.4f", i ? ", " : "", set->name, set->result.loss));
    }
    return hil_text_print(json, "}");
}

static hil_status report_losses(job *j, const hil_step_result *result)
{
    hil_text json = {0}, note = {0};
    hil_status status;
    if (j->set_count == 1) return hil_metrics_eval(&j->metrics, j->run.step, result, NULL);
    HIL_TRY_DONE(print_losses(j, &json, &note));
    HIL_TRY_DONE(hil_metrics_eval(&j->metrics, j->run.step, result, json.data));
    hil_note(j->observer, "step %lld: eval loss of %s", (long long)j->run.step, note.data);
done:
    hil_text_free(&json);
    hil_text_free(&note);
    return status;
}

static void compare_best(hil_run_state *run, double loss)
{
    bool best = run->best_step < 0 || loss < run->best_loss;
    run->stale = best ? 0 : run->stale + 1;
    if (!best) return;
    run->best_step = run->step;
    run->best_loss = loss;
}

/* The result over the tokens, or pairs, of all sets. */
static hil_step_result join_sets(const job *j)
{
    double sum[HIL_PREFERENCES] = {0}, loss = 0, aux_loss = 0, counted = 0;
    bool pairs = j->run.preference.kind != HIL_PREFER_NONE;
    for (size_t i = 0; i < j->set_count; ++i) {
        const hil_step_result *each = &j->sets[i].result;
        double tokens = (double)each->tokens;
        hil_pairs_sum(&each->preferences, sum);
        loss += each->loss * tokens;
        aux_loss += each->aux_loss * tokens;
        counted += tokens;
    }
    if (pairs)
        return (hil_step_result){.loss = hil_pairs_loss(&j->run.preference, sum),
                                 .preferences = hil_pairs_mean(j->run.preference.kind, sum)};
    return (hil_step_result){.loss = loss / counted, .aux_loss = aux_loss / counted};
}

static hil_status evaluate(job *j, double *loss)
{
    *loss = j->metrics.eval_loss;
    if (j->metrics.evaluated == j->run.step) return HIL_OK;
    for (size_t i = 0; i < j->set_count; ++i) HIL_TRY(evaluate_set(j, &j->sets[i]));
    hil_step_result result = j->set_count == 1 ? j->sets->result : join_sets(j);
    *loss = result.loss;
    compare_best(&j->run, *loss);
    HIL_TRY(report_losses(j, &result));
    if (j->observer && j->observer->eval)
        j->observer->eval(j->observer->context, j->run.step, *loss);
    return HIL_OK;
}

/* Adds the step and the last good checkpoint to the message of a numeric failure. All ranks call it
   together. */
static hil_status name_step(job *j, hil_status status)
{
    char line[800];
    if (status != HIL_ERR_NUMERIC) return status;
    snprintf(line, sizeof line, "%s", hil_status_message());
    hil_saver_close(&j->saver);
    if (j->saver.saved >= 0)
        (void)!hil_fail(status, "step %lld: %s; the last good checkpoint is %s/step-%lld",
                        (long long)j->run.step + 1, line, j->folder.checkpoints,
                        (long long)j->saver.saved);
    else
        (void)!hil_fail(status, "step %lld: %s; there is no checkpoint yet (try a smaller --lr)",
                        (long long)j->run.step + 1, line);
    return hil_ranks_agree(j->comm, status);
}

static hil_status prepare_batch(job *j, int64_t step)
{
    const hil_train_options *o = j->options;
    hil_window_order order = o->shuffle ? HIL_ORDER_SHUFFLE : HIL_ORDER_FILE;
    int64_t first = (step - 1) * o->batch + j->rank * j->share;
    if (j->batch_ready == step) return HIL_OK;
    j->batch_ready = 0;
    for (int64_t i = 0; i < j->share; ++i)
        j->index[i] = hil_dataset_pick(j->data, order, o->seed, first + i);
    HIL_TRY(hil_batches_fill(&j->batches, j->index, j->share, &j->batch));
    HIL_TRY(hil_trainer_check(j->trainer, &j->batch));
    j->batch_ready = step;
    return HIL_OK;
}

/* Prepares the next batch while the device computes this one. */
static hil_status compute_step(job *j, int64_t step, double lr, hil_step_result *result)
{
    HIL_TRY(hil_trainer_begin(j->trainer, &j->batch, j->run.micro_batch));
    if (step < j->steps) (void)!prepare_batch(j, step + 1); /* on failure that step retries */
    return hil_trainer_end(j->trainer, lr, result);
}

static double rate(const job *j, int64_t step)
{
    const hil_train_options *o = j->options;
    if (o->curve.kind)
        return hil_curve_rate(&o->curve, j->steps, step - j->trainer->scaling.skipped);
    return hil_schedule_rate((hil_schedule_kind)o->schedule, o->lr, o->min_lr, o->warmup, j->steps,
                             step);
}

static hil_status one_step(job *j, hil_train_result *result)
{
    const hil_train_options *o = j->options;
    double began = hil_clock_now();
    int64_t step = j->run.step + 1;
    hil_step_result done;
    HIL_TRY(prepare_batch(j, step));
    double lr = rate(j, step);
    hil_scaling before = j->trainer->scaling;
    HIL_TRY(name_step(j, compute_step(j, step, lr, &done)));
    if (j->trainer->scaling.skipped > before.skipped)
        hil_note(
            j->observer,
            "step %lld: the gradients overflow in fp16; no update, loss scale %lld from now on",
            (long long)step, (long long)j->trainer->scaling.scale);
    j->run.step = step;
    j->run.tokens += o->batch * j->run.seq;
    double now = hil_clock_now(), seconds = now - began;
    hil_step_report report = {
        .step = step,
        .steps = j->steps,
        .loss = done.loss,
        .grad_norm = done.grad_norm,
        .lr = lr,
        .tokens = j->run.tokens,
        .learned = done.tokens,
        .seconds = seconds,
        .tokens_per_second = (double)(o->batch * j->run.seq) / seconds,
        .seconds_left =
            (now - j->started) / (double)(step - j->resumed) * (double)(j->steps - step),
        .loss_scale = before.window ? before.scale : 0,
        .skipped = j->trainer->scaling.skipped,
        .ranks = hil_comm_size(j->comm),
        .account = done.account,
        .budget = j->budget,
        .preferences = done.preferences,
        .aux_loss = done.aux_loss,
    };
    if (step == j->resumed + 1) result->first_loss = done.loss;
    result->last_loss = done.loss;
    result->learned += done.tokens;
    hil_account_add(&result->account, &done.account);
    j->metrics.router_z = hil_trainer_router_z(j->trainer);
    HIL_TRY(hil_metrics_step(&j->metrics, &report));
    if (j->timeline) HIL_TRY(hil_timeline_flush(j->timeline));
    if (j->observer && j->observer->step) j->observer->step(j->observer->context, &report);
    return HIL_OK;
}

static bool every(int64_t n, int64_t step)
{
    return n > 0 && step % n == 0;
}

/* If any rank was asked to stop, failed to save or lost its folder, all stop after this step. */
static hil_status agree_to_stop(job *j)
{
    const volatile int *stop = j->options->stop;
    hil_status status = hil_saver_check(&j->saver);
    if (stop && *stop) j->stop = 1;
    if (status == HIL_OK) status = hil_lock_check(&j->folder.lock);
    return hil_comm_agree(j->comm, HIL_CHANNEL_CONTROL, status, &j->stop);
}

static bool out_of_patience(const job *j)
{
    return j->options->patience && j->run.stale >= j->options->patience;
}

/* With --keep-best or --patience the last step is evaluated before it is saved, like the others. */
static bool evaluates(const job *j, int64_t step)
{
    const hil_train_options *o = j->options;
    bool compares = o->keep_best || o->patience;
    return j->set_count && (every(o->eval_every, step) || (compares && step == j->steps));
}

/* One step with what follows it: evaluation and checkpoint. *stop: the run was asked to stop. */
static hil_status advance(job *j, hil_train_result *result, bool *stop)
{
    const hil_train_options *o = j->options;
    int64_t step = j->run.step + 1;
    bool save = o->keep && (every(o->save_every, step) || step == j->steps);
    if (save) HIL_TRY(hil_saver_begin(&j->saver, step));
    HIL_TRY(one_step(j, result));
    HIL_TRY(agree_to_stop(j));
    if (evaluates(j, step)) HIL_TRY(evaluate(j, &result->eval_loss));
    if (every(o->sample_every, step) && !j->stop) HIL_TRY(hil_training_sample(j));
    *stop = j->stop && step < j->steps;
    if (save) return end_save(j);
    bool best = o->keep_best && j->run.best_step == step;
    return o->keep && (*stop || best || out_of_patience(j)) ? save_now(j) : HIL_OK;
}

static hil_status loop(job *j, hil_train_result *result)
{
    const hil_train_options *o = j->options;
    bool stop = false;
    j->started = hil_clock_now();
    while (j->run.step < j->steps && !out_of_patience(j) && !stop)
        HIL_TRY(advance(j, result, &stop));
    HIL_TRY(wait_saved(j));
    if (stop)
        return hil_ranks_agree(j->comm, hil_fail(HIL_ERR_INTERRUPTED, "stopped after step %lld, %s",
                                                 (long long)j->run.step,
                                                 o->keep ? "saved; continue with the same command "
                                                           "and --resume"
                                                         : "and by --keep 0 nothing is saved"));
    if (j->set_count) HIL_TRY(evaluate(j, &result->eval_loss));
    result->stopped_early = out_of_patience(j);
    if (o->keep_best || o->patience) {
        result->best_step = j->run.best_step;
        result->best_loss = j->run.best_loss;
    }
    result->seconds = hil_clock_now() - j->started;
    return HIL_OK;
}

/* Rank 0 exports the last checkpoint, or the best, as the model; the others wait. */
static hil_status export_model(job *j)
{
    hil_status status = HIL_OK;
    hil_comm_set_activity(j->comm, j->rank ? "waiting for the model's files" : "writing the model");
    bool best = j->options->keep_best && j->run.best_step >= 0;
    if (j->rank == 0)
        status = hil_folder_export(&j->folder, best ? j->run.best_step : j->saver.saved,
                                   j->save_dtype, j->observer);
    return hil_ranks_follow(j->comm, status);
}

/* High-water mark of this process's resident memory, in bytes. */
static uint64_t peak_resident(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_maxrss * 1024 : 0;
}

static hil_status run_job(job *j, hil_train_result *result)
{
    const hil_train_options *o = j->options;
    HIL_TRY(hil_training_open(j));
    result->parameters = j->parameters;
    result->examples = hil_source_examples(j->data);
    result->conversations = hil_dataset_packing(j->data)->conversations;
    HIL_TRY(loop(j, result));
    if (o->keep) HIL_TRY(export_model(j));
    result->steps = j->run.step;
    result->tokens = j->run.tokens;
    int64_t done = (j->run.step - j->resumed) * o->batch * j->run.seq;
    if (done > 0) result->tokens_per_second = (double)done / result->seconds;
    result->peak_bytes = peak_resident();
    result->tokenizer = j->source.tokenizer ? "tokenizer.json" : j->bytes ? "bytes" : NULL;
    result->budget = j->budget;
    result->limit = hil_plan_limit(&j->trainer->spent);
    return HIL_OK;
}

hil_status hil_train(const hil_train_options *options, const hil_observer *observer,
                     hil_train_result *result)
{
    hil_train_options own;
    HIL_TRY(HIL_SIZED_TAKE(hil_train, &own, options));
    options = &own;
    int rank = hil_comm_rank(options->comm);
    job j = {.options = options,
             .comm = options->comm,
             .rank = rank,
             .folder.lock = {.fd = -1},
             .saver.saved = -1,
             .saver.best = -1,
             .run.best_step = -1};
    *result = (hil_train_result){
        .eval_loss = NAN, .best_step = -1, .ranks = hil_comm_size(options->comm)};
    if (rank == 0) hil_training_watch(&j, observer);
    hil_status status = run_job(&j, result);
    if (status != HIL_OK) hil_comm_fail(options->comm, status);
    hil_training_close_report(&j, status);
    hil_training_close(&j);
    return status;
}
