/* metrics.jsonl has the documented keys and numbers; windows in file order; evaluation is the mean
   over all windows; lost data ends a run cleanly. */
#include "job.h"

#include <dirent.h>

/* The n-th line; NULL after the last. The caller releases it. */
static json_t *line_at(const char *text, int n)
{
    for (; n > 0 && text; --n) {
        text = strchr(text, '\n');
        if (text) ++text;
    }
    if (!text || !*text) return NULL;
    json_error_t error;
    json_t *line = json_loads(text, JSON_DISABLE_EOF_CHECK, &error);
    CHECK(json_is_object(line));
    return line;
}

static char *read_text(const char *out)
{
    char path[JOB_PATH], *text;
    hil_bytes map;
    CHECK_OK(hil_path_join(path, out, "metrics.jsonl"));
    CHECK_OK(hil_bytes_read(&map, path));
    CHECK_OK(HIL_ALLOC(map.size + 1, &text));
    memcpy(text, map.data, map.size);
    hil_bytes_free(&map);
    return text;
}

/* What the observer saw, to be compared with the file. */
typedef struct seen {
    hil_step_report report[16];
    double eval[16];
    int steps, evals;
} seen;

static void see_step(void *context, const hil_step_report *report)
{
    seen *all = context;
    all->report[all->steps++] = *report;
}

static void see_eval(void *context, int64_t step, double loss)
{
    seen *all = context;
    CHECK_INT(step, all->report[all->steps - 1].step);
    all->eval[all->evals++] = loss;
}

static double number(const json_t *line, const char *key)
{
    CHECK(json_is_number(json_object_get(line, key)));
    return json_number_value(json_object_get(line, key));
}

static void check_account(const json_t *line, const hil_step_account *a)
{
    const struct {
        const char *key;
        double value;
    } of[] = {{"device_peak", (double)a->device_peak},
              {"host_peak", (double)a->host_peak},
              {"disk_peak", (double)a->disk_peak},
              {"disk_read_bytes", (double)a->disk_read_bytes},
              {"disk_written_bytes", (double)a->disk_written_bytes},
              {"to_device_bytes", (double)a->to_device_bytes},
              {"to_host_bytes", (double)a->to_host_bytes},
              {"gathered_bytes", (double)a->gathered_bytes},
              {"reduced_bytes", (double)a->reduced_bytes},
              {"skipped_bytes", (double)a->skipped_bytes}},
      wait[] = {{"weights", a->wait_seconds.weights},
                {"update", a->wait_seconds.update},
                {"activations", a->wait_seconds.activations},
                {"gradients", a->wait_seconds.gradients},
                {"memory", a->wait_seconds.memory}};
    for (size_t i = 0; i < sizeof of / sizeof *of; ++i)
        CHECK(number(line, of[i].key) == of[i].value);
    const json_t *waits = json_object_get(line, "wait_seconds");
    CHECK_INT(json_object_size(waits), 5);
    for (size_t i = 0; i < sizeof wait / sizeof *wait; ++i)
        CHECK_NEAR(number(waits, wait[i].key), wait[i].value, 1e-8 * wait[i].value);
    double exposed = number(line, "exposed_update_seconds");
    CHECK_NEAR(exposed, a->exposed_update_seconds, 1e-8 * exposed);
    CHECK(exposed >= 0 && exposed < number(line, "seconds"));
}

static void check_file(job_place *place)
{
    char out[JOB_PATH];
    seen all = {.steps = 0};
    hil_observer observer = {.context = &all, .step = see_step, .eval = see_eval};
    hil_train_options options = job_options(place, "gpt2", job_path(place, out, "metrics"));
    hil_train_result result;
    options.steps = 5;
    options.eval_fraction = 0.2;
    options.eval_every = 2;
    options.warmup = 4;
    CHECK_OK(hil_train(&options, &observer, &result));
    CHECK_INT(all.steps, 5);
    CHECK_INT(all.evals, 3); /* after steps 2 and 4, and at the end */
    char *text = read_text(out);
    json_t *line;
    int step = 0, eval = 0;
    for (int i = 0; (line = line_at(text, i)); ++i) {
        if (json_object_get(line, "eval_loss")) {
            CHECK_INT(json_object_size(line), 2);
            CHECK_INT(json_integer_value(json_object_get(line, "step")), step);
            CHECK(number(line, "eval_loss") == all.eval[eval++]);
        } else {
            const hil_step_report *r = &all.report[step++];
            CHECK_INT(json_object_size(line), 21);
            CHECK_INT(json_integer_value(json_object_get(line, "step")), step);
            CHECK(number(line, "loss") == r->loss);
            CHECK(number(line, "grad_norm") == r->grad_norm);
            CHECK(number(line, "lr") == r->lr);
            CHECK_NEAR(r->lr, step < 4 ? 1e-3 * step / 4 : 1e-3, 1e-12);
            CHECK_INT(json_integer_value(json_object_get(line, "tokens")), step * 128);
            CHECK_INT(json_integer_value(json_object_get(line, "learned")), 4 * 31);
            CHECK(number(line, "seconds") > 0);
            CHECK_NEAR(number(line, "tokens_per_second") * number(line, "seconds"), 128, 1e-3);
            check_account(line, &r->account);
        }
        json_decref(line);
    }
    CHECK_INT(step, 5);
    CHECK_INT(eval, 3);
    /* In fp32 a parameter has weight, gradient and two moments. */
    CHECK(result.account.device_peak >= (uint64_t)result.parameters * 16);
    CHECK_INT(result.account.disk_peak + result.account.disk_read_bytes, 0);
    CHECK(result.eval_loss == all.eval[2] && result.last_loss == all.report[4].loss);
    hil_free(text);
}

/* The loss of window `w` of a golden stream under a folder's weights, computed alone. */
static double window_loss(golden_run *run, const int32_t *tokens, int64_t w, int64_t seq)
{
    hil_batch batch = {.sequences = 1, .length = seq, .token = tokens + w * seq};
    hil_step_result result;
    CHECK_OK(hil_trainer_loss(run->trainer, &batch, &result));
    CHECK_INT(result.tokens, seq - 1);
    return result.loss;
}

/* With a learning rate of 0 the loss of a step is that of its windows: (s-1)*batch .. s*batch-1,
   modulo the number of whole windows. */
static void check_windows(job_place *place)
{
    enum { SEQ = 24, BATCH = 25, STEPS = 6 };
    char out[JOB_PATH];
    double loss[STEPS];
    int64_t count;
    hil_trainer_options plain;
    hil_trainer_defaults(&plain);
    plain.dtype = "fp32";
    golden_run run = golden_start("mistral", &plain);
    int32_t *tokens = golden_ints(run.golden, "tokens", &count);
    int64_t windows = count / SEQ; /* 106 and a rest: the fifth step wraps around */
    CHECK_INT(windows, 106);
    hil_train_options options = job_options(place, "mistral", job_path(place, out, "windows"));
    options.seq = SEQ;
    options.batch = BATCH;
    options.steps = STEPS;
    options.lr = 0;
    job_train(&options);
    CHECK_INT(job_metrics(out, "loss", loss, STEPS), STEPS);
    double mean = 0;
    for (int s = 0; s < STEPS; ++s) {
        double sum = 0;
        for (int i = 0; i < BATCH; ++i)
            sum += window_loss(&run, tokens, (s * BATCH + i) % windows, SEQ);
        CHECK_NEAR(loss[s], sum / BATCH, 2e-6);
    }
    for (int64_t w = 0; w < windows; ++w) mean += window_loss(&run, tokens, w, SEQ);
    hil_eval_options eval;
    hil_eval_result result;
    hil_eval_defaults(&eval);
    eval.model = options.model;
    eval.data = options.data;
    eval.data_count = 1;
    eval.seq = SEQ;
    CHECK_OK(hil_eval(&eval, NULL, &result));
    CHECK_INT(result.tokens, windows * (SEQ - 1));
    CHECK_NEAR(result.loss, mean / (double)windows, 1e-6);
    CHECK_NEAR(result.perplexity, exp(result.loss), 1e-9 * result.perplexity);
    hil_free(tokens);
    golden_stop(&run);
}

/* Empties the token cache of the run in the folder. */
static void lose_data(void *folder, const hil_step_report *report)
{
    char path[JOB_PATH], cache[JOB_PATH];
    if (report->step > 1) return;
    CHECK_OK(hil_path_join(path, folder, "cache"));
    DIR *listing = opendir(path);
    CHECK(listing != NULL);
    for (struct dirent *entry; (entry = readdir(listing));) {
        if (entry->d_name[0] == '.') continue;
        CHECK_OK(hil_path_join(cache, path, entry->d_name));
        CHECK(truncate(cache, 0) == 0);
    }
    closedir(listing);
}

/* If the token cache is lost, the step that needs it fails; a step whose batch is ready completes.
 */
static void check_lost_data(job_place *place)
{
    char out[JOB_PATH];
    double step[5];
    hil_observer observer = {.context = out, .step = lose_data};
    hil_train_options options = job_options(place, "gpt2", job_path(place, out, "lost"));
    hil_train_result result;
    options.steps = 5;
    CHECK_FAILS(hil_train(&options, &observer, &result), HIL_ERR_IO, "token cache");
    CHECK_INT(job_metrics(out, "step", step, 5), 2);
}

int main(void)
{
    job_place place;
    job_begin(&place);
    check_file(&place);
    check_windows(&place);
    check_lost_data(&place);
    job_end(&place);
    return 0;
}
