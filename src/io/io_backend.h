/* io_backend.h - an I/O engine: executes single transfers in any order and returns their results.
 */
#ifndef HIL_IO_IO_BACKEND_H
#define HIL_IO_IO_BACKEND_H

#include "base/fail.h"

typedef enum hil_io_verb { HIL_IO_DO_READ, HIL_IO_DO_WRITE, HIL_IO_DO_SYNC } hil_io_verb;

/* One transfer. The engine borrows it from submit to completion. */
typedef struct hil_io_op {
    hil_io_verb verb;
    int fd;
    int slot; /* of fd, from add_file */
    char *bytes;
    size_t size;
    uint64_t offset;
    int64_t result; /* bytes moved, or -errno; set by the engine */
    struct hil_io_op *next;

    /* private to io.c: */
    struct hil_io_request *request;
    size_t left; /* bytes of the piece not yet moved; `size` is the part being moved */
    int tries;   /* consecutive ones without progress */
} hil_io_op;

typedef struct hil_io_setup {
    int depth;    /* most operations in flight */
    void *buffer; /* memory worth registering; may be NULL */
    size_t buffer_bytes;
    /* Called with a list of completed operations, on any thread, also inside submit. May submit. */
    void (*complete)(void *context, hil_io_op *list);
    void *context;
} hil_io_setup;

typedef struct hil_io_backend {
    const char *name;
    hil_status (*create)(void **out, const hil_io_setup *setup);
    void (*destroy)(void *engine); /* with nothing in flight */
    void (*submit)(void *engine, hil_io_op *list);
    int (*add_file)(void *engine, int fd); /* a slot, or -1: use the descriptor */
    void (*drop_file)(void *engine, int slot);
    bool (*registered)(const void *engine); /* whether the buffer is registered */
} hil_io_backend;

extern const hil_io_backend hil_io_backend_uring, hil_io_backend_threads;

#endif
