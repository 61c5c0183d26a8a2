/* links_threads.c - one thread per link starts its jobs. Links that use the disk or a device have a
   second thread, which waits for transfers, verifies checksums and retires jobs, so that the first
   can start the next job. */
#include "tier/links_threads.h"

#include "base/clock.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define STACK_BYTES ((size_t)1 << 20)
/* A link starts jobs while fewer bytes than this are in flight to or from the drives: enough to
   keep them busy, few enough that urgent requests of another link are not delayed for long. */
#define FLIGHT_BYTES ((uint64_t)48 << 20)

void hil_links_keep_failure(hil_links *links, hil_status status)
{
    pthread_mutex_lock(&links->lock);
    bool first = links->status == HIL_OK;
    if (first) {
        links->status = status;
        snprintf(links->message, sizeof links->message, "%s", hil_status_message());
    }
    void (*failed)(void *context, hil_status status) = first ? links->failed : NULL;
    void *context = links->failed_context;
    pthread_mutex_unlock(&links->lock);
    if (failed) failed(context, status);
}

static hil_status start_disk_parts(hil_links *links, hil_flight *f)
{
    for (int i = 0; i < f->queued.job.parts; ++i) {
        const hil_part *part = &f->queued.job.part[i];
        if (part->kind == HIL_PART_COPY) continue;
        bool write = part->kind == HIL_PART_WRITE;
        hil_disk_transfer *transfer = &f->transfer[f->transfers];
        transfer->extent = &f->queued.extent[i];
        transfer->first = part->first;
        transfer->count = part->count;
        transfer->memory = write ? (char *)(uintptr_t)part->from : part->to;
        transfer->write = write;
        HIL_TRY(hil_disk_start(links->disk, transfer));
        ++f->transfers;
    }
    return HIL_OK;
}

/* Starts disk transfers and device copies, which overlap with the copies and `run` of this thread.
 */
static hil_status start_job(hil_link_runner *c, hil_flight *f)
{
    hil_links *links = c->links;
    hil_device *device = links->device;
    const hil_job *job = &f->queued.job;
    bool streams = false;
    HIL_TRY(start_disk_parts(links, f));
    for (int i = 0; i < job->parts; ++i) {
        if (hil_part_streams(links, &job->part[i]))
            streams = true;
        else if (job->part[i].kind == HIL_PART_COPY)
            memcpy(job->part[i].to, job->part[i].from, job->part[i].bytes);
    }
    if (streams) {
        HIL_TRY(hil_flight_queue(c, f, &(hil_dependencies){0}));
        if (job->run && !job->queues) HIL_TRY(device->events->wait(device, f->end.event));
    }
    return job->run && !(streams && job->queues) ? job->run(job->context, job->index) : HIL_OK;
}

static void finish_job(hil_links *links, hil_flight *f)
{
    for (int i = 0; i < f->transfers; ++i) {
        hil_status status = hil_disk_wait(links->disk, &f->transfer[i]);
        if (status != HIL_OK) hil_links_keep_failure(links, status);
    }
    if (f->recorded) {
        hil_status status = links->device->events->wait(links->device, f->end.event);
        if (status != HIL_OK) hil_links_keep_failure(links, status);
    }
    for (int i = 0; i < f->queued.job.parts; ++i)
        if (f->queued.job.part[i].kind != HIL_PART_COPY)
            hil_disk_release(links->disk, &f->queued.extent[i]);
}

static bool satisfied(const hil_links *links, const hil_fence *fence, bool follows)
{
    return follows ? hil_fence_given(links, fence) : hil_links_retired(links, fence);
}

static bool uses_disk(hil_link link)
{
    return link == HIL_LINK_FETCH || link == HIL_LINK_STASH || link == HIL_LINK_READ ||
           link == HIL_LINK_WRITE;
}

/* Whether jobs of the link may overlap (see links.h). */
static bool may_overlap(hil_link link)
{
    return uses_disk(link) || link == HIL_LINK_UPDATE;
}

/* Whether the next job of the link can start. */
static bool ready(const hil_link_runner *c)
{
    const hil_links *links = c->links;
    const hil_queue *queue = &links->queue[c->link];
    if (queue->started == queue->submitted) return false;
    const hil_queued *next = hil_queue_at(queue, queue->started + 1);
    if (next->streams) return hil_fence_given(links, &next->job.after);
    if (queue->started > queue->retired && !may_overlap(c->link)) return false;
    return hil_links_retired(links, &next->job.after);
}

void hil_links_wake(hil_links *links)
{
    hil_link_runners *all = links->state;
    for (hil_waiter *w = all->waiters; w; w = w->next)
        if (satisfied(links, w->fence, w->follows)) pthread_cond_signal(&w->wake);
    for (int i = 0; i < HIL_LINKS; ++i)
        if (ready(&all->runner[i])) pthread_cond_signal(&all->runner[i].wake);
}

static uint64_t disk_bytes(const hil_job *job)
{
    return hil_job_bytes(job, HIL_PART_READ) + hil_job_bytes(job, HIL_PART_WRITE);
}

static bool may_start(const hil_link_runner *c)
{
    const hil_queue *queue = &c->links->queue[c->link];
    return queue->started - queue->retired < HIL_LINK_FLIGHTS && c->disk_bytes < FLIGHT_BYTES &&
           ready(c);
}

/* Starts the next job. Lock held on entry and return, released in between. */
static void take_job(hil_link_runner *c)
{
    hil_links *links = c->links;
    const hil_link_runners *all = links->state;
    hil_queue *queue = &links->queue[c->link];
    hil_flight *f = &c->flight[queue->started % HIL_LINK_FLIGHTS];
    f->queued = *hil_queue_at(queue, ++queue->started);
    f->transfers = 0;
    f->recorded = false;
    c->disk_bytes += disk_bytes(&f->queued.job);
    bool skip = links->status != HIL_OK || all->stopping, streams = f->queued.streams && !skip;
    hil_dependencies dependencies = {0};
    if (streams) hil_dependencies_begin(links, &f->queued.job.after, &c->followed, &dependencies);
    pthread_mutex_unlock(&links->lock);
    f->start = hil_clock_now();
    hil_status status = HIL_OK;
    if (streams)
        status = hil_flight_queue(c, f, &dependencies);
    else if (!skip)
        status = start_job(c, f);
    if (status != HIL_OK) hil_links_keep_failure(links, status);
    pthread_mutex_lock(&links->lock);
    hil_dependencies_end(links, &dependencies);
    ++c->issued;
    if (!f->queued.streams) return;
    c->followed.after[c->link] = c->issued;
    hil_links_wake(links);
}

/* Waits for the oldest started job and retires it. Lock held on entry and return. */
static void retire_job(hil_link_runner *c)
{
    hil_links *links = c->links;
    hil_flight *f = &c->flight[links->queue[c->link].retired % HIL_LINK_FLIGHTS];
    pthread_mutex_unlock(&links->lock);
    finish_job(links, f);
    double end = hil_clock_now();
    pthread_mutex_lock(&links->lock);
    while (f->end.users) pthread_cond_wait(&c->issue, &links->lock);
    double start = f->start > c->marked ? f->start : c->marked;
    double free = f->queued.streams ? hil_flight_free(links, f) : 0;
    if (start < free) start = free < end ? free : end;
    f->end.over = end;
    hil_links_retire(links, &f->queued.job, start, end);
    c->marked = end;
    c->disk_bytes -= disk_bytes(&f->queued.job);
    hil_links_wake(links);
}

static void *start_jobs(void *argument)
{
    hil_link_runner *c = argument;
    hil_links *links = c->links;
    const hil_link_runners *all = links->state;
    const hil_queue *queue = &links->queue[c->link];
    pthread_mutex_lock(&links->lock);
    while (!all->stopping || queue->started < queue->submitted) {
        if (!may_start(c)) {
            pthread_cond_wait(&c->wake, &links->lock);
            continue;
        }
        take_job(c);
        if (c->alone)
            retire_job(c);
        else
            pthread_cond_signal(&c->issue);
    }
    c->ended = true;
    pthread_cond_signal(&c->issue);
    pthread_mutex_unlock(&links->lock);
    return NULL;
}

static void *retire_jobs(void *argument)
{
    hil_link_runner *c = argument;
    hil_links *links = c->links;
    const hil_queue *queue = &links->queue[c->link];
    pthread_mutex_lock(&links->lock);
    while (!c->ended || queue->retired < c->issued) {
        if (queue->retired < c->issued)
            retire_job(c);
        else
            pthread_cond_wait(&c->issue, &links->lock);
    }
    pthread_mutex_unlock(&links->lock);
    return NULL;
}

static void submitted(hil_links *links, hil_link link)
{
    hil_link_runners *all = links->state;
    const hil_queue *queue = &links->queue[link];
    if (link == HIL_LINK_COMPUTE) {
        pthread_cond_signal(&all->runner[link].issue);
        return;
    }
    hil_queued *queued = hil_queue_at(queue, queue->submitted);
    queued->streams = hil_job_streams(links, &queued->job);
    for (int i = 0; i < queued->job.parts; ++i)
        if (queued->job.part[i].kind != HIL_PART_COPY)
            hil_disk_acquire(links->disk, &queued->extent[i]);
    pthread_cond_signal(&all->runner[link].wake);
}

double hil_links_sleep(hil_links *links, const hil_fence *fence, bool follows)
{
    hil_link_runners *all = links->state;
    double start = hil_clock_now();
    hil_waiter self = {.fence = fence, .follows = follows, .next = all->waiters};
    pthread_cond_init(&self.wake, NULL);
    all->waiters = &self;
    while (!satisfied(links, fence, follows)) pthread_cond_wait(&self.wake, &links->lock);
    hil_waiter **at = &all->waiters;
    while (*at != &self) at = &(*at)->next;
    *at = self.next;
    pthread_cond_destroy(&self.wake);
    return hil_clock_now() - start;
}

static double wait_for(hil_links *links, const hil_fence *fence)
{
    return hil_links_sleep(links, fence, false);
}

static void compute(hil_links *links, double seconds)
{
    (void)links, (void)seconds;
}

static double now(const hil_links *links)
{
    (void)links;
    return hil_clock_now();
}

/* The thread blocks all signals: handlers run on the program's own threads. */
static hil_status start_thread(hil_link_runner *c, void *(*body)(void *))
{
    pthread_attr_t attributes;
    sigset_t every, before;
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    int error = pthread_create(&c->thread[c->threads], &attributes, body, c);
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        return hil_fail(HIL_ERR_MEMORY, "cannot start a thread for transfers: %s", strerror(error));
    ++c->threads;
    return HIL_OK;
}

static hil_status create(hil_links *links)
{
    hil_link_runners *all;
    HIL_TRY(HIL_ALLOC(1, &all));
    links->state = all;
    for (int i = 0; i < HIL_LINKS; ++i) {
        hil_link_runner *c = &all->runner[i];
        c->links = links;
        c->link = (hil_link)i;
        c->stream = links->device ? hil_link_stream(c->link) : HIL_STREAMS;
        c->alone = c->stream == HIL_STREAMS && (!links->disk || !uses_disk(c->link));
        pthread_cond_init(&c->wake, NULL);
        pthread_cond_init(&c->issue, NULL);
    }
    if (links->device) {
        HIL_TRY(hil_streams_create(links));
        HIL_TRY(start_thread(&all->runner[HIL_LINK_COMPUTE], hil_streams_retire_marks));
    }
    for (int i = 0; i < HIL_LINK_COMPUTE; ++i) {
        hil_link_runner *c = &all->runner[i];
        HIL_TRY(start_thread(c, start_jobs));
        if (!c->alone) HIL_TRY(start_thread(c, retire_jobs));
    }
    return HIL_OK;
}

static void destroy(hil_links *links)
{
    hil_link_runners *all = links->state;
    if (!all) return;
    pthread_mutex_lock(&links->lock);
    all->stopping = true;
    for (int i = 0; i < HIL_LINKS; ++i) {
        pthread_cond_signal(&all->runner[i].wake);
        pthread_cond_signal(&all->runner[i].issue);
    }
    pthread_mutex_unlock(&links->lock);
    for (int i = 0; i < HIL_LINKS; ++i)
        for (int t = 0; t < all->runner[i].threads; ++t)
            pthread_join(all->runner[i].thread[t], NULL);
    for (int i = 0; i < HIL_LINKS; ++i) {
        pthread_cond_destroy(&all->runner[i].wake);
        pthread_cond_destroy(&all->runner[i].issue);
    }
    if (links->device) hil_streams_destroy(links);
    hil_free(all);
}

const hil_links_engine hil_links_threads = {create, destroy, submitted, wait_for, compute, now};
