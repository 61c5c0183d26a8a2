/* --trace: the timeline of a run tells the same story as its account. */
#include "job.h"
#include "../tier/trace.h"

#define STEPS 3

/* Embedding, two blocks and the head, which runs once; two micro-batches. */
static void check_compute(job_place *place, bool recompute)
{
    char out[JOB_PATH], path[JOB_PATH];
    hil_train_options options =
        job_options(place, "llama3", job_path(place, out, recompute ? "again" : "kept"));
    options.trace = job_path(place, path, "trace.json");
    options.steps = STEPS;
    options.micro_batch = options.batch / 2;
    options.recompute = recompute;
    hil_train_result result = job_train(&options);
    trace told = trace_read(path);
    const trace_track *compute = &told.track[HIL_TRACK_COMPUTE];
    CHECK_INT(compute->forward, STEPS * 2 * 4);
    CHECK_INT(compute->backward, STEPS * 2 * 4);
    CHECK_INT(compute->recompute, recompute ? STEPS * 2 * 3 : 0);
    CHECK(compute->seconds > 0 && compute->seconds <= result.seconds);
}

int main(void)
{
    job_place place;
    job_begin(&place);
    check_compute(&place, false);
    check_compute(&place, true);
    job_end(&place);
    return 0;
}
