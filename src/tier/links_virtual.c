/* links_virtual.c - the rehearsal: jobs take the time that measured speeds predict; nothing moves.

   [Note: virtual clock]
   The clock is that of the caller. When the caller computes or waits, the clock advances from event
   to event, and each link works on its oldest job once that job's fence is complete. Links that use
   the disk share its bandwidth: equally within one direction; when both directions are busy, each
   gets half of the mixed speed. A transfer takes at least as long as a small one. Copies to a GPU
   share the bus in each direction, which is faster while nothing moves in the other one. Gathers
   and reductions share the network, which both use in both directions; each begins with a fixed
   overhead. Where the CPU computes, updates take time from it. */
#include "tier/links_engine.h"

#include <math.h>

/* Seconds of a core for each byte that is read or written: measured. */
#define DRIVE_SECONDS 1.2e-10
#define LATE 4 /* measured */
/* Bytes that RAM moves while the CPU updates one parameter there: measured on 16 cores of a Xeon,
   where copies of 70 GB/s left 0.63 of the update's speed. */
#define RAM_BYTES 32.0
#define LEAST_UPDATE 0.3

typedef struct running {
    double start;
    double read, write, seconds; /* remaining: bytes, bytes, time that shares no bandwidth */
    double busy;                 /* hil_job.busy, above 0 */
    double in, out;              /* remaining bytes over the bus */
    double net;                  /* remaining bytes over the network, after `seconds` */
    bool on_device;              /* an update by the device */
} running;

typedef struct machine {
    double clock;
    running job[HIL_LINKS];
    unsigned active;  /* links that work on a job: one bit each */
    unsigned waiting; /* links with jobs that have not started */
} machine;

static_assert(HIL_LINKS <= 32, "a bit for each link");

/* The lowest link in `active`, which is not 0. */
static int first(unsigned active)
{
    return __builtin_ctz(active);
}

static double divide(double bytes, double speed)
{
    return speed > 0 ? bytes / speed : 0;
}

/* Of a small transfer. Where all cores compute, a thread that waits for a drive gets one late. */
static double call_seconds(const hil_speeds *speeds)
{
    bool late = !(speeds->update_device > 0) && speeds->threads >= speeds->cpus;
    return speeds->disk_call * (late ? LATE : 1);
}

static running begin(const hil_links *links, const hil_job *job, double clock)
{
    const hil_speeds *speeds = &links->speeds;
    bool in = hil_job_to_device(job), bus = speeds->update_device > 0;
    double copy = in ? speeds->to_device : speeds->to_host;
    double copied = (double)hil_job_bytes(job, HIL_PART_COPY);
    running r = {.start = clock, .busy = job->busy > 0 ? job->busy : 1, .on_device = job->queues};
    r.read = (double)hil_job_bytes(job, HIL_PART_READ);
    r.write = (double)hil_job_bytes(job, HIL_PART_WRITE);
    if (bus && copy > 0)
        *(in ? &r.in : &r.out) = copied;
    else
        r.seconds = divide(copied, copy);
    r.seconds += job->seconds;
    if (speeds->network > 0 && (job->link == HIL_LINK_GATHER || job->link == HIL_LINK_REDUCE)) {
        r.net = (double)job->bytes;
        r.seconds += speeds->network_call;
    }
    if (!(speeds->disk_read > 0)) r.read = 0;
    if (!(speeds->disk_write > 0)) r.write = 0;
    if (r.read > 0 || r.write > 0) r.seconds = fmax(r.seconds, call_seconds(speeds));
    return r;
}

/* Whether the next job of the link can start; there is one. */
static bool ready(const hil_links *links, const hil_queue *queue)
{
    return hil_links_retired(links, &hil_queue_at(queue, queue->started + 1)->job.after);
}

static bool is_busy(const running *r)
{
    return r->read > 0 || r->write > 0 || r->seconds > 0 || r->in > 0 || r->out > 0 || r->net > 0;
}

/* Starts what can start and retires what is done, until nothing changes. */
static void run_ready(hil_links *links)
{
    machine *m = links->state;
    for (bool changed = true; changed;) {
        changed = false;
        for (unsigned left = m->active | m->waiting; left; left &= left - 1) {
            int i = first(left);
            running *r = &m->job[i];
            hil_queue *queue = &links->queue[i];
            unsigned bit = 1u << i;
            if (!(m->active & bit)) {
                if (!ready(links, queue)) continue;
                ++queue->started;
                *r = begin(links, &hil_queue_at(queue, queue->started)->job, m->clock);
                m->active |= bit;
                if (queue->started == queue->submitted) m->waiting &= ~bit;
            }
            if (is_busy(r)) continue;
            m->active &= ~bit;
            hil_links_retire(links, &hil_queue_at(queue, queue->started)->job, r->start, m->clock);
            changed = true;
        }
    }
}

static bool is_exchanging(const running *r)
{
    return r->net > 0 && !(r->seconds > 0);
}

/* Bytes per second of each link that reads, writes, copies in or out, or exchanges with ranks. */
typedef struct rates {
    double read, write, in, out, net;
} rates;

static rates share(const hil_links *links)
{
    const machine *m = links->state;
    const hil_speeds *speeds = &links->speeds;
    int readers = 0, writers = 0, in = 0, out = 0, net = 0;
    for (unsigned left = m->active; left; left &= left - 1) {
        const running *r = &m->job[first(left)];
        readers += r->read > 0;
        writers += r->write > 0;
        in += r->in > 0;
        out += r->out > 0;
        net += is_exchanging(r);
    }
    double half = speeds->disk_mixed > 0 ? speeds->disk_mixed / 2 : INFINITY;
    rates one = {.read = speeds->disk_read,
                 .write = speeds->disk_write,
                 .in = in ? speeds->to_device / in : speeds->to_device,
                 .out = out ? speeds->to_host / out : speeds->to_host,
                 .net = net ? speeds->network / net : speeds->network};
    if (speeds->one_way > 0 && in && !out) one.in = speeds->one_way / in;
    if (speeds->one_way > 0 && out && !in) one.out = speeds->one_way / out;
    if (readers && writers) one.read = fmin(one.read, half);
    if (readers && writers) one.write = fmin(one.write, half);
    if (readers) one.read /= readers;
    if (writers) one.write /= writers;
    return one;
}

static double earlier_end(double least, double left, double rate)
{
    return left > 0 ? fmin(least, left / rate) : least;
}

/* What remains of `amount` after `step`; exactly 0 if it ends within the step. */
static double reduce(double amount, double rate, double step)
{
    return !(amount > 0) || amount / rate <= step ? 0 : amount - rate * step;
}

/* Fraction of their speeds that computing and updates on the CPU have while both run: the update
   has as many threads as computing, of which those without a task take no time. */
static double beside(const hil_links *links)
{
    const machine *m = links->state;
    const hil_speeds *speeds = &links->speeds;
    const running *update = &m->job[HIL_LINK_UPDATE];
    bool updating = m->active & 1u << HIL_LINK_UPDATE && update->seconds > 0;
    if (!updating || speeds->update_device > 0 || !(speeds->threads > 0)) return 1;
    return fmin(1, speeds->cpus / ((1 + update->busy) * speeds->threads));
}

/* The same beside transfers from and to drives: the kernel and checksums take time of the cores. */
static double beside_drives(const hil_links *links)
{
    const machine *m = links->state;
    const hil_speeds *speeds = &links->speeds;
    double bytes = 0;
    if (speeds->update_device > 0 || !(speeds->threads > 0)) return 1;
    rates one = share(links);
    for (unsigned left = m->active; left; left &= left - 1) {
        const running *r = &m->job[first(left)];
        bytes += (r->read > 0 ? one.read : 0) + (r->write > 0 ? one.write : 0);
    }
    double busy = DRIVE_SECONDS * bytes - fmax(0, speeds->cpus - speeds->threads);
    return fmax(0.5, 1 - fmax(0, busy) / fmin(speeds->cpus, speeds->threads));
}

/* The part of its speed that an update on the CPU has beside copies over the bus, which take
   bandwidth of the RAM from it. */
static double beside_copies(const hil_links *links)
{
    const machine *m = links->state;
    const hil_speeds *speeds = &links->speeds;
    double bytes = 0;
    bool updating = m->active & 1u << HIL_LINK_UPDATE && !m->job[HIL_LINK_UPDATE].on_device;
    if (!updating || !(speeds->update_device > 0) || !(speeds->update > 0)) return 1;
    rates one = share(links);
    for (unsigned left = m->active; left; left &= left - 1) {
        const running *r = &m->job[first(left)];
        bytes += (r->in > 0 ? one.in : 0) + (r->out > 0 ? one.out : 0);
    }
    return fmax(LEAST_UPDATE, 1 - bytes / (RAM_BYTES * speeds->update));
}

/* Advances to the next event, or by `most` seconds if that is earlier; returns the seconds. Updates
   on the CPU have the fraction `update` of their speed. */
static double advance(hil_links *links, double most, double update)
{
    machine *m = links->state;
    double step = most;
    bool ended = false;
    rates one = share(links);
    for (unsigned left = m->active; left; left &= left - 1) {
        const running *r = &m->job[first(left)];
        step = earlier_end(step, r->read, one.read);
        step = earlier_end(step, r->write, one.write);
        step = earlier_end(step, r->in, one.in);
        step = earlier_end(step, r->out, one.out);
        if (is_exchanging(r)) step = earlier_end(step, r->net, one.net);
        step = earlier_end(step, r->seconds, r == &m->job[HIL_LINK_UPDATE] ? update : 1);
    }
    for (unsigned left = m->active; left; left &= left - 1) {
        running *r = &m->job[first(left)];
        r->read = reduce(r->read, one.read, step);
        r->write = reduce(r->write, one.write, step);
        r->in = reduce(r->in, one.in, step);
        r->out = reduce(r->out, one.out, step);
        if (is_exchanging(r)) r->net = reduce(r->net, one.net, step);
        r->seconds = reduce(r->seconds, r == &m->job[HIL_LINK_UPDATE] ? update : 1, step);
        ended = ended || !is_busy(r);
    }
    m->clock += step;
    if (ended) run_ready(links);
    return step;
}

static void submitted(hil_links *links, hil_link link)
{
    machine *m = links->state;
    m->waiting |= 1u << link;
    if (!(m->active & 1u << link)) run_ready(links); /* otherwise it waits behind another */
}

static double wait_for(hil_links *links, const hil_fence *fence)
{
    const machine *m = links->state;
    double before = m->clock;
    while (!hil_links_retired(links, fence)) {
        double step = advance(links, INFINITY, beside_copies(links));
        assert(isfinite(step)); /* jobs only wait for earlier ones */
        (void)step;
    }
    return m->clock - before;
}

static void compute(hil_links *links, double seconds)
{
    machine *m = links->state;
    if (!m->active) { /* nothing changes meanwhile */
        m->clock += seconds > 0 ? seconds : 0;
        return;
    }
    while (seconds > 0) {
        double part = beside(links) * beside_drives(links);
        seconds -= part * advance(links, seconds / part, part * beside_copies(links));
    }
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

const hil_links_engine hil_links_virtual = {create, destroy, submitted, wait_for, compute, now};
