/* links.c - queues of jobs, fences and the account; an engine executes or rehearses the jobs. */
#include "tier/links_engine.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>

/* One thread makes all calls of a rehearsal. */
static void lock(hil_links *links)
{
    if (links->engine != &hil_links_virtual) pthread_mutex_lock(&links->lock);
}

static void unlock(hil_links *links)
{
    if (links->engine != &hil_links_virtual) pthread_mutex_unlock(&links->lock);
}

uint64_t hil_job_bytes(const hil_job *job, hil_part_kind kind)
{
    uint64_t bytes = 0;
    for (int i = 0; i < job->parts; ++i)
        if (job->part[i].kind == kind) bytes += job->part[i].bytes;
    return bytes;
}

bool hil_job_to_device(const hil_job *job)
{
    bool in = job->link == HIL_LINK_IN || job->link == HIL_LINK_BACK || job->link == HIL_LINK_WRITE;
    return in != job->reversed;
}

bool hil_links_retired(const hil_links *links, const hil_fence *fence)
{
    for (int i = 0; i < HIL_LINKS; ++i)
        if (links->queue[i].retired < fence->after[i]) return false;
    return true;
}

void hil_links_retire(hil_links *links, const hil_job *job, double start, double end)
{
    ++links->queue[job->link].retired;
    links->account.busy[job->link] += end - start;
    if (!links->timeline) return;
    uint64_t bytes = job->bytes;
    for (int i = 0; i < job->parts; ++i) bytes += job->part[i].bytes;
    hil_timeline_add(links->timeline, (int)job->link, job->name ? job->name : "transfer", start,
                     end, bytes);
}

/* Joins to `covers` every job whose completion the fence's completion implies. */
static void join_covers(const hil_links *links, const hil_fence *fence, hil_fence *covers)
{
    for (int i = 0; i < HIL_LINKS; ++i) {
        const hil_queue *queue = &links->queue[i];
        assert(fence->after[i] <= queue->submitted);
        if (fence->after[i] > queue->known)
            hil_fence_join(covers, &hil_queue_at(queue, fence->after[i])->covers);
    }
}

/* The caller waited for or followed `fence`: see [Note: known]. */
static void set_known(hil_links *links, const hil_fence *fence)
{
    hil_fence covers = *fence;
    join_covers(links, fence, &covers);
    for (int i = 0; i < HIL_LINKS; ++i)
        if (links->queue[i].known < covers.after[i]) links->queue[i].known = covers.after[i];
}

/* Makes room for one more job. */
static hil_status queue_reserve(hil_queue *queue)
{
    if (queue->submitted - queue->known < queue->capacity) return HIL_OK;
    hil_queue grown = {.capacity = queue->capacity ? 2 * queue->capacity : 16};
    HIL_TRY(HIL_ALLOC(grown.capacity, &grown.ring));
    for (uint64_t n = queue->known + 1; n <= queue->submitted; ++n)
        *hil_queue_at(&grown, n) = *hil_queue_at(queue, n);
    hil_free(queue->ring);
    queue->ring = grown.ring;
    queue->capacity = grown.capacity;
    return HIL_OK;
}

static void account_add(hil_account *account, const hil_job *job)
{
    uint64_t copied = hil_job_bytes(job, HIL_PART_COPY);
    uint64_t read = hil_job_bytes(job, HIL_PART_READ), written = hil_job_bytes(job, HIL_PART_WRITE);
    account->bytes[job->link] += copied + read + written + job->bytes;
    account->disk_read += read;
    account->disk_written += written;
    if (hil_job_to_device(job))
        account->to_device += copied;
    else
        account->to_host += copied;
}

/* Adds a mark after all compute issued so far. It covers only itself: fences that compute follows
   are known already. `reason` as in hil_links_record. */
static hil_status mark(hil_links *links, int reason, uint64_t *number)
{
    hil_queue *queue = &links->queue[HIL_LINK_COMPUTE];
    HIL_TRY(queue_reserve(queue));
    HIL_TRY(hil_links_record(links, reason));
    hil_queued *queued = hil_queue_at(queue, ++queue->submitted);
    *number = ++queue->started;
    queued->covers = (hil_fence){0};
    queued->covers.after[HIL_LINK_COMPUTE] = *number;
    links->engine->submitted(links, HIL_LINK_COMPUTE);
    return HIL_OK;
}

/* FETCH and STASH use only the ring; other links copy between it and the device. */
static bool follows_compute(hil_link link)
{
    return link != HIL_LINK_FETCH && link != HIL_LINK_STASH;
}

static_assert(offsetof(hil_job, part) + sizeof((hil_job *)0)->part == sizeof(hil_job),
              "the parts are the last field: submit copies a job up to its last part in use");

static hil_status submit(hil_links *links, const hil_job *job, hil_fence *fence)
{
    hil_queue *queue = &links->queue[job->link];
    hil_fence before = job->after, covers = {0};
    HIL_TRY(queue_reserve(queue));
    if (links->device && !job->marked && follows_compute(job->link))
        HIL_TRY(mark(links, -1, &before.after[HIL_LINK_COMPUTE]));
    uint64_t n = queue->submitted + 1;
    hil_queued *queued = hil_queue_at(queue, n);
    memcpy(&queued->job, job, offsetof(hil_job, part) + (size_t)job->parts * sizeof *job->part);
    queued->job.after = before;
    if (before.after[job->link] < queue->submitted) before.after[job->link] = queue->submitted;
    join_covers(links, &before, &covers);
    covers.after[job->link] = n;
    queued->covers = covers;
    for (int i = 0; i < job->parts; ++i)
        if (job->part[i].kind != HIL_PART_COPY) queued->extent[i] = *job->part[i].disk;
    queue->submitted = n;
    account_add(&links->account, job);
    if (fence && fence->after[job->link] < n) fence->after[job->link] = n;
    links->engine->submitted(links, job->link);
    return HIL_OK;
}

hil_status hil_links_submit(hil_links *links, const hil_job *job, hil_fence *fence)
{
    assert(job->parts >= 0 && job->parts <= HIL_JOB_PARTS);
    lock(links);
    hil_status status = submit(links, job, fence);
    unlock(links);
    return status;
}

hil_status hil_links_mark(hil_links *links, hil_fence *fence)
{
    if (!links->device) return HIL_OK;
    lock(links);
    hil_status status = mark(links, -1, &fence->after[HIL_LINK_COMPUTE]);
    unlock(links);
    return status;
}

/* Whether the caller waited for or followed all of the fence before. Lock held. */
static bool is_known(const hil_links *links, const hil_fence *fence)
{
    bool new = false;
    for (int i = 0; i < HIL_LINKS; ++i) new |= fence->after[i] > links->queue[i].known;
    return !new;
}

/* Lock held. What is known has ended, except on a device, which may only have been told to wait. */
static hil_status wait_for(hil_links *links, const hil_fence *fence, double *seconds)
{
    *seconds = 0;
    if (links->device || !is_known(links, fence)) {
        if (!hil_links_retired(links, fence)) *seconds = links->engine->wait(links, fence);
        set_known(links, fence);
    }
    return links->status == HIL_OK ? HIL_OK : hil_fail(links->status, "%s", links->message);
}

/* Lock held. The stall is measured between the mark before and the mark after the wait. */
static hil_status follow(hil_links *links, const hil_fence *fence, hil_wait_reason reason)
{
    bool new = !is_known(links, fence);
    uint64_t number;
    if (new) HIL_TRY(mark(links, -1, &number));
    hil_status status = hil_links_follow_streams(links, fence);
    if (status == HIL_OK && new) status = mark(links, (int)reason, &number);
    set_known(links, fence);
    if (links->status != HIL_OK) return hil_fail(links->status, "%s", links->message);
    return status;
}

const char *const hil_links_wait_name[HIL_WAITS] = {"weights", "update", "activations", "gradients",
                                                    "memory"};

void hil_links_account_wait(hil_links *links, hil_wait_reason reason, double seconds, double end)
{
    links->account.wait[reason] += seconds;
    if (links->timeline && seconds > 0)
        hil_timeline_add(links->timeline, HIL_TRACK_WAIT, hil_links_wait_name[reason],
                         end - seconds, end, 0);
}

hil_status hil_links_wait(hil_links *links, const hil_fence *fence, hil_wait_reason reason)
{
    double seconds;
    lock(links);
    hil_status status = wait_for(links, fence, &seconds);
    hil_links_account_wait(links, reason, seconds, links->engine->now(links));
    unlock(links);
    return status;
}

hil_status hil_links_follow(hil_links *links, const hil_fence *fence, hil_wait_reason reason)
{
    if (!links->device) return hil_links_wait(links, fence, reason);
    lock(links);
    hil_status status = follow(links, fence, reason);
    unlock(links);
    return status;
}

hil_status hil_links_drain(hil_links *links)
{
    hil_fence all;
    double seconds;
    uint64_t number;
    lock(links);
    hil_status marked = links->device ? mark(links, -1, &number) : HIL_OK;
    for (int i = 0; i < HIL_LINKS; ++i) all.after[i] = links->queue[i].submitted;
    hil_status status = wait_for(links, &all, &seconds);
    unlock(links);
    return status == HIL_OK ? marked : status;
}

void hil_links_set_failed(hil_links *links, void (*failed)(void *context, hil_status status),
                          void *context)
{
    lock(links);
    links->failed = failed;
    links->failed_context = context;
    unlock(links);
}

void hil_links_set_ready(hil_links *links, hil_memory_ready *ready, void *context)
{
    lock(links);
    links->ready = ready;
    links->ready_context = context;
    unlock(links);
}

void hil_links_extend(hil_links *links, const char *device_base, size_t bytes)
{
    lock(links);
    links->more_base = device_base;
    links->more_bytes = bytes;
    unlock(links);
}

bool hil_links_over(hil_links *links, const hil_fence *fence)
{
    lock(links);
    bool over = hil_links_retired(links, fence);
    unlock(links);
    return over;
}

void hil_links_compute(hil_links *links, double seconds)
{
    lock(links);
    links->engine->compute(links, seconds);
    unlock(links);
}

double hil_links_now(const hil_links *links)
{
    return links->engine->now(links);
}

void hil_links_take_account(hil_links *links, hil_account *out)
{
    lock(links);
    *out = links->account;
    links->account = (hil_account){0};
    unlock(links);
}

void hil_links_set_timeline(hil_links *links, struct hil_timeline *timeline)
{
    lock(links);
    links->timeline = timeline;
    unlock(links);
}

hil_status hil_links_create(hil_links **out, const hil_links_options *options)
{
    *out = NULL;
    hil_links *links;
    HIL_TRY(HIL_ALLOC(1, &links));
    links->disk = options->disk;
    links->engine = options->speeds ? &hil_links_virtual : &hil_links_threads;
    if (options->speeds) links->speeds = *options->speeds;
    if (!options->speeds) links->device = options->device;
    links->device_base = options->device_base;
    links->device_bytes = options->device_bytes;
    pthread_mutex_init(&links->lock, NULL);
    hil_status status = links->engine->create(links);
    if (status == HIL_OK)
        *out = links;
    else
        hil_links_destroy(links);
    return status;
}

void hil_links_destroy(hil_links *links)
{
    if (!links) return;
    links->engine->destroy(links);
    for (int i = 0; i < HIL_LINKS; ++i) hil_free(links->queue[i].ring);
    pthread_mutex_destroy(&links->lock);
    hil_free(links);
}
