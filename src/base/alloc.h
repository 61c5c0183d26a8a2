/* alloc.h - heap memory; a failed allocation is a status. */
#ifndef HIL_BASE_ALLOC_H
#define HIL_BASE_ALLOC_H

#include "base/fail.h"

/* Zeroed memory of count * size bytes, overflow checked. A zero count gives a valid pointer. */
hil_status hil_alloc(size_t count, size_t size, void **out);

/* Grows *array so that it holds at least `need` elements; *capacity is in elements. */
hil_status hil_grow(void **array, size_t *capacity, size_t need, size_t size);

hil_status hil_text_copy(const char *text, char **out);

void hil_free(void *memory);

/* For tests: the n-th allocation from now fails (1 is the next); 0 switches it off. */
void hil_alloc_fail_at(long n);

/* Counts an allocation made by other means (mmap); true: it must fail. */
bool hil_alloc_refused(void);

/* Allocations made so far by this process through hil_alloc and hil_grow. */
long hil_alloc_count(void);

/* Typed forms: `float *x; HIL_TRY(HIL_ALLOC(n, &x));` */
#define HIL_ALLOC(count, pointer) hil_alloc((size_t)(count), sizeof **(pointer), (void **)(pointer))
#define HIL_GROW(array, capacity, need)                                                            \
    hil_grow((void **)(array), (capacity), (size_t)(need), sizeof **(array))

#endif
