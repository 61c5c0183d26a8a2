/* links.h - one queue per link; jobs of a link start and retire in order, links run side by side.
   The same calls drive a rehearsal, where jobs take no memory and only a clock advances.

   Several jobs of a link that use the disk are in flight at once: one that needs what an earlier
   one does (writes a page again, reads it back) says so in its fence, also on its own link. So are
   updates by a device and by the CPU. */
#ifndef HIL_TIER_LINKS_H
#define HIL_TIER_LINKS_H

#include "device/device.h"
#include "tier/disk.h"
#include "hilbert/speeds.h"

/* [Note: device streams] A device computes behind the thread that tells it what to compute. Time
   then has two meanings, and calls say which they mean. In the order of what was told
   ("computing"): hil_links_submit: the job begins after all computing told so far;
   hil_links_follow: computing told from now on begins after the fence. On the clock:
   hil_links_wait, for whoever reads memory himself. With the CPU both are the same.

   Copies to and from the device, and `run` of jobs with `queues`, go to the link's stream and
   follow one another there by events; jobs that need the CPU or a drive wait on the clock. FETCH
   and STASH do not wait for what was told: their memory, the ring, is none that is computed with.
   The rehearsal's clock is that of computing, so it needs to know nothing of this. */

typedef struct hil_links hil_links; /* owns its threads and queues; borrows the disk */

typedef struct hil_links_options {
    hil_disk *disk;           /* NULL: none; otherwise open, unless it rehearses */
    const hil_speeds *speeds; /* not NULL: a rehearsal by these speeds, which are copied */
    hil_device *device;       /* borrowed; NULL: the CPU computes. See [Note: device streams] */
    const void *device_base;  /* its arena: which copies are the device's */
    size_t device_bytes;
} hil_links_options;
hil_status hil_links_create(hil_links **out, const hil_links_options *options);
/* Ends at once what can be ended; waits for what is in flight. */
void hil_links_destroy(hil_links *links);

/* Jobs of one link that are in flight at most. */
#define HIL_LINK_FLIGHTS 32

typedef enum hil_part_kind { HIL_PART_COPY, HIL_PART_READ, HIL_PART_WRITE } hil_part_kind;
typedef struct hil_part {
    hil_part_kind kind;
    void *to;               /* COPY, READ */
    const void *from;       /* COPY, WRITE */
    size_t bytes;           /* COPY; of all pages otherwise */
    const hil_extent *disk; /* READ, WRITE; only read by hil_links_submit */
    int64_t first, count;   /* pages */
} hil_part;

/* A few transfers, or a piece of arithmetic, that happen together. */
#define HIL_JOB_PARTS 8
typedef struct hil_job {
    hil_link link;
    hil_fence after; /* starts when this is over */
    /* HIL_LINK_UPDATE, GATHER, REDUCE, SAVE: runs on the link's thread. */
    hil_status (*run)(void *context, int64_t index);
    bool queues;   /* `run` only queues work on the link's stream of the device */
    bool marked;   /* `after` has the computing it follows, of hil_links_mark */
    bool reversed; /* copies go the other way: READ to the device, WRITE to the host */
    void *context;
    int64_t index;
    uint64_t bytes;   /* that `run` moves, for the account */
    double seconds;   /* what `run` takes, for the rehearsal */
    const char *name; /* for the timeline; borrowed for ever */
    int parts;
    hil_part part[HIL_JOB_PARTS]; /* the last: only those that there are get copied */
} hil_job;

/* Queues a job (copied) and returns at once. *fence (may be NULL) becomes: when this job is over,
   joined to what it was. Jobs only wait for earlier jobs, so nothing can hang. */
hil_status hil_links_submit(hil_links *links, const hil_job *job, hil_fence *fence);

/* Joins to *fence all computing told so far: many jobs between which nothing is told need one mark
   in it, and not one each. */
hil_status hil_links_mark(hil_links *links, hil_fence *fence);

typedef enum hil_wait_reason {
    HIL_WAIT_WEIGHTS,     /* on their way to the device */
    HIL_WAIT_UPDATE,      /* not updated yet: the exposed part of the sweep */
    HIL_WAIT_ACTIVATIONS, /* coming back for backward */
    HIL_WAIT_GRADIENTS,   /* sums coming back, or room for gradients that leave */
    HIL_WAIT_MEMORY,      /* of something that still leaves */
    HIL_WAITS
} hil_wait_reason;

/* What is computed from now on begins when this is over: the CPU waits, a device's compute stream
   will. The first failure of any job since create is everybody's. Jobs that have not begun by then
   never do, but count as over. */
hil_status hil_links_follow(hil_links *links, const hil_fence *fence, hil_wait_reason reason);
/* The caller waits until it is over. */
hil_status hil_links_wait(hil_links *links, const hil_fence *fence, hil_wait_reason reason);
/* Waits for everything submitted and computed so far, without a reason. */
hil_status hil_links_drain(hil_links *links);
/* `failed` (NULL: nobody) is called at the first failure of a job, at once, by the thread that has
   its message: whoever other processes wait for tells them. */
void hil_links_set_failed(hil_links *links, void (*failed)(void *context, hil_status status),
                          void *context);
/* Whether a wait would return at once. In a rehearsal: by its clock. Follows timing, so nothing may
   be decided by it that a rehearsal must predict. */
bool hil_links_over(hil_links *links, const hil_fence *fence);

/* The rehearsal's compute: its clock advances. Elsewhere does nothing. */
void hil_links_compute(hil_links *links, double seconds);
/* Seconds: the rehearsal's clock, or the machine's. */
double hil_links_now(const hil_links *links);

/* Since the last call of hil_links_take_account. Copies of WRITE jobs count as to_device, of READ
   jobs as to_host. */
typedef struct hil_account {
    uint64_t bytes[HIL_LINKS]; /* of jobs that were submitted */
    uint64_t disk_read, disk_written, to_device, to_host;
    double busy[HIL_LINKS]; /* seconds */
    double wait[HIL_WAITS];
} hil_account;
void hil_links_take_account(hil_links *links, hil_account *out);

/* Spans of jobs and waits go to it while it is set, from all threads of the links; NULL: nowhere.
   Borrowed. */
struct hil_timeline;
void hil_links_set_timeline(hil_links *links, struct hil_timeline *timeline);

#endif
