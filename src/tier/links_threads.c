/* links_threads.c - a thread for each link executes its jobs; a second one of links that use the
   disk waits for the drives and checks what they gave, so that the next job starts when it can. */
#include "tier/links_engine.h"

#include "base/clock.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define STACK_BYTES ((size_t)1 << 20)
/* A link starts jobs while less than this is on its way to or from the drives: enough to keep them
   busy, and not so much that what another link needs soon waits for long. */
#define FLIGHT_BYTES ((uint64_t)48 << 20)

/* A job that was started and is not retired. */
typedef struct flight {
    hil_queued queued;
    int transfers;
    hil_disk_transfer transfer[HIL_JOB_PARTS];
    double start;
} flight;

typedef struct worker {
    hil_links *links;
    hil_link link;
    int threads;
    pthread_t thread[2]; /* starts, retires */
    bool alone;          /* the first one does both */
    bool ended;          /* the first one has */
    pthread_cond_t wake, issue;
    uint64_t issued; /* jobs whose transfers are on their way */
    flight flight[HIL_LINK_FLIGHTS];
    uint64_t disk_bytes; /* of jobs in flight */
    double marked;       /* busy until here is booked */
} worker;

/* Somebody in hil_links_wait. */
typedef struct waiter {
    const hil_fence *fence;
    pthread_cond_t wake;
    struct waiter *next;
} waiter;

typedef struct workers {
    worker worker[HIL_LINKS];
    waiter *waiters;
    bool stopping;
} workers;

/* The first failure of all, from any thread; the lock is not held. */
static void keep_failure(hil_links *links, hil_status status)
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

static hil_status start_disk_parts(hil_links *links, flight *f)
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

/* The disk's part goes on while the thread does the rest. */
static hil_status start_job(hil_links *links, flight *f)
{
    const hil_job *job = &f->queued.job;
    f->transfers = 0;
    HIL_TRY(start_disk_parts(links, f));
    for (int i = 0; i < job->parts; ++i)
        if (job->part[i].kind == HIL_PART_COPY)
            memcpy(job->part[i].to, job->part[i].from, job->part[i].bytes);
    return job->run ? job->run(job->context, job->index) : HIL_OK;
}

static void finish_job(hil_links *links, flight *f)
{
    for (int i = 0; i < f->transfers; ++i) {
        hil_status status = hil_disk_wait(links->disk, &f->transfer[i]);
        if (status != HIL_OK) keep_failure(links, status);
    }
    for (int i = 0; i < f->queued.job.parts; ++i)
        if (f->queued.job.part[i].kind != HIL_PART_COPY)
            hil_disk_release(links->disk, &f->queued.extent[i]);
}

/* After a job retired: those who waited for it. */
static void wake_others(hil_links *links)
{
    workers *all = links->state;
    for (waiter *w = all->waiters; w; w = w->next)
        if (hil_links_retired(links, w->fence)) pthread_cond_signal(&w->wake);
    for (int i = 0; i < HIL_LINKS; ++i)
        if (hil_links_ready(links, (hil_link)i)) pthread_cond_signal(&all->worker[i].wake);
}

static uint64_t disk_bytes(const hil_job *job)
{
    return hil_job_bytes(job, HIL_PART_READ) + hil_job_bytes(job, HIL_PART_WRITE);
}

static bool may_start(const worker *w)
{
    const hil_queue *queue = &w->links->queue[w->link];
    return queue->started - queue->retired < HIL_LINK_FLIGHTS && w->disk_bytes < FLIGHT_BYTES &&
           hil_links_ready(w->links, w->link);
}

/* The next job begins; the lock is held before and after. */
static void take_job(worker *w)
{
    hil_links *links = w->links;
    const workers *all = links->state;
    hil_queue *queue = &links->queue[w->link];
    flight *f = &w->flight[queue->started % HIL_LINK_FLIGHTS];
    f->queued = *hil_queue_at(queue, ++queue->started);
    f->transfers = 0;
    w->disk_bytes += disk_bytes(&f->queued.job);
    bool skip = links->status != HIL_OK || all->stopping;
    pthread_mutex_unlock(&links->lock);
    f->start = hil_clock_now();
    hil_status status = skip ? HIL_OK : start_job(links, f);
    if (status != HIL_OK) keep_failure(links, status);
    pthread_mutex_lock(&links->lock);
    ++w->issued;
}

/* Waits for the oldest job that began; the lock is held before and after. */
static void retire_job(worker *w)
{
    hil_links *links = w->links;
    flight *f = &w->flight[links->queue[w->link].retired % HIL_LINK_FLIGHTS];
    pthread_mutex_unlock(&links->lock);
    finish_job(links, f);
    double end = hil_clock_now();
    pthread_mutex_lock(&links->lock);
    hil_links_retire(links, &f->queued.job, f->start > w->marked ? f->start : w->marked, end);
    w->marked = end;
    w->disk_bytes -= disk_bytes(&f->queued.job);
    wake_others(links);
}

static void *start_jobs(void *argument)
{
    worker *w = argument;
    hil_links *links = w->links;
    const workers *all = links->state;
    const hil_queue *queue = &links->queue[w->link];
    pthread_mutex_lock(&links->lock);
    while (!all->stopping || queue->started < queue->submitted) {
        if (!may_start(w)) {
            pthread_cond_wait(&w->wake, &links->lock);
            continue;
        }
        take_job(w);
        if (w->alone)
            retire_job(w);
        else
            pthread_cond_signal(&w->issue);
    }
    w->ended = true;
    pthread_cond_signal(&w->issue);
    pthread_mutex_unlock(&links->lock);
    return NULL;
}

static void *retire_jobs(void *argument)
{
    worker *w = argument;
    hil_links *links = w->links;
    const hil_queue *queue = &links->queue[w->link];
    pthread_mutex_lock(&links->lock);
    while (!w->ended || queue->retired < w->issued) {
        if (queue->retired < w->issued)
            retire_job(w);
        else
            pthread_cond_wait(&w->issue, &links->lock);
    }
    pthread_mutex_unlock(&links->lock);
    return NULL;
}

static void submitted(hil_links *links, hil_link link)
{
    workers *all = links->state;
    const hil_queue *queue = &links->queue[link];
    const hil_queued *queued = hil_queue_at(queue, queue->submitted);
    for (int i = 0; i < queued->job.parts; ++i)
        if (queued->job.part[i].kind != HIL_PART_COPY)
            hil_disk_acquire(links->disk, &queued->extent[i]);
    pthread_cond_signal(&all->worker[link].wake);
}

static double wait_for(hil_links *links, const hil_fence *fence)
{
    workers *all = links->state;
    double start = hil_clock_now();
    waiter self = {.fence = fence, .next = all->waiters};
    pthread_cond_init(&self.wake, NULL);
    all->waiters = &self;
    while (!hil_links_retired(links, fence)) pthread_cond_wait(&self.wake, &links->lock);
    waiter **at = &all->waiters;
    while (*at != &self) at = &(*at)->next;
    *at = self.next;
    pthread_cond_destroy(&self.wake);
    return hil_clock_now() - start;
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

/* Signals stay with the threads of the program. */
static hil_status start_thread(worker *w, void *(*body)(void *))
{
    pthread_attr_t attributes;
    sigset_t every, before;
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    int error = pthread_create(&w->thread[w->threads], &attributes, body, w);
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        return hil_fail(HIL_ERR_MEMORY, "cannot start a thread for transfers: %s", strerror(error));
    ++w->threads;
    return HIL_OK;
}

static bool uses_disk(hil_link link)
{
    return link == HIL_LINK_FETCH || link == HIL_LINK_STASH || link == HIL_LINK_READ ||
           link == HIL_LINK_WRITE;
}

static hil_status create(hil_links *links)
{
    workers *all;
    HIL_TRY(HIL_ALLOC(1, &all));
    links->state = all;
    for (int i = 0; i < HIL_LINKS; ++i) {
        worker *w = &all->worker[i];
        w->links = links;
        w->link = (hil_link)i;
        w->alone = !links->disk || !uses_disk(w->link);
        pthread_cond_init(&w->wake, NULL);
        pthread_cond_init(&w->issue, NULL);
    }
    for (int i = 0; i < HIL_LINKS; ++i) {
        worker *w = &all->worker[i];
        HIL_TRY(start_thread(w, start_jobs));
        if (!w->alone) HIL_TRY(start_thread(w, retire_jobs));
    }
    return HIL_OK;
}

static void destroy(hil_links *links)
{
    workers *all = links->state;
    if (!all) return;
    pthread_mutex_lock(&links->lock);
    all->stopping = true;
    for (int i = 0; i < HIL_LINKS; ++i) pthread_cond_signal(&all->worker[i].wake);
    pthread_mutex_unlock(&links->lock);
    for (int i = 0; i < HIL_LINKS; ++i)
        for (int t = 0; t < all->worker[i].threads; ++t)
            pthread_join(all->worker[i].thread[t], NULL);
    for (int i = 0; i < HIL_LINKS; ++i) {
        pthread_cond_destroy(&all->worker[i].wake);
        pthread_cond_destroy(&all->worker[i].issue);
    }
    hil_free(all);
}

const hil_links_engine hil_links_threads = {
    .create = create,
    .destroy = destroy,
    .submitted = submitted,
    .wait = wait_for,
    .compute = compute,
    .now = now,
};
