/* arena.c - bump allocation in a list of chunks. */
#include "base/arena.h"

#include "base/alloc.h"

#include <stdalign.h>
#include <string.h>

#define CHUNK_BYTES ((size_t)16384)

struct hil_arena_chunk {
    struct hil_arena_chunk *next;
    size_t used, size;
    alignas(16) char data[];
};

static hil_status add_chunk(hil_arena *arena, size_t bytes)
{
    size_t size = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
    struct hil_arena_chunk *chunk;
    HIL_TRY(hil_alloc(1, sizeof *chunk + size, (void **)&chunk));
    chunk->size = size;
    if (arena->current) {
        chunk->next = arena->current->next;
        arena->current->next = chunk;
    } else {
        arena->first = chunk;
    }
    arena->current = chunk;
    return HIL_OK;
}

hil_status hil_arena_alloc(hil_arena *arena, size_t bytes, void **out)
{
    bytes = (bytes + 15) & ~(size_t)15;
    while (!arena->current || arena->current->size - arena->current->used < bytes) {
        if (arena->current && arena->current->next)
            arena->current = arena->current->next;
        else
            HIL_TRY(add_chunk(arena, bytes));
    }
    *out = arena->current->data + arena->current->used;
    memset(*out, 0, bytes);
    arena->current->used += bytes;
    return HIL_OK;
}

void hil_arena_reset(hil_arena *arena)
{
    for (struct hil_arena_chunk *c = arena->first; c; c = c->next) c->used = 0;
    arena->current = arena->first;
}

void hil_arena_free(hil_arena *arena)
{
    for (struct hil_arena_chunk *c = arena->first; c;) {
        struct hil_arena_chunk *next = c->next;
        hil_free(c);
        c = next;
    }
    *arena = (hil_arena){0};
}
