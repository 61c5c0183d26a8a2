/* buffers.c - free lists by size: a step asks for the same sizes as the step before it. */
#include "tier/buffers.h"

#include "base/alloc.h"
#include "base/text.h"

#include <stdlib.h>
#include <sys/mman.h>

#define HEADER 64
#define HUGE_PAGE ((size_t)2 << 20)

typedef struct block {
    struct block *next;
    struct size_list *list;
} block;

typedef struct size_list {
    size_t bytes;
    block *free;
} size_list;

struct hil_buffers {
    size_list **lists; /* sorted by bytes */
    size_t count, capacity;
    uint64_t taken, peak;
};

hil_status hil_memory_map(size_t bytes, void **out)
{
    int how = MAP_PRIVATE | MAP_ANONYMOUS;
    *out = MAP_FAILED;
    if (!hil_alloc_refused())
        *out = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE, how, -1, 0);
    if (*out == MAP_FAILED) {
        char text[32];
        *out = NULL;
        return hil_fail(HIL_ERR_MEMORY, "out of memory: cannot get %s",
                        hil_text_bytes(text, bytes));
    }
    if (bytes >= HUGE_PAGE) (void)madvise(*out, bytes, MADV_HUGEPAGE);
    return HIL_OK;
}

void hil_memory_unmap(void *memory, size_t bytes)
{
    if (memory) munmap(memory, bytes ? bytes : 1);
}

hil_status hil_buffers_create(hil_buffers **out)
{
    return HIL_ALLOC(1, out);
}

void hil_buffers_destroy(hil_buffers *buffers)
{
    if (!buffers) return;
    assert(buffers->taken == 0);
    for (size_t i = 0; i < buffers->count; ++i) {
        size_list *list = buffers->lists[i];
        for (block *b = list->free; b;) {
            block *next = b->next;
            hil_memory_unmap(b, list->bytes + HEADER);
            b = next;
        }
        hil_free(list);
    }
    hil_free(buffers->lists);
    hil_free(buffers);
}

static hil_status find_list(hil_buffers *buffers, size_t bytes, size_list **out)
{
    size_t low = 0, high = buffers->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (buffers->lists[middle]->bytes < bytes)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < buffers->count && buffers->lists[low]->bytes == bytes) {
        *out = buffers->lists[low];
        return HIL_OK;
    }
    HIL_TRY(HIL_GROW(&buffers->lists, &buffers->capacity, buffers->count + 1));
    HIL_TRY(HIL_ALLOC(1, out));
    (*out)->bytes = bytes;
    for (size_t i = buffers->count; i > low; --i) buffers->lists[i] = buffers->lists[i - 1];
    buffers->lists[low] = *out;
    ++buffers->count;
    return HIL_OK;
}

hil_status hil_buffers_take(hil_buffers *buffers, size_t bytes, void **out)
{
    bytes = (bytes + HEADER - 1) / HEADER * HEADER;
    size_list *list;
    HIL_TRY(find_list(buffers, bytes, &list));
    block *b = list->free;
    if (b)
        list->free = b->next;
    else
        HIL_TRY(hil_memory_map(bytes + HEADER, (void **)&b));
    b->list = list;
    buffers->taken += bytes;
    if (buffers->taken > buffers->peak) buffers->peak = buffers->taken;
    *out = (char *)b + HEADER;
    return HIL_OK;
}

void hil_buffers_give(hil_buffers *buffers, void *memory)
{
    if (!memory) return;
    block *b = (block *)(void *)((char *)memory - HEADER);
    b->next = b->list->free;
    b->list->free = b;
    buffers->taken -= b->list->bytes;
}

uint64_t hil_buffers_bytes(const hil_buffers *buffers)
{
    return buffers->taken;
}

uint64_t hil_buffers_peak(const hil_buffers *buffers)
{
    return buffers->peak;
}
