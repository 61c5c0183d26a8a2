/* arena.h - many small allocations that are freed together. */
#ifndef HIL_BASE_ARENA_H
#define HIL_BASE_ARENA_H

#include "base/fail.h"

/* Start with {0}. Owns its chunks; reset keeps them for reuse. */
typedef struct hil_arena {
    struct hil_arena_chunk *first, *current;
} hil_arena;

/* Zeroed, 16-byte aligned memory, valid until reset or free. */
hil_status hil_arena_alloc(hil_arena *arena, size_t bytes, void **out);
void hil_arena_reset(hil_arena *arena);
void hil_arena_free(hil_arena *arena);

#define HIL_ARENA_NEW(arena, count, pointer)                                                       \
    hil_arena_alloc((arena), (size_t)(count) * sizeof **(pointer), (void **)(pointer))

#endif
