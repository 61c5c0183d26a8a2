/* links_streams.c - jobs on the streams of a device, ordered by events, and marks in its compute
   stream. */
#include "tier/links_threads.h"

#include "base/clock.h"

#define STALL_MIN 5e-5 /* seconds between marks: less is only the latency of waking a thread */

hil_stream hil_link_stream(hil_link link)
{
    switch (link) {
    case HIL_LINK_IN:
        return HIL_STREAM_IN;
    case HIL_LINK_BACK:
        return HIL_STREAM_BACK;
    case HIL_LINK_OUT:
        return HIL_STREAM_OUT;
    case HIL_LINK_READ:
        return HIL_STREAM_READ;
    case HIL_LINK_UPDATE:
        return HIL_STREAM_UPDATE;
    case HIL_LINK_WRITE:
        return HIL_STREAM_WRITE;
    case HIL_LINK_GATHER:
        return HIL_STREAM_GATHER;
    case HIL_LINK_REDUCE:
        return HIL_STREAM_REDUCE;
    default:
        return HIL_STREAMS;
    }
}

static bool in_arena(const hil_links *links, const void *memory)
{
    uintptr_t offset = (uintptr_t)memory - (uintptr_t)links->device_base;
    uintptr_t more = (uintptr_t)memory - (uintptr_t)links->more_base;
    return offset < links->device_bytes || more < links->more_bytes;
}

bool hil_part_streams(const hil_links *links, const hil_part *part)
{
    return part->kind == HIL_PART_COPY && links->device &&
           (in_arena(links, part->to) || in_arena(links, part->from));
}

bool hil_job_streams(const hil_links *links, const hil_job *job)
{
    if (!links->device || hil_link_stream(job->link) == HIL_STREAMS) return false;
    for (int i = 0; i < job->parts; ++i)
        if (!hil_part_streams(links, &job->part[i])) return false;
    return job->run ? job->queues : job->parts > 0;
}

/* The place of the end of job or mark n of a link; NULL: complete, and its place was reused. */
static hil_place *place_of(const hil_links *links, hil_link link, uint64_t n)
{
    hil_link_runners *all = links->state;
    const hil_queue *queue = &links->queue[link];
    uint64_t places = link == HIL_LINK_COMPUTE ? HIL_MARKS : HIL_LINK_FLIGHTS;
    if (n == 0 || queue->started >= n + places) return NULL;
    if (link == HIL_LINK_COMPUTE) return &all->mark[(n - 1) % HIL_MARKS];
    return &all->runner[link].flight[(n - 1) % HIL_LINK_FLIGHTS].end;
}

bool hil_fence_given(const hil_links *links, const hil_fence *fence)
{
    const hil_link_runners *all = links->state;
    for (int i = 0; i < HIL_LINKS; ++i) {
        const hil_link_runner *c = &all->runner[i];
        uint64_t n = fence->after[i], retired = links->queue[i].retired;
        if (n <= retired || i == HIL_LINK_COMPUTE) continue;
        if (n > c->issued) return false;
        for (uint64_t m = retired; m < n; ++m)
            if (!c->flight[m % HIL_LINK_FLIGHTS].queued.streams) return false;
    }
    return true;
}

void hil_dependencies_begin(hil_links *links, const hil_fence *fence, hil_fence *followed,
                            hil_dependencies *out)
{
    out->count = 0;
    for (int i = 0; i < HIL_LINKS; ++i) {
        uint64_t n = fence->after[i];
        if (n <= followed->after[i]) continue;
        followed->after[i] = n;
        if (n <= links->queue[i].retired) continue;
        hil_place *place = place_of(links, (hil_link)i, n);
        ++place->users;
        out->place[out->count++] = place;
    }
}

void hil_dependencies_end(hil_links *links, const hil_dependencies *dependencies)
{
    hil_link_runners *all = links->state;
    bool last = false;
    for (int i = 0; i < dependencies->count; ++i) last |= --dependencies->place[i]->users == 0;
    for (int i = 0; i < HIL_LINKS && last; ++i) pthread_cond_signal(&all->runner[i].issue);
}

static hil_status follow_all(const hil_links *links, hil_stream stream,
                             const hil_dependencies *dependencies)
{
    hil_device *device = links->device;
    for (int i = 0; i < dependencies->count; ++i)
        HIL_TRY(device->events->follow(device, stream, dependencies->place[i]->event));
    return HIL_OK;
}

static hil_status queue_parts(const hil_link_runner *c, const hil_job *job)
{
    const hil_links *links = c->links;
    hil_device *device = links->device;
    for (int i = 0; i < job->parts; ++i) {
        const hil_part *part = &job->part[i];
        if (!hil_part_streams(links, part)) continue;
        if (links->ready) {
            HIL_TRY(links->ready(links->ready_context, part->from, part->bytes));
            HIL_TRY(links->ready(links->ready_context, part->to, part->bytes));
        }
        HIL_TRY(device->queue->copy(device, c->stream, part->to, part->from, part->bytes));
    }
    return job->run && job->queues ? job->run(job->context, job->index) : HIL_OK;
}

hil_status hil_flight_queue(hil_link_runner *c, hil_flight *flight,
                            const hil_dependencies *dependencies)
{
    hil_device *device = c->links->device;
    HIL_TRY(follow_all(c->links, c->stream, dependencies));
    hil_status queued = queue_parts(c, &flight->queued.job);
    /* Also after a failure: parts that were queued before it still use memory. */
    hil_status status = device->events->record(device, c->stream, flight->end.event);
    flight->recorded = status == HIL_OK;
    return queued == HIL_OK ? status : queued;
}

double hil_flight_free(const hil_links *links, const hil_flight *flight)
{
    double last = 0;
    for (int i = 0; i < HIL_LINKS; ++i) {
        const hil_place *place = place_of(links, (hil_link)i, flight->queued.job.after.after[i]);
        if (place && place->over > last) last = place->over;
    }
    return last;
}

hil_status hil_links_record(hil_links *links, int reason)
{
    hil_link_runners *all = links->state;
    hil_device *device = links->device;
    uint64_t marks = links->queue[HIL_LINK_COMPUTE].submitted;
    hil_fence room = {0};
    if (marks >= HIL_MARKS) room.after[HIL_LINK_COMPUTE] = marks + 1 - HIL_MARKS;
    if (!hil_links_retired(links, &room)) (void)hil_links_sleep(links, &room, false);
    hil_event *event = all->mark[marks % HIL_MARKS].event;
    all->mark[marks % HIL_MARKS].reason = reason;
    pthread_mutex_unlock(&links->lock);
    hil_status status = device->events->record(device, HIL_STREAM_COMPUTE, event);
    pthread_mutex_lock(&links->lock);
    return status;
}

hil_status hil_links_follow_streams(hil_links *links, const hil_fence *fence)
{
    hil_link_runners *all = links->state;
    hil_dependencies dependencies;
    if (!hil_fence_given(links, fence)) (void)hil_links_sleep(links, fence, true);
    hil_fence before = *fence;
    before.after[HIL_LINK_COMPUTE] = 0; /* the compute stream is in order */
    hil_dependencies_begin(links, &before, &all->runner[HIL_LINK_COMPUTE].followed, &dependencies);
    if (!dependencies.count) return HIL_OK;
    pthread_mutex_unlock(&links->lock);
    hil_status status = follow_all(links, HIL_STREAM_COMPUTE, &dependencies);
    pthread_mutex_lock(&links->lock);
    hil_dependencies_end(links, &dependencies);
    return status;
}

void *hil_streams_retire_marks(void *argument)
{
    hil_link_runner *c = argument;
    hil_links *links = c->links;
    hil_link_runners *all = links->state;
    hil_device *device = links->device;
    hil_queue *queue = &links->queue[HIL_LINK_COMPUTE];
    double before = 0; /* when the previous mark was complete */
    pthread_mutex_lock(&links->lock);
    while (!all->stopping || queue->retired < queue->submitted) {
        if (queue->retired == queue->submitted) {
            pthread_cond_wait(&c->issue, &links->lock);
            continue;
        }
        hil_place *place = &all->mark[queue->retired % HIL_MARKS];
        pthread_mutex_unlock(&links->lock);
        hil_status status = device->events->wait(device, place->event);
        if (status != HIL_OK) hil_links_keep_failure(links, status);
        double end = hil_clock_now();
        pthread_mutex_lock(&links->lock);
        while (place->users) pthread_cond_wait(&c->issue, &links->lock);
        if (place->reason >= 0 && end - before > STALL_MIN)
            hil_links_account_wait(links, (hil_wait_reason)place->reason, end - before, end);
        place->over = before = end;
        ++queue->retired;
        hil_links_wake(links);
    }
    pthread_mutex_unlock(&links->lock);
    return NULL;
}

hil_status hil_streams_create(hil_links *links)
{
    hil_link_runners *all = links->state;
    hil_device *device = links->device;
    for (int i = 0; i < HIL_LINKS; ++i) {
        hil_link_runner *c = &all->runner[i];
        for (int f = 0; f < HIL_LINK_FLIGHTS && c->stream != HIL_STREAMS; ++f)
            HIL_TRY(device->events->create(device, &c->flight[f].end.event));
    }
    for (int m = 0; m < HIL_MARKS; ++m)
        HIL_TRY(device->events->create(device, &all->mark[m].event));
    return HIL_OK;
}

static void destroy_place(hil_device *device, hil_place *place)
{
    if (place->event) device->events->destroy(device, place->event);
}

void hil_streams_destroy(hil_links *links)
{
    hil_link_runners *all = links->state;
    for (int i = 0; i < HIL_LINKS; ++i)
        for (int f = 0; f < HIL_LINK_FLIGHTS; ++f)
            destroy_place(links->device, &all->runner[i].flight[f].end);
    for (int m = 0; m < HIL_MARKS; ++m) destroy_place(links->device, &all->mark[m]);
}
