/* A plan's predictions are exact to the byte: the peak of every tier in every step, and the bytes
   over every link in every step after the second. No peak exceeds its budget. */
#include "plans.h"

#define STEPS 6

typedef struct budgets {
    const char *model, *dtype;
    int64_t micro_batch;
    int64_t device, host; /* KiB */
    uint64_t tile_size;
    bool prefetch_off, between; /* evaluations and checkpoints between the steps */
    const char *tapes;          /* not NULL: all tapes are lean, every other one thin, and offloaded
                                   to this tier */
    const char *pairs;          /* the loss, of pairs of answers as data */
} budgets;

/* Number of lean tapes over all segments. */
static int64_t count_lean(const json_t *plan)
{
    const json_t *segment;
    int64_t lean = 0;
    size_t i;
    json_array_foreach(json_object_get(plan, "segments"), i, segment) lean +=
        json_integer_value(json_object_get(segment, "lean"));
    return lean;
}

static void set_tapes(json_t *plan, const char *tier)
{
    json_t *segment;
    size_t i;
    json_array_foreach(json_object_get(plan, "segments"), i, segment)
    {
        plan_set(segment, "keep", 0);
        plan_set(segment, "lean", plan_number(plan, "", "group"));
        plan_set_text(segment, "tapes", tier);
        CHECK(json_object_set_new(segment, "thin", json_boolean(i % 2)) == 0);
    }
}

static int64_t check_run(job_place *place, const budgets *b)
{
    char out[JOB_PATH], drive[JOB_PATH], file[JOB_PATH], what[128];
    hil_train_options options = job_options(place, b->model, job_path(place, out, "run"));
    hil_disk_budget disk = {job_path(place, drive, "drive"), 16 << 20};
    options.overwrite = true;
    options.steps = STEPS;
    options.dtype = b->dtype;
    options.micro_batch = b->micro_batch;
    options.memory.device = (uint64_t)b->device * 1024;
    options.memory.host = (uint64_t)b->host * 1024;
    options.memory.disks = &disk;
    options.memory.disk_count = 1;
    options.prefetch = !b->prefetch_off;
    if (b->tile_size) options.tile_size = b->tile_size;
    if (b->pairs) job_pairs(place, &options, b->pairs);
    if (b->between) {
        options.eval_fraction = 0.3;
        options.eval_every = 2;
        options.save_every = 3;
    }
    json_t *plan = plan_of(&options);
    if (b->tapes) {
        set_tapes(plan, b->tapes);
        plan = plan_again(plan, job_path(place, file, "plan.json"), &options);
    }
    job_train(&options);
    CHECK(plan_number(plan, "peak", "device") <= b->device * 1024);
    CHECK(plan_number(plan, "peak", "host") <= b->host * 1024);
    snprintf(what, sizeof what, "%s %s in %lldK and %lldK", b->model, b->dtype,
             (long long)b->device, (long long)b->host);
    plan_check_run(plan, &options, 0, what);
    int64_t lean = count_lean(plan);
    json_decref(plan);
    return lean;
}

int main(void)
{
    static const budgets all[] = {
        {"gpt2", "fp32", 1, 4096, 3072, 0, false, false, NULL, NULL},
        {"gpt2", "fp32", 1, 400, 700, 0, false, false, NULL, NULL},
        {"gpt2", "bf16", 1, 250, 500, 0, false, true, NULL, NULL},
        {"gpt2", "fp16", 2, 250, 500, 0, true, false, NULL, NULL},
        {"gpt2", "fp32", 1, 200, 400, 0, false, true, NULL, NULL},
        {"gpt2", "bf16", 1, 200, 400, 2000, false, false, NULL, NULL},
        {"llama", "fp32", 1, 300, 700, 0, false, true, NULL, NULL},
        {"llama", "bf16", 1, 250, 300, 0, false, false, NULL, NULL},
        {"llama", "bf16", 4, 400, 300, 2000, true, true, NULL, NULL},
        {"llama", "fp32", 1, 200, 300, 2000, false, false, NULL, NULL},
        {"gpt2", "bf16", 1, 250, 3072, 0, false, true, "host", NULL},
        {"llama", "fp32", 1, 400, 3072, 0, false, false, "host", NULL},
        {"llama", "bf16", 2, 400, 700, 2000, true, false, "disk", NULL},
        {"llama", "fp32", 1, 4096, 3072, 0, false, true, NULL, "dpo"},
        {"llama", "bf16", 1, 200, 300, 2000, false, true, NULL, "ipo"},
        {"gpt2", "fp32", 2, 300, 400, 0, true, false, NULL, "dpo"},
        {"gpt2", "bf16", 1, 250, 3072, 0, false, false, "host", "apo_zero"},
        {"llama", "bf16", 1, 250, 300, 0, false, true, NULL, "orpo"},
        {"gpt2", "fp32", 2, 400, 700, 2000, false, false, NULL, "simpo"},
        {"llama", "bf16", 1, 250, 300, 0, false, true, NULL, "kto"},
        {"gpt2", "fp32", 2, 400, 700, 2000, true, false, NULL, "kto"},
        {"llama", "fp8", 1, 250, 300, 0, false, true, NULL, NULL},
        {"gpt2", "fp8", 2, 300, 400, 2000, false, false, NULL, NULL},
    };
    job_place place;
    char drive[JOB_PATH];
    job_begin(&place);
    CHECK_OK(hil_dir_create(job_path(&place, drive, "drive")));
    int64_t lean = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i) lean += check_run(&place, &all[i]);
    CHECK(lean > 0);
    job_end(&place);
    return 0;
}
