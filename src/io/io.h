/* io.h - private to io*.c: drives with queues, files, requests. */
#ifndef HIL_IO_IO_H
#define HIL_IO_IO_H

#include "hilbert/io.h"
#include "io/io_backend.h"

#include <pthread.h>

/* [Note: drives]
   Files on one block device share a drive: one engine, one queue, `depth` operations in flight.
   Drives are independent, so a slow one never delays a fast one. A drive and its operations are
   allocated when a file on it is first opened; starting a request allocates nothing.

   A request is in the queue of its drive while some of its bytes are not in flight. The thread that
   completes an operation reuses it for the next piece: a request proceeds without the thread that
   started it. */
typedef struct hil_io_drive {
    hil_io *io;
    uint64_t device;
    bool bound; /* `device` is set; the first drive is created before the first file */
    const hil_io_backend *backend;
    void *engine;
    hil_io_op *ops, *idle;
    hil_io_request *first, *last;
    struct hil_io_drive *next;
} hil_io_drive;

struct hil_io_file {
    hil_io *io;
    hil_io_drive *drive;
    char *path;
    uint64_t size;
    int access;
    int fd, slot;               /* through the page cache */
    int direct_fd, direct_slot; /* with O_DIRECT; -1: not supported */
    bool direct;
    int busy, writing, handles; /* unfinished requests; writes of these; handles not waited for */
    int sync_error;             /* errno of the first failed flush */
};

struct hil_io_request {
    hil_io_file *file;
    hil_io_request *next;
    hil_io_verb verb;
    char *bytes;
    uint64_t offset, number; /* `number`: order of starts */
    size_t size, issued;     /* `issued`: bytes cut into pieces so far */
    int pieces;              /* in flight */
    int error;               /* errno, or FILE_ENDS; 0: none */
    uint64_t error_offset;
    bool handle, done;
    int waiters;
};

typedef struct hil_io_buffers {
    char *base;
    size_t bytes;
    struct hil_io_run {
        size_t start, size;
    } * run; /* taken parts, by start */
    size_t count, capacity;
} hil_io_buffers;

struct hil_io {
    hil_io_options options;
    pthread_mutex_t lock; /* guards everything below, files and requests */
    pthread_cond_t changed;
    int sleepers; /* threads that wait for `changed` */
    hil_io_drive *drives;
    hil_io_buffers buffers;
    hil_io_request *slots, *idle;
    int stuck; /* finished requests with a handle that no thread waits for */
    int loose; /* unfinished requests without a handle */
    int files;
    uint64_t started;
    uint64_t failed_number; /* of the earliest failure without a handle; 0: none */
    char failed[1024];
    hil_io_counts counts;
};

/* The drive of a block device, created if it is new. */
hil_status hil_io_drive_find(hil_io *io, uint64_t device, hil_io_drive **out);
/* Waits for `changed`. Lock held. */
void hil_io_sleep(hil_io *io);

hil_status hil_io_buffers_create(hil_io_buffers *buffers, size_t bytes);
void hil_io_buffers_destroy(hil_io_buffers *buffers);

#endif
