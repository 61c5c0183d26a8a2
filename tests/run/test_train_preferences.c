/* test_train_preferences.c - a run on pairs of answers: metrics, evaluation, resuming, several
   ranks, and what is refused. */
#include "../comm/ranks.h"
#include "job.h"

enum { STEPS = 6 };

static hil_train_options loss_options(job_place *place, const char *out, const char *loss)
{
    hil_train_options options = job_options(place, "llama", out);
    job_pairs(place, &options, loss);
    options.steps = STEPS;
    options.batch = 6;
    options.micro_batch = 1;
    options.shuffle = true;
    options.eval_fraction = 0.25;
    options.eval_every = 3;
    return options;
}

static hil_train_options pair_options(job_place *place, const char *out)
{
    return loss_options(place, out, "dpo");
}

static double last_of(const char *out, const char *key)
{
    double values[16];
    int count = job_metrics(out, key, values, 16);
    CHECK(count > 0);
    return values[count - 1];
}

/* A new adapter leaves the model as it is: no reward, and a loss of log 2. */
static void check_metrics(const char *out)
{
    double loss[16], margin[16], chosen[16], rejected[16], pairs[16];
    CHECK_INT(job_metrics(out, "loss", loss, 16), STEPS);
    CHECK_INT(job_metrics(out, "rewards/margins", margin, 16), STEPS);
    CHECK_INT(job_metrics(out, "rewards/chosen", chosen, 16), STEPS);
    CHECK_INT(job_metrics(out, "rewards/rejected", rejected, 16), STEPS);
    CHECK_INT(job_metrics(out, "pairs", pairs, 16), STEPS);
    CHECK_NEAR(loss[0], log(2), 1e-6);
    CHECK_NEAR(margin[0], 0, 1e-6);
    CHECK(loss[STEPS - 1] < loss[0] - 1e-3);
    CHECK(margin[STEPS - 1] > 1e-3);
    for (int s = 0; s < STEPS; ++s) {
        CHECK_NEAR(margin[s], chosen[s] - rejected[s], 1e-9);
        CHECK(pairs[s] >= 6 && pairs[s] < 60);
    }
}

/* The held-out pairs are the last of the file, so that all pairs are those of both. */
static void check_eval(job_place *place, const char *out)
{
    hil_eval_options options = job_eval_options(place);
    hil_eval_result result;
    options.adapter = out;
    options.tokenizer = "bytes";
    options.loss = "dpo";
    CHECK_OK(hil_eval(&options, NULL, &result));
    CHECK(result.preferences.pairs > (int64_t)last_of(out, "eval_pairs"));
    CHECK(result.preferences.reward_chosen > result.preferences.reward_rejected);
    CHECK(result.loss < log(2));
    options.adapter = NULL;
    CHECK_FAILS(hil_eval(&options, NULL, &result), HIL_ERR_USAGE, "give --adapter as well");
}

typedef struct several {
    hil_train_options options;
    hil_train_result result; /* of rank 0 */
} several;

static void train_rank(hil_comm *comm, void *context)
{
    several *s = context;
    hil_train_options options = s->options;
    hil_train_result result;
    options.comm = comm;
    CHECK_OK(hil_train(&options, NULL, &result));
    if (hil_comm_rank(comm) == 0) s->result = result;
}

static void check_ranks(job_place *place, const char *alone, const char *loss)
{
    static const char *const keys[] = {"loss", "rewards/chosen", "rewards/margins", "eval_loss"};
    char out[JOB_PATH], name[32];
    for (int ranks = 2; ranks <= 3; ++ranks) {
        snprintf(name, sizeof name, "%s-%d", loss, ranks);
        several s = {.options = loss_options(place, job_path(place, out, name), loss)};
        ranks_run(ranks, train_rank, &s);
        for (size_t k = 0; k < sizeof keys / sizeof *keys; ++k) {
            double a[16], b[16];
            int count = job_metrics(alone, keys[k], a, 16);
            CHECK_INT(job_metrics(out, keys[k], b, 16), count);
            for (int i = 0; i < count; ++i) CHECK_NEAR(a[i], b[i], 1e-6);
        }
    }
}

static void refuse(const hil_train_options *options, const char *words)
{
    hil_train_result result;
    CHECK_FAILS(hil_train(options, NULL, &result), HIL_ERR_USAGE, words);
}

/* One run in two parts, the second of them on other ranks. */
static void check_resume(job_place *place, const char *whole)
{
    char out[JOB_PATH];
    hil_train_options options = pair_options(place, job_path(place, out, "parts"));
    options.steps = 3;
    job_train(&options);
    options.resume = true;
    options.steps = STEPS;
    options.beta = 0.2;
    refuse(&options, "--beta 0.1, not 0.2");
    options.beta = 0;
    job_train(&options);
    CHECK(job_same(whole, out));
    several s = {.options = pair_options(place, job_path(place, out, "more"))};
    s.options.steps = 3;
    job_train(&s.options);
    s.options.resume = true;
    s.options.steps = STEPS;
    ranks_run(2, train_rank, &s);
    CHECK_NEAR(last_of(out, "loss"), last_of(whole, "loss"), 1e-6);
}

static void refuse_number(job_place *place, const char *loss, hil_preference_choice choice,
                          const char *words)
{
    char out[JOB_PATH];
    hil_train_options options = loss_options(place, job_path(place, out, "refused"), loss);
    options.preference = choice;
    refuse(&options, words);
}

static void check_refused_numbers(job_place *place)
{
    refuse_number(place, "ipo", (hil_preference_choice){0.1, -1, -1, -1, -1},
                  "--label-smoothing has no meaning for --loss ipo");
    refuse_number(place, "robust", (hil_preference_choice){0.5, -1, -1, -1, -1}, "below 0.5");
    refuse_number(place, "orpo", (hil_preference_choice){0, 0.5, -1, -1, -1},
                  "--nll-weight has no meaning for --loss orpo");
    refuse_number(place, "dpo", (hil_preference_choice){0, -1, 0.5, -1, -1},
                  "--margin is that of --loss simpo, not of dpo");
}

/* Whole models: the loss without a comparison is the cross-entropy of the chosen answers. */
static void check_whole(job_place *place, const char *loss)
{
    double values[2][16], nll[16];
    char out[JOB_PATH], again[JOB_PATH], name[32];
    snprintf(name, sizeof name, "whole-%s", loss);
    hil_train_options options = loss_options(place, job_path(place, out, name), loss);
    job_train(&options);
    CHECK_INT(job_metrics(out, "loss", values[0], 16), STEPS);
    CHECK(values[0][STEPS - 1] < values[0][0]);
    if (strcmp(loss, "simpo") != 0) {
        CHECK_INT(job_metrics(out, "nll_loss", nll, 16), STEPS);
        CHECK(nll[STEPS - 1] < nll[0]);
    }
    check_ranks(place, out, loss);
    snprintf(name, sizeof name, "again-%s", loss);
    options = loss_options(place, job_path(place, again, name), loss);
    options.steps = 3;
    job_train(&options);
    options.resume = true;
    options.steps = STEPS;
    job_train(&options);
    CHECK(job_same(out, again));
    options.overwrite = true;
    options.resume = false;
    options.micro_batch = 3;
    job_train(&options);
    CHECK_INT(job_metrics(again, "loss", values[1], 16), STEPS);
    for (int s = 0; s < STEPS; ++s) CHECK_NEAR(values[0][s], values[1][s], 1e-5);
}

/* Single answers: kl is that of the step whatever its micro-batches and ranks, and resumes. */
static void check_single(job_place *place)
{
    double loss[2][16], kl[2][16], chosen[16];
    char out[JOB_PATH], again[JOB_PATH];
    hil_train_options options = loss_options(place, job_path(place, out, "kto"), "kto");
    job_train(&options);
    CHECK_INT(job_metrics(out, "loss", loss[0], 16), STEPS);
    CHECK_INT(job_metrics(out, "kl", kl[0], 16), STEPS);
    CHECK_INT(job_metrics(out, "rewards/chosen", chosen, 16), STEPS);
    CHECK_NEAR(loss[0][0], 0.5, 1e-6);
    CHECK(loss[0][STEPS - 1] < 0.5);
    CHECK(kl[0][0] == 0 && kl[0][STEPS - 1] >= 0);
    options = loss_options(place, job_path(place, again, "kto-micro"), "kto");
    options.micro_batch = 3;
    options.adapter.dropout = 0;
    job_train(&options);
    hil_train_options other = loss_options(place, job_path(place, out, "kto-whole"), "kto");
    other.micro_batch = 6;
    other.adapter.dropout = 0;
    job_train(&other);
    for (int i = 0; i < 2; ++i) {
        CHECK_INT(job_metrics(i ? out : again, "loss", loss[i], 16), STEPS);
        CHECK_INT(job_metrics(i ? out : again, "kl", kl[i], 16), STEPS);
    }
    for (int s = 0; s < STEPS; ++s) CHECK_NEAR(loss[0][s], loss[1][s], 1e-5);
    for (int s = 0; s < STEPS; ++s) CHECK_NEAR(kl[0][s], kl[1][s], 1e-5);
    other.steps = 3;
    other.overwrite = true;
    job_train(&other);
    other.overwrite = false;
    other.resume = true;
    other.steps = STEPS;
    other.preference.desirable_weight = 2;
    refuse(&other, "--desirable-weight 1.0, not 2.0");
    other.preference.desirable_weight = -1;
    job_train(&other);
    CHECK_INT(job_metrics(out, "loss", loss[0], 16), STEPS);
    for (int s = 0; s < STEPS; ++s) CHECK(loss[0][s] == loss[1][s]);
}

/* An adapter of any loss, or a whole model, measures what it was trained for. */
static void check_eval_of(job_place *place, const char *loss, bool whole)
{
    char out[JOB_PATH], name[32];
    snprintf(name, sizeof name, "%s%s", whole ? "whole-" : "", loss);
    job_path(place, out, name);
    hil_eval_options options = job_eval_options(place);
    hil_eval_result result, again;
    if (whole)
        options.model = out;
    else
        options.adapter = out;
    options.tokenizer = "bytes";
    options.loss = loss;
    CHECK_OK(hil_eval(&options, NULL, &result));
    CHECK(result.preferences.pairs > 30);
    options.batch = 1;
    CHECK_OK(hil_eval(&options, NULL, &again));
    CHECK_NEAR(result.loss, again.loss, 1e-5);
    CHECK_NEAR(result.preferences.kl, again.preferences.kl, 1e-5);
}

/* The weight of cross-entropy, in metrics and resuming. */
static void check_nll(job_place *place)
{
    double loss[16], nll[16];
    char out[JOB_PATH];
    hil_train_options options = loss_options(place, job_path(place, out, "nll"), "ipo");
    options.preference.nll_weight = 0.5;
    options.steps = 3;
    job_train(&options);
    CHECK_INT(job_metrics(out, "loss", loss, 16), 3);
    CHECK_INT(job_metrics(out, "nll_loss", nll, 16), 3);
    CHECK_NEAR(loss[0], 25 + 0.5 * nll[0], 1e-4); /* 1 / (2 beta) squared */
    options.resume = true;
    options.steps = STEPS;
    options.preference.nll_weight = 0.7;
    refuse(&options, "--nll-weight 0.5, not 0.7");
}

static void check_refused(job_place *place)
{
    static const char *const save[] = {"lm_head"};
    char out[JOB_PATH];
    hil_train_options options = pair_options(place, job_path(place, out, "refused"));
    options.format = "prompt";
    refuse(&options, "--loss dpo learns from pairs of answers: leave --format out");
    options.loss = "kto";
    refuse(&options, "--loss kto learns from answers with labels, and from pairs of answers");
    options.loss = "dpo";
    options.format = "preference";
    options.train_on = "all";
    refuse(&options, "compares answers alone");
    options = pair_options(place, out);
    options.adapter.save = save;
    options.adapter.saves = 1;
    refuse(&options, "they are the reference");
    options = pair_options(place, out);
    options.loss = "ppo";
    refuse(&options, "kto, cpo, simpo or orpo, not 'ppo'");
    options.loss = "cross-entropy";
    options.beta = 0.3;
    refuse(&options, "--beta is for a loss that compares answers");
    CHECK(!hil_file_exists(out));
}

int main(void)
{
    job_place place;
    char out[JOB_PATH];
    job_begin(&place);
    hil_train_options options = pair_options(&place, job_path(&place, out, "alone"));
    job_train(&options);
    check_metrics(out);
    check_eval(&place, out);
    check_ranks(&place, out, "dpo");
    check_resume(&place, out);
    check_whole(&place, "orpo");
    check_whole(&place, "simpo");
    check_whole(&place, "cpo");
    check_eval_of(&place, "orpo", true);
    check_nll(&place);
    check_single(&place);
    job_path(&place, out, "kto");
    check_ranks(&place, out, "kto");
    check_eval_of(&place, "kto", false);
    check_refused(&place);
    check_refused_numbers(&place);
    job_end(&place);
    return 0;
}
