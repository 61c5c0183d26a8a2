/* links_virtual.c - the rehearsal: jobs take the time that measured speeds say, and nothing moves.

   [Note: virtual clock]
   The clock is the caller's. When it advances, by computing or by waiting, the links advance with
   it, event by event: each works on its oldest job as soon as that job's fence is over. Links that
   use the disk share it: equally among those of one direction, and when both directions are busy
   each gets half of the mixed speed. */
#include "tier/links_engine.h"

#include <math.h>

typedef struct running {
    bool active;
    double start;
    double read, write, seconds; /* left: bytes, bytes, time of the link alone */
} running;

typedef struct machine {
    double clock;
    running job[HIL_LINKS];
} machine;

static double divide(double bytes, double speed)
{
    return speed > 0 ? bytes / speed : 0;
}

static running begin(const hil_links *links, const hil_job *job, double clock)
{
    const hil_speeds *speeds = &links->speeds;
    double copy = hil_link_to_device(job->link) ? speeds->to_device : speeds->to_host;
    running r = {.active = true, .start = clock};
    r.read = (double)hil_job_bytes(job, HIL_PART_READ);
    r.write = (double)hil_job_bytes(job, HIL_PART_WRITE);
    r.seconds = divide((double)hil_job_bytes(job, HIL_PART_COPY), copy);
    r.seconds += job->seconds;
    if (!(speeds->disk_read > 0)) r.read = 0;
    if (!(speeds->disk_write > 0)) r.write = 0;
    return r;
}

/* Whether the next job of the link can start. */
static bool ready(const hil_links *links, const hil_queue *queue)
{
    if (queue->started == queue->submitted) return false;
    return hil_links_retired(links, &hil_queue_at(queue, queue->started + 1)->job.after);
}

/* Starts what can start and retires what is done, until nothing changes. */
static void settle(hil_links *links)
{
    machine *m = links->state;
    for (bool changed = true; changed;) {
        changed = false;
        for (int i = 0; i < HIL_LINKS; ++i) {
            running *r = &m->job[i];
            hil_queue *queue = &links->queue[i];
            if (!r->active && ready(links, queue)) {
                ++queue->started;
                *r = begin(links, &hil_queue_at(queue, queue->started)->job, m->clock);
            }
            if (!r->active || r->read > 0 || r->write > 0 || r->seconds > 0) continue;
            r->active = false;
            hil_links_retire(links, &hil_queue_at(queue, queue->started)->job, r->start, m->clock);
            changed = true;
        }
    }
}

/* Bytes per second of one reading and of one writing link. */
static void share_disk(const hil_links *links, double *read, double *write)
{
    const machine *m = links->state;
    const hil_speeds *speeds = &links->speeds;
    int readers = 0, writers = 0;
    for (int i = 0; i < HIL_LINKS; ++i) {
        readers += m->job[i].active && m->job[i].read > 0;
        writers += m->job[i].active && m->job[i].write > 0;
    }
    double half = speeds->disk_mixed > 0 ? speeds->disk_mixed / 2 : INFINITY;
    *read = readers && writers ? fmin(speeds->disk_read, half) : speeds->disk_read;
    *write = readers && writers ? fmin(speeds->disk_write, half) : speeds->disk_write;
    if (readers) *read /= readers;
    if (writers) *write /= writers;
}

static double sooner(double least, double left, double rate)
{
    return left > 0 ? fmin(least, left / rate) : least;
}

/* What is left of `amount` after `step`; exactly nothing for what ends this step. */
static double reduce(double amount, double rate, double step)
{
    return amount / rate <= step ? 0 : amount - rate * step;
}

/* To the next event, or by `most` seconds if that is earlier; gives the seconds. */
static double advance(hil_links *links, double most)
{
    machine *m = links->state;
    double read, write, step = most;
    share_disk(links, &read, &write);
    for (int i = 0; i < HIL_LINKS; ++i) {
        const running *r = &m->job[i];
        if (!r->active) continue;
        step = sooner(step, r->read, read);
        step = sooner(step, r->write, write);
        step = sooner(step, r->seconds, 1);
    }
    for (int i = 0; i < HIL_LINKS; ++i) {
        running *r = &m->job[i];
        if (!r->active) continue;
        r->read = reduce(r->read, read, step);
        r->write = reduce(r->write, write, step);
        r->seconds = reduce(r->seconds, 1, step);
    }
    m->clock += step;
    settle(links);
    return step;
}

static void submitted(hil_links *links, hil_link link)
{
    (void)link;
    settle(links);
}

static double wait_for(hil_links *links, const hil_fence *fence)
{
    const machine *m = links->state;
    double before = m->clock;
    while (!hil_links_retired(links, fence)) {
        double step = advance(links, INFINITY);
        assert(isfinite(step)); /* jobs only wait for earlier ones */
        (void)step;
    }
    return m->clock - before;
}

static void compute(hil_links *links, double seconds)
{
    while (seconds > 0) seconds -= advance(links, seconds);
}

static double now(const hil_links *links)
{
    const machine *m = links->state;
    return m->clock;
}

static hil_status create(hil_links *links)
{
    return hil_alloc(1, sizeof(machine), &links->state);
}

static void destroy(hil_links *links)
{
    hil_free(links->state);
}

const hil_links_engine hil_links_virtual = {
    .create = create,
    .destroy = destroy,
    .submitted = submitted,
    .wait = wait_for,
    .compute = compute,
    .now = now,
};
