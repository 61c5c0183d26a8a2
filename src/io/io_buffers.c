/* io_buffers.c - allocates buffers from one aligned block that engines can register. */
#include "io/io.h"

#include "base/text.h"
#include "io/align.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

hil_status hil_io_buffers_create(hil_io_buffers *buffers, size_t bytes)
{
    if (bytes == 0) return HIL_OK;
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) {
        char text[32];
        return hil_fail(HIL_ERR_MEMORY, "cannot allocate %s of I/O buffers: %s",
                        hil_text_bytes(text, bytes), strerror(errno));
    }
    madvise(base, bytes, MADV_HUGEPAGE);
    *buffers = (hil_io_buffers){.base = base, .bytes = bytes};
    return HIL_OK;
}

void hil_io_buffers_destroy(hil_io_buffers *buffers)
{
    if (buffers->base) munmap(buffers->base, buffers->bytes);
    hil_free(buffers->run);
    *buffers = (hil_io_buffers){0};
}

/* First fit among the gaps between buffers. */
static hil_status take(hil_io_buffers *buffers, size_t size, void **out)
{
    size_t at = 0, i = 0;
    for (; i < buffers->count && buffers->run[i].start - at < size; ++i)
        at = buffers->run[i].start + buffers->run[i].size;
    if (buffers->bytes - at < size) {
        char want[32], all[32];
        return hil_fail(HIL_ERR_MEMORY, "no room for an I/O buffer of %s in the %s there are",
                        hil_text_bytes(want, size), hil_text_bytes(all, buffers->bytes));
    }
    HIL_TRY(HIL_GROW(&buffers->run, &buffers->capacity, buffers->count + 1));
    memmove(buffers->run + i + 1, buffers->run + i, (buffers->count - i) * sizeof *buffers->run);
    buffers->run[i] = (struct hil_io_run){at, size};
    ++buffers->count;
    *out = buffers->base + at;
    return HIL_OK;
}

hil_status hil_io_buffer_alloc(hil_io *io, size_t size, void **out)
{
    *out = NULL;
    size_t aligned = hil_align_up(size);
    if (aligned < size || size == 0)
        return hil_fail(HIL_ERR_USAGE, "an I/O buffer cannot have %zu bytes", size);
    pthread_mutex_lock(&io->lock);
    hil_status status = take(&io->buffers, aligned, out);
    pthread_mutex_unlock(&io->lock);
    return status;
}

void hil_io_buffer_free(hil_io *io, void *buffer)
{
    if (!buffer) return;
    hil_io_buffers *buffers = &io->buffers;
    pthread_mutex_lock(&io->lock);
    size_t at = (size_t)((char *)buffer - buffers->base), i = 0;
    while (i < buffers->count && buffers->run[i].start != at) ++i;
    assert(i < buffers->count);
    --buffers->count;
    memmove(buffers->run + i, buffers->run + i + 1, (buffers->count - i) * sizeof *buffers->run);
    pthread_mutex_unlock(&io->lock);
}
