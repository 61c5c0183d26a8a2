/* io_backend.h - what an engine does: single transfers, in any order, with a result for each. */
#ifndef HIL_IO_IO_BACKEND_H
#define HIL_IO_IO_BACKEND_H

#include "base/fail.h"

typedef enum hil_io_verb { HIL_IO_DO_READ, HIL_IO_DO_WRITE, HIL_IO_DO_SYNC } hil_io_verb;

/* One transfer. The engine borrows it from submit to completion. */
typedef struct hil_io_op {
    hil_io_verb verb;
    int fd;
    int slot; /* what add_file gave for fd */
    char *bytes;
    size_t size;
    uint64_t offset;
    int64_t result; /* bytes moved, or -errno; set by the engine */
    struct hil_io_op *next;

    /* For io.c only. */
    struct hil_io_request *request;
    size_t left; /* bytes of the piece not yet moved; `size` is the part being moved */
    int tries;   /* in a row without progress */
} hil_io_op;

typedef struct hil_io_setup {
    int depth;    /* operations in flight at most */
    void *buffer; /* memory worth registering; may be NULL */
    size_t buffer_bytes;
    /* Takes a list of operations that ended, on any thread, also inside submit. May submit more. */
    void (*complete)(void *context, hil_io_op *list);
    void *context;
} hil_io_setup;

typedef struct hil_io_backend {
    const char *name;
    hil_status (*create)(void **out, const hil_io_setup *setup);
    void (*destroy)(void *engine); /* nothing is in flight */
    void (*submit)(void *engine, hil_io_op *list);
    int (*add_file)(void *engine, int fd); /* a slot, or -1: use the descriptor */
    void (*drop_file)(void *engine, int slot);
    bool (*registered)(const void *engine); /* whether the buffer is */
} hil_io_backend;

extern const hil_io_backend hil_io_backend_uring, hil_io_backend_threads;

#endif
