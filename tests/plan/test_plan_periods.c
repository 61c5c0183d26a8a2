/* Steps of many micro-batches: the rehearsal runs only a few of them, and its predictions are still
   exact to the byte. Renewals of the window change no bit. */
#include "plans.h"

#define STEPS 4
#define BATCH 45

typedef struct budgets {
    const char *model, *dtype;
    int64_t micro_batch, group; /* group 0: as planned */
    int64_t device, host;       /* KiB */
} budgets;

static hil_train_options options_of(job_place *place, const budgets *b, const char *out)
{
    hil_train_options options = job_options(place, b->model, out);
    options.overwrite = true;
    options.steps = STEPS;
    options.batch = BATCH;
    options.dtype = b->dtype;
    options.micro_batch = b->micro_batch;
    return options;
}

/* Returns whether weights moved. */
static bool check_run(job_place *place, const budgets *b)
{
    char out[JOB_PATH], whole[JOB_PATH], drive[JOB_PATH], file[JOB_PATH], what[128];
    hil_train_options free = options_of(place, b, job_path(place, whole, "whole"));
    hil_train_options options = options_of(place, b, job_path(place, out, "run"));
    hil_disk_budget disk = {job_path(place, drive, "drive"), 16 << 20};
    options.memory.device = (uint64_t)b->device * 1024;
    options.memory.host = (uint64_t)b->host * 1024;
    options.memory.disks = &disk;
    options.memory.disk_count = 1;
    json_t *plan = plan_of(&options);
    if (b->group) {
        json_t *segment;
        size_t i;
        plan_set(plan, "group", b->group);
        json_array_foreach(json_object_get(plan, "segments"), i, segment)
        {
            plan_set(segment, "keep", 0);
            plan_set(segment, "lean", 0);
        }
        options.memory.device *= 2; /* the window stays as it is */
        plan = plan_again(plan, job_path(place, file, "plan.json"), &options);
    }
    job_train(&options);
    snprintf(what, sizeof what, "%s %s, groups of %lld in %lldK and %lldK", b->model, b->dtype,
             (long long)b->group, (long long)b->device, (long long)b->host);
    plan_check_run(plan, &options, 2, what);
    bool moves = plan_number(plan, "bytes_per_step", "to_device") > 0;
    json_decref(plan);
    double got[STEPS], expected[STEPS];
    job_train(&free);
    CHECK_INT(job_metrics(out, "loss", got, STEPS), STEPS);
    CHECK_INT(job_metrics(whole, "loss", expected, STEPS), STEPS);
    for (int s = 0; s < STEPS; ++s) CHECK(got[s] == expected[s]);
    return moves;
}

int main(void)
{
    static const budgets all[] = {
        {"gpt2", "fp32", 1, 0, 400, 900},  {"gpt2", "bf16", 1, 1, 250, 700},
        {"gpt2", "fp32", 2, 4, 400, 900},  {"llama", "fp32", 1, 1, 300, 900},
        {"llama", "bf16", 1, 9, 400, 700}, {"llama", "fp32", 1, 0, 250, 500},
    };
    job_place place;
    char drive[JOB_PATH];
    job_begin(&place);
    CHECK_OK(hil_dir_create(job_path(&place, drive, "drive")));
    int moving = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i) moving += check_run(&place, &all[i]);
    CHECK(moving >= 4);
    job_end(&place);
    return 0;
}
