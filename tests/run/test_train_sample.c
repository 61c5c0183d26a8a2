/* Samples of text: the line for the terminal has no control characters, a run that was asked to
   stop makes no further sample, and a sample without memory for its text fails the run. */
#include "job.h"

typedef struct seen {
    long fail_at; /* the allocation of a sample that fails; 0: none */
    int stop_at;  /* the step after which the run is asked to stop; 0: none */
    volatile int stop;
    long count; /* allocations made before the sample */
    int samples;
    char line[512];
} seen;

static void see_step(void *context, const hil_step_report *report)
{
    seen *s = context;
    if (report->step == s->stop_at) s->stop = 1;
    s->count = hil_alloc_count();
    hil_alloc_fail_at(s->fail_at);
}

static void see_note(void *context, const char *line)
{
    seen *s = context;
    if (!strstr(line, ": sample: ")) return;
    hil_alloc_fail_at(0);
    s->count = hil_alloc_count() - s->count;
    ++s->samples;
    CHECK(strlen(line) < sizeof s->line);
    memcpy(s->line, line, strlen(line) + 1);
}

static hil_status train(job_place *place, int64_t steps, const char *prompt, seen *s)
{
    char data[JOB_PATH], out[JOB_PATH];
    const char *const names[] = {job_path(place, data, "text.txt")};
    hil_observer observer = {.context = s, .note = see_note, .step = see_step};
    hil_train_result result;
    hil_train_options options = job_options(place, "llama", job_path(place, out, "run"));
    options.data = names;
    options.tokenizer = "bytes";
    options.steps = steps;
    options.seq = 8;
    options.batch = 1;
    options.keep = 0;
    options.overwrite = true;
    options.report = false; /* its thread allocates too */
    options.sample_every = 1;
    options.sample_prompt = prompt;
    options.stop = &s->stop;
    hil_status status = hil_train(&options, &observer, &result);
    hil_alloc_fail_at(0);
    return status;
}

int main(void)
{
    char data[JOB_PATH], text[1000];
    long n = 0;
    job_place place;
    hil_status status;
    job_begin(&place);
    memset(text, 'a', sizeof text);
    CHECK_OK(hil_file_write(job_path(&place, data, "text.txt"), text, sizeof text));

    seen plain = {0};
    CHECK_OK(train(&place, 2,
                   "a\x1b[1m\xc2\x9b"
                   "2m\xc2\xa0\xc3\x9b\x7f.",
                   &plain));
    CHECK_INT(plain.samples, 2);
    CHECK(strstr(plain.line, "step 2: sample: a [1m  2m\xc2\xa0\xc3\x9b .") == plain.line);
    for (const char *at = plain.line; *at; ++at)
        CHECK(strncmp(at, "\xc2", 1) != 0 || (unsigned char)at[1] >= 0xa0);

    seen stopped = {.stop_at = 2};
    CHECK_FAILS(train(&place, 4, "a", &stopped), HIL_ERR_INTERRUPTED, "stopped after step 2");
    CHECK_INT(stopped.samples, 1);

    do {
        seen without = {.fail_at = ++n};
        status = train(&place, 1, "a", &without);
        if (status != HIL_OK) CHECK_INT(status, HIL_ERR_MEMORY);
        CHECK_INT(without.samples, status == HIL_OK);
        if (status == HIL_OK) CHECK(without.count < n);
    } while (status != HIL_OK);
    printf("%ld allocations of a sample failed\n", n - 1);
    CHECK(n > 3);
    job_end(&place);
    return 0;
}
