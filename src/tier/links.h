/* links.h - one job queue per link. Jobs of a link start and retire in order; links run in
   parallel. The same calls drive a rehearsal, which moves nothing and only advances a clock.

   Jobs of one link may overlap if they use the disk, or if they are updates: a job that depends on
   an earlier one (rewrites a page, reads it back) names it in its fence, also on its own link. */
#ifndef HIL_TIER_LINKS_H
#define HIL_TIER_LINKS_H

#include "device/device.h"
#include "tier/disk.h"
#include "hilbert/speeds.h"

/* [Note: device streams] A device executes asynchronously: the caller only issues work to its
   compute stream. There are two orders. Stream order: a job of hil_links_submit starts after all
   compute issued so far, and compute issued after hil_links_follow starts after the fence; the
   caller does not block. Wall-clock order: hil_links_wait blocks the caller until the fence is
   complete, before it touches the memory itself. On the CPU both orders are the same.

   Copies to and from the device, and `run` of jobs with `queues`, are queued on the link's stream
   and ordered by events. Jobs that need the CPU or a drive start when their fence is complete.
   FETCH and STASH do not wait for compute: they only use the staging ring, which compute never
   touches. The rehearsal's clock advances in stream order, so it does not treat devices apart. */

typedef struct hil_links hil_links; /* owns its threads and queues; borrows disk and device */

typedef struct hil_links_options {
    hil_disk *disk;           /* NULL: none; otherwise open, unless it rehearses */
    const hil_speeds *speeds; /* not NULL: a rehearsal with these speeds, which are copied */
    hil_device *device;       /* borrowed; NULL: the CPU computes. See [Note: device streams] */
    const void *device_base;  /* the device's arena: tells its copies from those of the host */
    size_t device_bytes;
} hil_links_options;
/* Copies the options. Starts the threads on which jobs run. */
hil_status hil_links_create(hil_links **out, const hil_links_options *options);
/* Skips queued jobs, waits for those in flight, and joins the threads. */
void hil_links_destroy(hil_links *links);

/* Most jobs of one link in flight. */
#define HIL_LINK_FLIGHTS 32

typedef enum hil_part_kind { HIL_PART_COPY, HIL_PART_READ, HIL_PART_WRITE } hil_part_kind;
typedef struct hil_part {
    hil_part_kind kind;
    void *to;               /* COPY, READ */
    const void *from;       /* COPY, WRITE */
    size_t bytes;           /* of the copy, or of all pages */
    const hil_extent *disk; /* READ, WRITE; borrowed within hil_links_submit, which copies it */
    int64_t first, count;   /* pages */
} hil_part;

/* Up to HIL_JOB_PARTS transfers, then an optional function. */
#define HIL_JOB_PARTS 8
typedef struct hil_job {
    hil_link link;
    hil_fence after; /* the job starts when this is complete */
    /* UPDATE, GATHER, REDUCE and SAVE only. Runs on the link's thread. */
    hil_status (*run)(void *context, int64_t index);
    bool queues;   /* `run` only queues work on the link's device stream */
    bool marked;   /* `after` has a mark of hil_links_mark: submit adds none */
    bool reversed; /* copies of READ go to the device, those of WRITE to the host */
    void *context;
    int64_t index;
    uint64_t bytes;   /* moved by `run`, for the account */
    double seconds;   /* duration of `run` in a rehearsal */
    double busy;      /* fraction of the CPU's threads that an update has tasks for; 0: all */
    const char *name; /* for the timeline; a string constant */
    int parts;
    hil_part part[HIL_JOB_PARTS]; /* last field: submit copies only the `parts` in use */
} hil_job;

/* Queues a copy of the job and returns at once; joins the job to *fence (may be NULL). Jobs only
   wait for earlier jobs, so there is no deadlock. */
hil_status hil_links_submit(hil_links *links, const hil_job *job, hil_fence *fence);

/* Joins all compute issued so far to *fence. Jobs that are submitted with no compute in between can
   share this mark, instead of one each. */
hil_status hil_links_mark(hil_links *links, hil_fence *fence);

typedef enum hil_wait_reason {
    HIL_WAIT_WEIGHTS,     /* transfer of weights to the device */
    HIL_WAIT_UPDATE,      /* update of weights: the exposed part of the sweep */
    HIL_WAIT_ACTIVATIONS, /* transfer of offloaded activations for backward */
    HIL_WAIT_GRADIENTS,   /* transfer of spilled sums, or staging for outgoing gradients */
    HIL_WAIT_MEMORY,      /* memory whose copy-out is in flight */
    HIL_WAITS
} hil_wait_reason;
/* In files: of a reason's seconds. */
extern const char *const hil_links_wait_name[HIL_WAITS];

/* Compute issued from now on starts after the fence: on the CPU the caller blocks, on a device only
   the compute stream does. Returns the first failure of any job since create. After a failure,
   queued jobs are skipped and count as complete. */
hil_status hil_links_follow(hil_links *links, const hil_fence *fence, hil_wait_reason reason);
/* Blocks the caller until the fence is complete. Fails as hil_links_follow does. */
hil_status hil_links_wait(hil_links *links, const hil_fence *fence, hil_wait_reason reason);
/* Blocks until all jobs and compute so far are complete; counts no stall. */
hil_status hil_links_drain(hil_links *links);
/* `failed` (may be NULL) is called at the first failure of a job, on the thread where it happened,
   which has its message: so other ranks hear of it before the caller waits. */
void hil_links_set_failed(hil_links *links, void (*failed)(void *context, hil_status status),
                          void *context);
/* Says that this is memory of the device too. Before the first job that copies from or to it. */
void hil_links_extend(hil_links *links, const char *device_base, size_t bytes);
/* From now on jobs that copy between host and device call `ready` first, on their link's thread,
   for the memory at both ends: it waits until that is pinned. Before the first such job. */
typedef hil_status hil_memory_ready(void *context, const void *memory, size_t bytes);
void hil_links_set_ready(hil_links *links, hil_memory_ready *ready, void *context);
/* Whether hil_links_wait would return at once (by the clock in a rehearsal). Depends on timing: use
   it for nothing that a rehearsal must predict. */
bool hil_links_over(hil_links *links, const hil_fence *fence);

/* Advances a rehearsal's clock by a computation; does nothing in a run. */
void hil_links_compute(hil_links *links, double seconds);
/* Seconds: the rehearsal's clock, or the machine's. */
double hil_links_now(const hil_links *links);

/* Counts since the last hil_links_take_account. Copies of WRITE jobs count as to_device, those of
   READ jobs as to_host; the reverse for jobs with `reversed`. */
typedef struct hil_account {
    uint64_t bytes[HIL_LINKS]; /* of submitted jobs */
    uint64_t disk_read, disk_written, to_device, to_host;
    double busy[HIL_LINKS]; /* seconds */
    double wait[HIL_WAITS]; /* seconds of stalls by reason */
} hil_account;
void hil_links_take_account(hil_links *links, hil_account *out);

/* Records jobs and waits there, from all threads of the links; NULL: nowhere. Borrowed until the
   next call. */
struct hil_timeline;
void hil_links_set_timeline(hil_links *links, struct hil_timeline *timeline);

#endif
