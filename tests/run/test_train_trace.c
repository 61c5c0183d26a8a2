/* --trace: the timeline of a run agrees with its account. */
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

static double sum(const trace *t, const hil_link *link, int count)
{
    double bytes = 0;
    for (int i = 0; i < count; ++i) bytes += (double)t->track[link[i]].bytes;
    return bytes;
}

/* Within budgets: what the account counts is on the timeline, which goes on between the steps. */
static void check_links(job_place *place)
{
    static const hil_link reads[] = {HIL_LINK_FETCH, HIL_LINK_READ};
    static const hil_link writes[] = {HIL_LINK_STASH, HIL_LINK_WRITE};
    char out[JOB_PATH], path[JOB_PATH];
    hil_disk_budget disk = {place->folder, (uint64_t)16 << 20};
    hil_train_options options = job_options(place, "llama3", job_path(place, out, "moved"));
    options.trace = job_path(place, path, "trace.json");
    options.steps = STEPS;
    options.micro_batch = options.batch / 2;
    options.memory.device = 300 << 10;
    options.memory.host = 300 << 10;
    options.memory.disks = &disk;
    options.memory.disk_count = 1;
    hil_train_result result = job_train(&options);
    const hil_step_account *a = &result.account;
    trace told = trace_read(path);
    CHECK(a->device_peak > 0 && a->device_peak <= options.memory.device);
    CHECK(a->host_peak > 0 && a->host_peak <= options.memory.host);
    CHECK(a->disk_peak > 0 && a->disk_peak <= disk.bytes);
    CHECK(a->disk_read_bytes > 0 && a->disk_written_bytes > 0 && a->to_device_bytes > 0);
    CHECK(sum(&told, reads, 2) >= (double)a->disk_read_bytes);
    CHECK(sum(&told, writes, 2) >= (double)a->disk_written_bytes);
    CHECK(told.wait[HIL_WAIT_WEIGHTS] >= a->wait_seconds.weights - 1e-4);
    CHECK(told.wait[HIL_WAIT_UPDATE] >= a->wait_seconds.update - 1e-4);
    CHECK(told.wait[HIL_WAIT_GRADIENTS] >= a->wait_seconds.gradients - 1e-4);
    CHECK(told.wait[HIL_WAIT_ACTIVATIONS] >= a->wait_seconds.activations - 1e-4);
    CHECK(told.wait[HIL_WAIT_MEMORY] >= a->wait_seconds.memory - 1e-4);
}

int main(void)
{
    job_place place;
    job_begin(&place);
    check_compute(&place, false);
    check_compute(&place, true);
    check_links(&place);
    job_end(&place);
    return 0;
}
