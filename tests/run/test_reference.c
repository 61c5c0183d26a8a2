/* test_reference.c - losses that compare a whole model with what it was: the reference is computed
   before the first step, goes on after a kill, and is that of the model and the data. */
#include "../comm/ranks.h"
#include "base/text.h"
#include "job.h"

enum { STEPS = 6 };

static hil_train_options whole_options(job_place *place, const char *out, const char *loss)
{
    hil_train_options options = job_options(place, "llama", out);
    job_pairs(place, &options, loss);
    job_whole(&options);
    options.steps = STEPS;
    options.batch = 6;
    options.micro_batch = 2;
    options.eval_fraction = 0.25;
    options.eval_every = 3;
    return options;
}

static void values_of(const char *out, const char *key, double values[STEPS])
{
    CHECK_INT(job_metrics(out, key, values, STEPS), STEPS);
}

/* The files of a run's references, sorted by name. */
typedef struct references {
    char path[4][JOB_PATH];
    int count;
} references;

static hil_status note_file(void *context, const char *folder, const char *name)
{
    references *r = context;
    if (strncmp(name, "reference-", 10) != 0) return HIL_OK;
    CHECK(r->count < 4);
    return hil_path_join(r->path[r->count++], folder, name);
}

static references find_references(const char *out)
{
    references r = {.count = 0};
    char cache[JOB_PATH];
    CHECK_OK(hil_path_join(cache, out, "cache"));
    CHECK_OK(hil_dir_each(cache, HIL_MISSING_IS_EMPTY, note_file, &r));
    if (r.count == 2 && strcmp(r.path[0], r.path[1]) > 0) {
        char first[JOB_PATH];
        memcpy(first, r.path[1], sizeof first);
        memcpy(r.path[1], r.path[0], sizeof first);
        memcpy(r.path[0], first, sizeof first);
    }
    return r;
}

/* At first the model is its reference; then chosen answers become more probable than rejected ones,
   also in the evaluation. */
static void check_metrics(const char *out)
{
    double loss[STEPS], margin[STEPS], held[STEPS], held_margin[STEPS];
    values_of(out, "loss", loss);
    values_of(out, "rewards/margins", margin);
    CHECK_NEAR(loss[0], log(2), 1e-6);
    CHECK_NEAR(margin[0], 0, 1e-6);
    CHECK(loss[STEPS - 1] < loss[0] - 1e-2 && margin[STEPS - 1] > 1e-2);
    CHECK_INT(job_metrics(out, "eval_loss", held, STEPS), 2);
    CHECK_INT(job_metrics(out, "eval_rewards/margins", held_margin, STEPS), 2);
    CHECK(held[1] < log(2) && held_margin[1] > 0);
    CHECK_INT(find_references(out).count, 2);
}

typedef struct stopping {
    int stop;
    uint64_t after, seen;
} stopping;

static void watch_progress(void *context, const char *what, uint64_t done, uint64_t total)
{
    stopping *s = context;
    (void)total;
    if (strcmp(what, "computing the reference") != 0) return;
    ++s->seen;
    if (done >= s->after) s->stop = 1;
}

static void check_kill(job_place *place, const char *whole)
{
    char out[JOB_PATH];
    hil_train_options options = whole_options(place, job_path(place, out, "killed"), "dpo");
    stopping s = {.after = 4};
    hil_observer observer = {.context = &s, .progress = watch_progress};
    hil_train_result result;
    options.stop = &s.stop;
    CHECK_FAILS(hil_train(&options, &observer, &result), HIL_ERR_INTERRUPTED,
                "with the reference of 4 of");
    references r = find_references(out);
    CHECK_INT(r.count, 1);
    hil_bytes part;
    CHECK_OK(hil_bytes_read(&part, r.path[0]));
    /* a record that was not written to its end */
    FILE *file = fopen(r.path[0], "ab");
    CHECK(file && fwrite(part.data + 48, 1, 20, file) == 20 && fclose(file) == 0);
    hil_bytes_free(&part);
    uint64_t before = s.seen;
    s = (stopping){.after = UINT64_MAX};
    CHECK_OK(hil_train(&options, &observer, &result));
    CHECK(job_same(whole, out));
    references all = find_references(whole);
    CHECK_INT(find_references(out).count, 2);
    for (int i = 0; i < 2; ++i) {
        char cache[JOB_PATH], name[JOB_PATH];
        CHECK_OK(hil_path_join(cache, out, "cache"));
        CHECK_OK(hil_path_join(name, cache, strrchr(all.path[i], '/') + 1));
        CHECK(job_same_file(all.path[i], name));
    }
    /* the same run once more computes nothing */
    options.resume = true;
    uint64_t rounds = before + s.seen;
    CHECK(rounds > 4);
    s = (stopping){.after = UINT64_MAX};
    CHECK_OK(hil_train(&options, &observer, &result));
    CHECK_INT(s.seen, 0);
}

static void damage(const char *path, size_t at)
{
    hil_bytes bytes;
    CHECK_OK(hil_bytes_read(&bytes, path));
    CHECK(at < bytes.size);
    bytes.data[at] ^= 4;
    CHECK_OK(hil_file_write(path, bytes.data, bytes.size));
    hil_bytes_free(&bytes);
}

/* In two parts, with the reference of the first, without it, or with a damaged one. */
static void check_resume(job_place *place, const char *whole, const char *loss)
{
    char out[JOB_PATH], name[32];
    snprintf(name, sizeof name, "parts-%s", loss);
    for (int how = 0; how < 3; ++how) {
        hil_train_options options = whole_options(place, job_path(place, out, name), loss);
        options.steps = 3;
        options.overwrite = true;
        job_train(&options);
        references r = find_references(out);
        CHECK_INT(r.count, 2);
        for (int i = 0; i < 2 && how == 1; ++i) CHECK_OK(hil_file_remove_tree(r.path[i]));
        if (how == 2) damage(r.path[0], 10), damage(r.path[1], 500);
        options.overwrite = false;
        options.resume = true;
        options.steps = STEPS;
        job_train(&options);
        CHECK(job_same(whole, out));
    }
}

/* Small budgets, with states in RAM and on disk. */
static void check_placements(job_place *place, const char *whole, const char *loss)
{
    char out[JOB_PATH], drive[JOB_PATH];
    CHECK_OK(hil_dir_create(job_path(place, drive, "drive")));
    const hil_disk_budget swap = {drive, 64 << 20};
    for (int disk = 0; disk < 2; ++disk) {
        hil_train_options options = whole_options(place, job_path(place, out, "small"), loss);
        options.overwrite = true;
        options.memory.device = (disk ? 300u : 350u) << 10;
        options.memory.host = (disk ? 500u : 900u) << 10;
        options.memory.disks = &swap;
        options.memory.disk_count = (size_t)disk;
        hil_train_result result = job_train(&options);
        CHECK(result.account.device_peak <= options.memory.device);
        CHECK(result.account.host_peak <= options.memory.host);
        CHECK(result.account.to_device_bytes > 0);
        CHECK(job_same(whole, out));
    }
}

static void train_rank(hil_comm *comm, void *context)
{
    hil_train_options options = *(hil_train_options *)context;
    hil_train_result result;
    options.comm = comm;
    CHECK_OK(hil_train(&options, NULL, &result));
}

static void check_values(const char *alone, const char *out)
{
    static const char *const keys[] = {"loss", "rewards/chosen", "rewards/rejected"};
    for (int k = 0; k < 3; ++k) {
        double a[STEPS], b[STEPS];
        values_of(alone, keys[k], a);
        values_of(out, keys[k], b);
        for (int i = 0; i < STEPS; ++i) CHECK_NEAR(a[i], b[i], 1e-5);
    }
}

/* Also where other weights are read after those of the reference were used: of --model, and of a
   checkpoint. */
static void check_ranks(job_place *place, const char *alone, const char *loss)
{
    char out[JOB_PATH];
    for (int ranks = 2; ranks <= 3; ++ranks) {
        hil_train_options options = whole_options(place, job_path(place, out, "ranks"), loss);
        options.overwrite = true;
        options.micro_batch = 1;
        ranks_run(ranks, train_rank, &options);
        check_values(alone, out);
        options.reference = place->model;
        options.steps = 3;
        ranks_run(ranks, train_rank, &options);
        options.overwrite = false;
        options.resume = true;
        options.steps = STEPS;
        references r = find_references(out);
        for (int i = 0; i < r.count; ++i) CHECK_OK(hil_file_remove_tree(r.path[i]));
        ranks_run(ranks, train_rank, &options);
        check_values(alone, out);
    }
}

/* The last bits of a mixture depend on the windows that are computed together: not on ranks, nor on
   the file of an earlier run with another micro-batch. */
static void check_shapes(job_place *place)
{
    references made[2];
    for (int ranks = 1; ranks <= 2; ++ranks) {
        char out[JOB_PATH];
        hil_train_options options =
            whole_options(place, job_path(place, out, ranks > 1 ? "two" : "one"), "dpo");
        CHECK_OK(hil_path_join(place->model, HIL_TESTS "/golden/models", "qwen3_moe"));
        options.overwrite = true;
        options.eval_fraction = 0;
        options.eval_every = 0;
        options.steps = 1;
        for (options.micro_batch = 2; options.micro_batch <= 3; ++options.micro_batch)
            ranks_run(ranks, train_rank, &options);
        made[ranks - 1] = find_references(out);
        CHECK_INT(made[ranks - 1].count, 2);
    }
    for (int i = 0; i < 2; ++i) CHECK(job_same_file(made[0].path[i], made[1].path[i]));
}

/* Another model as the reference: what a run made. */
static void check_other(job_place *place, const char *trained)
{
    double own[STEPS], other[STEPS], loss[STEPS];
    char out[JOB_PATH], same[JOB_PATH];
    hil_train_result result;
    hil_train_options options = whole_options(place, job_path(place, same, "itself"), "dpo");
    options.reference = place->model;
    job_train(&options);
    job_path(place, out, "whole");
    CHECK(job_same(out, same));
    options = whole_options(place, job_path(place, out, "other"), "dpo");
    options.reference = trained;
    job_train(&options);
    values_of(same, "logps/chosen", own);
    values_of(out, "logps/chosen", other);
    values_of(out, "loss", loss);
    CHECK(own[0] == other[0]); /* the model that is trained is not that of --reference */
    CHECK(fabs(loss[0] - log(2)) > 1e-3);
    options.resume = true;
    options.steps = STEPS + 1;
    options.reference = NULL;
    CHECK_FAILS(hil_train(&options, NULL, &result), HIL_ERR_USAGE, "a reference of checksum");
    options = whole_options(place, job_path(place, out, "refused"), "dpo");
    options.reference = HIL_TESTS "/golden/models/gpt2";
    CHECK_FAILS(hil_train(&options, NULL, &result), HIL_ERR_INPUT, "of the same shape");
    options.loss = "orpo";
    CHECK_FAILS(hil_train(&options, NULL, &result), HIL_ERR_USAGE, "orpo has no reference");
    options.loss = "cross-entropy";
    CHECK_FAILS(hil_train(&options, NULL, &result), HIL_ERR_USAGE, "--reference is for");
    options.reference = NULL;
    options.precompute_reference = true;
    CHECK_FAILS(hil_train(&options, NULL, &result), HIL_ERR_USAGE, "--precompute-reference is for");
    CHECK(!hil_file_exists(out));
}

/* With an adapter, to compute the reference before changes nothing but who may be trained: windows
   that are computed alone have the same bits everywhere. */
static void check_adapter(job_place *place, const char *loss)
{
    static const char *const save[] = {"lm_head"};
    char beside[JOB_PATH], before[JOB_PATH], more[JOB_PATH], next[JOB_PATH], name[32];
    for (int precompute = 0; precompute < 2; ++precompute) {
        snprintf(name, sizeof name, "%s-%d", loss, precompute);
        hil_train_options options =
            whole_options(place, job_path(place, precompute ? before : beside, name), loss);
        options.adapter.source = "lora";
        options.adapter.rank = 3;
        options.lr = 1e-2;
        options.micro_batch = 1;
        options.precompute_reference = precompute;
        job_train(&options);
        if (!precompute) continue;
        options.adapter.save = save;
        options.adapter.saves = 1;
        options.overwrite = true;
        snprintf(name, sizeof name, "%s-more", loss);
        options.out = job_path(place, more, name);
        job_train(&options);
        /* what it has of the model is not the reference's */
        options.adapter = (hil_adapter_choice){.source = more, .dropout = -1};
        snprintf(name, sizeof name, "%s-next", loss);
        options.out = job_path(place, next, name);
        job_train(&options);
        references was = find_references(more), is = find_references(next);
        CHECK(was.count == 2 && is.count == 2);
        for (int i = 0; i < 2; ++i) CHECK(job_same_file(was.path[i], is.path[i]));
    }
    CHECK(job_same(beside, before));
}

int main(void)
{
    job_place place;
    char out[JOB_PATH], single[JOB_PATH];
    job_begin(&place);
    hil_train_options options = whole_options(&place, job_path(&place, out, "whole"), "dpo");
    job_train(&options);
    check_metrics(out);
    check_kill(&place, out);
    check_resume(&place, out, "dpo");
    check_placements(&place, out, "dpo");
    check_ranks(&place, out, "dpo");
    check_shapes(&place);
    check_other(&place, out);
    check_adapter(&place, "dpo");
    check_adapter(&place, "kto");
    options = whole_options(&place, job_path(&place, single, "single"), "kto");
    job_train(&options);
    check_resume(&place, single, "kto");
    check_placements(&place, single, "kto");
    check_ranks(&place, single, "kto");
    options.model = out;
    options.resume = true;
    options.steps = STEPS + 1;
    hil_train_result result;
    CHECK_FAILS(hil_train(&options, NULL, &result), HIL_ERR_USAGE, "cannot resume");
    job_end(&place);
    return 0;
}
