/* test_train_best.c - the checkpoint of the lowest eval loss is kept and becomes the model;
 * patience ends a run; both after a resume too. Several evaluation sets have names. */
#include "check.h"
#include "hilbert/checkpoint.h"
#include "run/job.h"

enum { STEPS = 36, EVERY = 2 };

/* A rate at which the loss on held-out data first falls and then rises. */
static hil_train_options options_of(job_place *place, const char *out)
{
    hil_train_options options = job_options(place, "gpt2", out);
    options.steps = STEPS;
    options.lr = 0.1;
    options.eval_fraction = 0.4;
    options.eval_every = EVERY;
    options.keep = 1;
    return options;
}

static int lowest(const double *loss, int count)
{
    int best = 0;
    for (int i = 1; i < count; ++i)
        if (loss[i] < loss[best]) best = i;
    return best;
}

static bool has_step(const char *out, int step)
{
    char path[JOB_PATH], name[64];
    snprintf(name, sizeof name, "checkpoints/step-%d", step);
    CHECK_OK(hil_path_join(path, out, name));
    return hil_file_exists(path);
}

static void check_same_model(const char *a, const char *b)
{
    char x[JOB_PATH], y[JOB_PATH];
    CHECK_OK(hil_path_join(x, a, "model.safetensors"));
    CHECK_OK(hil_path_join(y, b, "model.safetensors"));
    CHECK(job_same_file(x, y));
}

/* The step after which `patience` evaluations have not been lower than the lowest before. */
static int patient_until(const double *loss, int count, int patience)
{
    int since = 0, best = 0;
    for (int i = 0; i < count; ++i) {
        if (loss[i] < loss[best]) best = i;
        since = i - best;
        if (since == patience) return (i + 1) * EVERY;
    }
    return -1;
}

static void keep_note(void *context, const char *note)
{
    snprintf(context, 512, "%s", note);
}

/* Export of a run takes the newest checkpoint, and says that the other was better. */
static void check_export(job_place *place, const char *run, int best)
{
    char out[JOB_PATH], said[512] = "", words[64];
    const hil_observer observer = {.context = said, .note = keep_note};
    hil_export_options options;
    hil_export_result result;
    hil_export_defaults(&options);
    options.checkpoint = run;
    options.out = job_path(place, out, "exported");
    CHECK_OK(hil_checkpoint_export(&options, &observer, &result));
    CHECK_INT(result.step, STEPS);
    snprintf(words, sizeof words, "lowest in %.20s", run);
    CHECK(strstr(said, words) != NULL);
    snprintf(words, sizeof words, "checkpoints/step-%d, which", best);
    CHECK(strstr(said, words) != NULL);
}

static void check_best(job_place *place, int *end)
{
    char plain[JOB_PATH], kept[JOB_PATH], until[JOB_PATH], parts[JOB_PATH];
    double loss[2][STEPS], eval[2][STEPS];
    hil_train_options options = options_of(place, job_path(place, plain, "plain"));
    job_train(&options);
    CHECK_INT(job_metrics(plain, "loss", loss[0], STEPS), STEPS);
    int count = job_metrics(plain, "eval_loss", eval[0], STEPS);
    CHECK_INT(count, STEPS / EVERY);
    int best = lowest(eval[0], count), step = (best + 1) * EVERY;
    printf("lowest eval loss after step %d\n", step);
    CHECK(best > 0 && best + 2 < count); /* else this shows nothing */
    *end = patient_until(eval[0], count, 2);
    CHECK(*end > 2 * EVERY && *end < STEPS);

    options.out = job_path(place, kept, "kept");
    options.keep_best = true;
    hil_train_result result = job_train(&options);
    CHECK_INT(result.best_step, step);
    CHECK(result.best_loss == eval[0][best]);
    CHECK_INT(job_metrics(kept, "loss", loss[1], STEPS), STEPS);
    CHECK_INT(job_metrics(kept, "eval_loss", eval[1], STEPS), count);
    CHECK(memcmp(loss[0], loss[1], sizeof loss[0]) == 0); /* saving more changes no number */
    CHECK(memcmp(eval[0], eval[1], (size_t)count * sizeof eval[0][0]) == 0);
    for (int i = 1; i <= STEPS; ++i) CHECK_INT(has_step(kept, i), i == step || i == STEPS);

    check_export(place, kept, step);

    /* the model is that of a run which ended there */
    options.out = job_path(place, until, "until");
    options.keep_best = false;
    options.steps = step;
    job_train(&options);
    check_same_model(kept, until);

    /* the best survives a resume after it */
    options.out = job_path(place, parts, "parts");
    options.keep_best = true;
    options.steps = step + EVERY;
    job_train(&options);
    options.steps = STEPS;
    options.resume = true;
    result = job_train(&options);
    CHECK_INT(result.best_step, step);
    CHECK(has_step(parts, step));
    check_same_model(kept, parts);
}

/* Two evaluations without a lower loss end the run, in one go or resumed before the last. */
static void check_patience(job_place *place, int end)
{
    char whole[JOB_PATH], parts[JOB_PATH];
    hil_train_options options = options_of(place, job_path(place, whole, "whole"));
    options.patience = 2;
    options.steps = 100;
    hil_train_result result = job_train(&options);
    CHECK(result.stopped_early);
    CHECK_INT(result.steps, end);
    options.resume = true; /* it stays ended */
    result = job_train(&options);
    CHECK(result.stopped_early);
    CHECK_INT(result.steps, end);

    options.out = job_path(place, parts, "patience");
    options.resume = false;
    options.steps = end - EVERY;
    result = job_train(&options);
    CHECK(!result.stopped_early);
    options.resume = true;
    options.steps = 100;
    result = job_train(&options);
    CHECK_INT(result.steps, end);
    check_same_model(whole, parts);
}

/* Two sets: each loss by name, and the mean over all tokens. */
static void check_sets(job_place *place)
{
    char out[JOB_PATH], one[JOB_PATH], two[JOB_PATH], path[JOB_PATH];
    double loss[4];
    hil_bytes lines;
    hil_train_options options = options_of(place, job_path(place, out, "sets"));
    FILE *file = fopen(job_path(place, one, "one.txt"), "w");
    CHECK(file && fprintf(file, "%0100d", 7) == 100 && fclose(file) == 0);
    file = fopen(job_path(place, two, "two.txt"), "w");
    CHECK(file && fprintf(file, "%0*d", 3 * GOLDEN_SEQ, 12345) == 3 * GOLDEN_SEQ);
    CHECK(fclose(file) == 0);
    const char *const sets[] = {one, two};
    options.eval_fraction = 0;
    options.eval_sets = sets;
    options.eval_set_count = 2;
    options.steps = EVERY;
    options.tokenizer = "bytes";
    job_train(&options);
    CHECK_INT(job_metrics(out, "eval_loss", loss, 4), 1);
    CHECK_OK(hil_path_join(path, out, "metrics.jsonl"));
    CHECK_OK(hil_bytes_read(&lines, path));
    const char *found = strstr(lines.data, "\"eval_losses\": ");
    CHECK(found != NULL);
    json_t *losses = json_loads(found + 15, JSON_DISABLE_EOF_CHECK, NULL);
    int windows = 100 / GOLDEN_SEQ; /* of the first; each predicts one token less than it has */
    double a = json_number_value(json_object_get(losses, one));
    double b = json_number_value(json_object_get(losses, two));
    CHECK(a > 0 && b > 0 && a != b);
    double mean = (windows * a + 3 * b) / (windows + 3);
    CHECK(loss[0] > mean - 1e-9 && loss[0] < mean + 1e-9);
    json_decref(losses);
    hil_bytes_free(&lines);
}

static void check_refused(job_place *place)
{
    char out[JOB_PATH];
    hil_train_result result;
    hil_train_options options = options_of(place, job_path(place, out, "refused"));
    options.keep_best = true;
    options.keep = 0;
    CHECK_FAILS(hil_train(&options, NULL, &result), HIL_ERR_USAGE, "--keep-best and --keep 0");
    options.keep = 1;
    options.eval_every = 0;
    CHECK_FAILS(hil_train(&options, NULL, &result), HIL_ERR_USAGE,
                "--keep-best needs --eval-every");
}

int main(void)
{
    job_place place;
    int end;
    job_begin(&place);
    check_best(&place, &end);
    check_patience(&place, end);
    check_sets(&place);
    check_refused(&place);
    job_end(&place);
    return 0;
}
