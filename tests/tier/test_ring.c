/* Pieces of a ring wrap around and wait for exactly the pieces they overwrite. */
#include "tier/ring.h"

#include "base/alloc.h"
#include "base/philox.h"

#include "check.h"

#define UNITS 37
#define UNIT ((size_t)HIL_IO_ALIGN)
#define HELD 3 /* pieces of at most MOST units at once: with a tail they fit */
#define MOST 8

static uint32_t dice(uint64_t seed, uint64_t *draw, uint32_t sides)
{
    uint32_t four[4];
    hil_philox(seed, (*draw)++, 0, four);
    return four[0] % sides;
}

/* What must complete before each unit of the ring is written again. */
static hil_fence over[UNITS];

static hil_fence join(size_t begin, size_t end)
{
    hil_fence fence = {0};
    for (size_t i = begin; i < end; ++i) hil_fence_join(&fence, &over[i]);
    return fence;
}

/* A tail that is skipped counts as one piece. */
static void skip(size_t *at)
{
    hil_fence tail = join(*at, UNITS);
    for (size_t i = *at; i < UNITS; ++i) over[i] = tail;
    *at = 0;
}

/* Where the next piece begins. */
static size_t place(size_t *at, size_t units)
{
    if (*at + units > UNITS) skip(at);
    size_t place = *at;
    *at = (*at + units) % UNITS;
    return place;
}

typedef struct held {
    void *memory;
    size_t first, units;
} held;

static held take(hil_ring *ring, size_t bytes, size_t *at, char **base)
{
    held piece = {.units = (bytes + UNIT - 1) / UNIT};
    piece.first = place(at, piece.units);
    hil_fence after, expected = join(piece.first, piece.first + piece.units);
    CHECK_OK(hil_ring_take(ring, bytes, &piece.memory, &after));
    if (!*base) *base = piece.memory;
    CHECK_INT((char *)piece.memory - *base, piece.first * UNIT);
    CHECK_INT((uintptr_t)piece.memory % HIL_IO_ALIGN, 0);
    CHECK(memcmp(&after, &expected, sizeof after) == 0);
    return piece;
}

static void give(hil_ring *ring, const held *piece, const hil_fence *fence)
{
    hil_ring_give(ring, piece->memory, fence);
    for (size_t i = 0; i < piece->units; ++i)
        over[piece->first + i] = fence ? *fence : (hil_fence){0};
}

static void check_circle(hil_tiers *tiers, uint64_t seed)
{
    hil_ring *ring;
    held piece[HELD];
    int count = 0;
    size_t at = 0;
    uint64_t draw = 0, clock = 0;
    char *base = NULL;
    long allocations = 0;
    memset(over, 0, sizeof over);
    CHECK_OK(hil_ring_create(&ring, tiers, UNITS * UNIT + 100));
    CHECK_INT(hil_ring_bytes(ring), UNITS * UNIT);
    for (int step = 0; step < 4000; ++step) {
        if (step == 2000) allocations = hil_alloc_count();
        hil_fence fence = {0};
        fence.after[dice(seed, &draw, HIL_LINKS)] = ++clock;
        if (count == 0 && dice(seed, &draw, 20) == 0) {
            held all = take(ring, UNITS * UNIT, &at, &base);
            give(ring, &all, &fence);
        } else if (count == 0 && dice(seed, &draw, 20) == 0) {
            CHECK_OK(hil_ring_rewind(ring));
            if (at) skip(&at);
        } else if (count < HELD && dice(seed, &draw, 2)) {
            size_t bytes = 1 + dice(seed, &draw, (uint32_t)(MOST * UNIT));
            piece[count++] = take(ring, bytes, &at, &base);
        } else if (count) {
            give(ring, &piece[0], dice(seed, &draw, 4) ? &fence : NULL);
            memmove(piece, piece + 1, (size_t)--count * sizeof *piece);
        }
    }
    CHECK_INT(hil_alloc_count(), allocations);
    hil_ring_destroy(ring);
}

int main(void)
{
    hil_tiers tiers;
    hil_tiers_options options = {.host_bytes = 5 * 40 * UNIT};
    CHECK_OK(hil_tiers_open(&tiers, &options));
    for (uint64_t seed = 1; seed <= 5; ++seed) check_circle(&tiers, seed);
    hil_ring *ring;
    CHECK_FAILS(hil_ring_create(&ring, &tiers, 100 * UNIT), HIL_ERR_BUDGET, "host");
    hil_ring_destroy(NULL);
    hil_tiers_close(&tiers);
    return 0;
}
