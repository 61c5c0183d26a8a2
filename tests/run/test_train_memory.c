/* Whichever allocation of a run fails, it ends with an error and can be repeated; a step allocates
   nothing once it has run twice. */
/* soak: --full */
#include "job.h"

static hil_train_options tiny(job_place *place, const char *out)
{
    hil_train_options options = job_options(place, "gpt2_untied", out);
    options.seq = 8;
    options.batch = 2;
    options.micro_batch = 1;
    options.steps = 2;
    options.save_every = 1;
    options.eval_fraction = 0.01;
    options.dtype = "bf16";
    options.report = false; /* its thread's allocations end no run */
    return options;
}

static void fail_each_in_training(job_place *place, long stride)
{
    char out[JOB_PATH], path[JOB_PATH];
    hil_train_result result;
    hil_train_options options = tiny(place, job_path(place, out, "memory"));
    long before = hil_alloc_count();
    job_train(&options);
    long total = hil_alloc_count() - before;
    printf("a run of two steps makes %ld allocations\n", total);
    CHECK(total > 100);
    for (long n = 1; n <= total; n += stride) {
        options.overwrite = n % 2 == 1;
        options.resume = !options.overwrite;
        if (options.overwrite)
            CHECK_OK(hil_file_remove_tree(job_path(place, path, "memory/cache")));
        hil_alloc_fail_at(n);
        hil_status status = hil_train(&options, NULL, &result);
        hil_alloc_fail_at(0);
        if (options.resume && status == HIL_OK) continue; /* had less to do */
        if (status != HIL_ERR_MEMORY) printf("allocation %ld of %ld\n", n, total);
        CHECK_FAILS(status, HIL_ERR_MEMORY, "out of memory");
    }
    options.overwrite = true;
    options.resume = false;
    options.out = job_path(place, path, "memory");
    job_train(&options);
    options.out = job_path(place, path, "undisturbed");
    job_train(&options);
    CHECK(job_same(out, path));
}

static int ignore(void *context, const char *text, size_t size)
{
    (void)context;
    (void)text;
    return size == 0;
}

static void fail_each_in_reading(job_place *place, long stride)
{
    hil_train_options model = job_options(place, "gpt2_untied", NULL);
    hil_eval_options eval = job_eval_options(place);
    hil_eval_result loss;
    hil_generate_options generate;
    hil_generate_result text;
    eval.seq = 16;
    hil_generate_defaults(&generate);
    generate.model = model.model;
    generate.prompt = "\x01\x02";
    generate.tokenizer = "bytes";
    generate.max_tokens = 4;
    generate.threads = 1;
    generate.write = ignore;
    for (int job = 0; job < 2; ++job) {
        hil_status status = HIL_ERR_MEMORY;
        for (long n = 1; status != HIL_OK; n += stride) {
            CHECK(n < 100000);
            hil_alloc_fail_at(n);
            status = job ? hil_generate(&generate, &text) : hil_eval(&eval, NULL, &loss);
            hil_alloc_fail_at(0);
            if (status != HIL_OK) CHECK_FAILS(status, HIL_ERR_MEMORY, "out of memory");
        }
    }
}

static void check_steady(const char *model, const char *dtype, bool recompute)
{
    hil_trainer_options options;
    hil_trainer_defaults(&options);
    options.dtype = dtype;
    options.recompute = recompute;
    options.threads = 2;
    golden_run run = golden_start(model, &options);
    int64_t count;
    int32_t *tokens = golden_ints(run.golden, "tokens", &count);
    long before = 0;
    for (int s = 0; s < 5; ++s) {
        if (s == 2) before = hil_alloc_count();
        hil_batch batch = golden_batch(tokens, s);
        hil_step_result result;
        CHECK_OK(hil_trainer_step(run.trainer, &batch, 2, 1e-3, &result));
    }
    CHECK_INT(hil_alloc_count() - before, 0);
    hil_free(tokens);
    golden_stop(&run);
}

int main(int count, char **arguments)
{
    long stride = count > 1 && strcmp(arguments[1], "--full") == 0 ? 1 : 7;
    job_place place;
    job_begin(&place);
    check_steady("llama3", "fp32", false);
    check_steady("gpt2", "bf16", true);
    fail_each_in_training(&place, stride);
    fail_each_in_reading(&place, stride);
    job_end(&place);
    return 0;
}
