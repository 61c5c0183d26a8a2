/* io.h - the asynchronous I/O engine: many reads and writes in flight, bypassing the page cache. */
#ifndef HILBERT_IO_H
#define HILBERT_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hilbert/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Transfers whose offset, size and address are multiples of this bypass the page cache. */
#define HIL_IO_ALIGN 4096

typedef enum hil_io_kind { HIL_IO_AUTO, HIL_IO_URING, HIL_IO_THREADS } hil_io_kind;

typedef struct hil_io_options {
    size_t size;         /* set by hil_io_defaults */
    hil_io_kind engine;  /* AUTO: io_uring if the kernel allows it, otherwise threads */
    int depth;           /* pieces in flight on each drive */
    size_t split;        /* bytes of a piece that requests are cut into; multiple of HIL_IO_ALIGN */
    int requests;        /* most requests that are started and not yet waited for */
    size_t buffer_bytes; /* memory for hil_io_buffer_alloc; 0: none */
} hil_io_options;

/* All functions below are thread-safe, also on the same object. */
typedef struct hil_io hil_io;                 /* owns threads, rings and buffers */
typedef struct hil_io_file hil_io_file;       /* owns descriptors; borrows its hil_io */
typedef struct hil_io_request hil_io_request; /* owned by its hil_io; valid until hil_io_wait */

HIL_API void hil_io_defaults_sized(hil_io_options *options, size_t size);
#define hil_io_defaults(options) hil_io_defaults_sized(options, sizeof *(options))
/* HIL_IO_URING fails if the build or the system has no io_uring. The options are copied. */
HIL_API hil_status hil_io_create(hil_io **out, const hil_io_options *options);
/* All files must be closed before. */
HIL_API void hil_io_destroy(hil_io *io);
/* "uring" or "threads". */
HIL_API const char *hil_io_engine(const hil_io *io);

/* Memory of at least `size` bytes, aligned to HIL_IO_ALIGN, from the `buffer_bytes` of the options;
   fails when they are used up. Optional: requests accept any address. */
HIL_API hil_status hil_io_buffer_alloc(hil_io *io, size_t size, void **out);
HIL_API void hil_io_buffer_free(hil_io *io, void *buffer);
/* Whether the buffers are registered with the kernel (io_uring, and RLIMIT_MEMLOCK was enough).
   Unregistered buffers work too, a little slower. */
HIL_API bool hil_io_buffers_registered(const hil_io *io);

enum { HIL_IO_READ = 1, HIL_IO_WRITE = 2, HIL_IO_CREATE = 4 };

/* `access` is HIL_IO_READ, HIL_IO_WRITE or both, plus HIL_IO_CREATE to create a missing file (mode
   0600). Uses O_DIRECT if the file system supports it. */
HIL_API hil_status hil_io_open(hil_io *io, const char *path, int access, hil_io_file **out);
/* An unlinked file of `size` bytes in `folder`, for reading and writing: mode 0600, preallocated,
   removed by the kernel when it is closed or the process ends. */
HIL_API hil_status hil_io_open_scratch(hil_io *io, const char *folder, uint64_t size,
                                       hil_io_file **out);
/* Waits for the requests in flight. Requests with a handle must have been waited for. */
HIL_API void hil_io_close(hil_io_file *file);
/* Whether aligned requests bypass the page cache. */
HIL_API bool hil_io_is_direct(const hil_io_file *file);
/* Bytes in the file when it was opened. */
HIL_API uint64_t hil_io_size(const hil_io_file *file);
/* Borrowed: for flock, fallocate, ftruncate. */
HIL_API int hil_io_descriptor(const hil_io_file *file);

/* Starts a transfer of any size and returns. Pieces run in parallel; short transfers are resumed.
   The engine uses `bytes` until hil_io_wait returns. Blocks only while all `requests` of the
   options are in use; fails if all of these are finished and no thread waits for one. With `out`
   NULL there is no handle, and hil_io_wait_all returns the request's failure. Any offset, size and
   address works. On a direct file, bytes outside whole aligned blocks go through the page cache;
   all bytes do if (address - offset) is no multiple of HIL_IO_ALIGN. hil_io_count counts them. */
HIL_API hil_status hil_io_read_start(hil_io_file *file, uint64_t offset, void *bytes, size_t size,
                                     hil_io_request **out);
HIL_API hil_status hil_io_write_start(hil_io_file *file, uint64_t offset, const void *bytes,
                                      size_t size, hil_io_request **out);
/* Whether hil_io_wait would return at once. */
HIL_API bool hil_io_is_done(hil_io_request *request);
/* Waits, frees the request, and returns its status: "cannot read FILE at 12.0 GiB: ...". A read
   beyond the end of the file is a failure. */
HIL_API hil_status hil_io_wait(hil_io_request *request);
/* Waits for every request that was started without a handle, and returns the failure of the
   earliest that failed. */
HIL_API hil_status hil_io_wait_all(hil_io *io);

HIL_API hil_status hil_io_read(hil_io_file *file, uint64_t offset, void *bytes, size_t size);
HIL_API hil_status hil_io_write(hil_io_file *file, uint64_t offset, const void *bytes, size_t size);
/* Waits for the file's writes and makes them durable (fsync). A failure is final: writes may be
   lost, and every later flush of this file fails too. */
HIL_API hil_status hil_io_flush(hil_io_file *file);

typedef struct hil_io_counts {
    uint64_t read_bytes, written_bytes;
    uint64_t cached_bytes; /* of these, on direct files, through the page cache */
    uint64_t resumed;      /* short or repeated transfers */
} hil_io_counts;
/* Transfers completed since hil_io_create. */
HIL_API void hil_io_count(hil_io *io, hil_io_counts *out);

#ifdef __cplusplus
}
#endif
#endif
