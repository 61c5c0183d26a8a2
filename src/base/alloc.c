/* alloc.c - heap memory, counted, and made to fail on request. */
#include "base/alloc.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static atomic_long made;
static atomic_long fail_at;

bool hil_alloc_refused(void)
{
    atomic_fetch_add_explicit(&made, 1, memory_order_relaxed);
    long left = atomic_load_explicit(&fail_at, memory_order_relaxed);
    return left > 0 && atomic_fetch_sub(&fail_at, 1) == 1;
}

static hil_status out_of_memory(size_t count, size_t size)
{
    return hil_fail(HIL_ERR_MEMORY, "out of memory: cannot allocate %zu x %zu bytes", count, size);
}

hil_status hil_alloc(size_t count, size_t size, void **out)
{
    *out = hil_alloc_refused() ? NULL : calloc(count ? count : 1, size ? size : 1);
    return *out ? HIL_OK : out_of_memory(count, size);
}

hil_status hil_grow(void **array, size_t *capacity, size_t need, size_t size)
{
    if (need <= *capacity) return HIL_OK;
    size_t grown = *capacity < 8 ? 8 : *capacity + *capacity / 2;
    if (grown < need) grown = need;
    size_t bytes;
    if (__builtin_mul_overflow(grown, size, &bytes) || hil_alloc_refused())
        return out_of_memory(grown, size);
    void *moved = realloc(*array, bytes);
    if (!moved) return out_of_memory(grown, size);
    *array = moved;
    *capacity = grown;
    return HIL_OK;
}

hil_status hil_text_copy(const char *text, char **out)
{
    size_t bytes = strlen(text) + 1;
    HIL_TRY(HIL_ALLOC(bytes, out));
    memcpy(*out, text, bytes);
    return HIL_OK;
}

void hil_free(void *memory)
{
    free(memory);
}

void hil_alloc_fail_at(long n)
{
    atomic_store(&fail_at, n);
}

long hil_alloc_count(void)
{
    return atomic_load(&made);
}
