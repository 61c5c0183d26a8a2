/* A region gives what a byte map would give: the same addresses, fences and peaks. */
#include "tier/region.h"

#include "base/alloc.h"
#include "base/philox.h"

#include "check.h"

#define UNITS 300
#define ALIGN 64
#define BLOCKS 200

/* Every unit of the range has its owner, or if free the fence of its previous users. Adjacent free
   units share their fence. */
typedef struct map {
    int owner[UNITS]; /* 0: free */
    hil_fence after[UNITS];
    size_t used, peak, extent;
} map;

static hil_fence run_fence(const map *m, size_t begin, size_t end)
{
    hil_fence fence = {0};
    for (size_t i = begin; i < end; ++i) hil_fence_join(&fence, &m->after[i]);
    return fence;
}

/* The shortest run of free units that is long enough, the lowest of equals; the run at the end only
   when no other fits. */
static bool map_take(map *m, size_t units, int owner, size_t *at, hil_fence *after)
{
    size_t best = 0, best_units = SIZE_MAX;
    for (size_t i = 0; i < UNITS;) {
        size_t end = i;
        while (end < UNITS && m->owner[end] == 0) ++end;
        if (end - i >= units && (best_units == SIZE_MAX || (end < UNITS && end - i < best_units))) {
            best = i;
            best_units = end - i;
        }
        i = end > i ? end : i + 1;
    }
    if (best_units == SIZE_MAX) return false;
    *at = best;
    *after = run_fence(m, best, best + best_units);
    for (size_t i = best; i < best + best_units; ++i) m->after[i] = *after;
    for (size_t i = best; i < best + units; ++i) m->owner[i] = owner;
    m->used += units;
    if (m->peak < m->used) m->peak = m->used;
    if (m->extent < best + units) m->extent = best + units;
    return true;
}

static void map_give(map *m, int owner, const hil_fence *after)
{
    for (size_t i = 0; i < UNITS; ++i)
        if (m->owner[i] == owner) {
            m->owner[i] = 0;
            m->after[i] = after ? *after : (hil_fence){0};
            --m->used;
        }
}

static bool same_fence(const hil_fence *a, const hil_fence *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static uint32_t dice(uint64_t seed, uint64_t *draw, uint32_t sides)
{
    uint32_t four[4];
    hil_philox(seed, (*draw)++, 0, four);
    return four[0] % sides;
}

static void check_against_map(uint64_t seed)
{
    static map m;
    memset(&m, 0, sizeof m);
    size_t place[BLOCKS + 1];
    int live[BLOCKS], count = 0, next = 1, idle[BLOCKS], idle_count = 0;
    uint64_t draw = 0, clock = 0;
    int refused = 0;
    hil_region *region;
    CHECK_OK(hil_region_create(&region, UNITS * ALIGN + 13, ALIGN));
    for (int step = 0; step < 3000; ++step) {
        bool take = dice(seed, &draw, 100) < (step / 300 % 2 ? 35u : 65u);
        if (take && count < BLOCKS) {
            int id = idle_count ? idle[--idle_count] : next++;
            size_t bytes = dice(seed, &draw, 4) ? dice(seed, &draw, 10 * ALIGN)
                                                : dice(seed, &draw, 60 * ALIGN);
            size_t units = bytes ? (bytes + ALIGN - 1) / ALIGN : 1;
            size_t offset, expected = 0;
            hil_fence after, expected_after = {0};
            bool found, expected_found = map_take(&m, units, id, &expected, &expected_after);
            CHECK_INT(hil_region_fits(region, bytes), expected_found);
            CHECK_OK(hil_region_take(region, bytes, &offset, &after, &found));
            CHECK_INT(found, expected_found);
            if (found) {
                CHECK_INT(offset, expected * ALIGN);
                CHECK(same_fence(&after, &expected_after));
                place[id] = offset;
                live[count++] = id;
            } else {
                idle[idle_count++] = id;
                ++refused;
            }
        } else if (count) {
            int i = (int)dice(seed, &draw, (uint32_t)count), id = live[i];
            hil_fence after = {0};
            after.after[dice(seed, &draw, HIL_LINKS)] = ++clock;
            bool at_once = dice(seed, &draw, 3) == 0;
            hil_region_give(region, place[id], at_once ? NULL : &after);
            map_give(&m, id, at_once ? NULL : &after);
            live[i] = live[--count];
            idle[idle_count++] = id;
        }
        CHECK_INT(hil_region_used(region), m.used * ALIGN);
        CHECK_INT(hil_region_peak(region), m.peak * ALIGN);
        CHECK_INT(hil_region_extent(region), m.extent * ALIGN);
    }
    CHECK(refused > 0);
    while (count) hil_region_give(region, place[live[--count]], NULL);
    size_t offset;
    hil_fence after;
    bool found;
    CHECK_OK(hil_region_take(region, UNITS * ALIGN, &offset, &after, &found));
    CHECK(found && offset == 0);
    hil_region_destroy(region);
}

static void check_borders(void)
{
    hil_region *region;
    size_t offset;
    hil_fence after;
    bool found;
    CHECK_OK(hil_region_create(&region, 63, 64));
    CHECK_OK(hil_region_take(region, 0, &offset, &after, &found));
    CHECK(!found);
    hil_region_destroy(region);
    CHECK_OK(hil_region_create(&region, 4096, 64));
    CHECK_OK(hil_region_take(region, SIZE_MAX, &offset, &after, &found));
    CHECK(!found);
    CHECK_OK(hil_region_take(region, 4097, &offset, &after, &found));
    CHECK(!found);
    CHECK_OK(hil_region_take(region, 4096, &offset, &after, &found));
    CHECK(found);
    hil_region_destroy(region);
    hil_region_destroy(NULL);
}

/* A region that is just large enough gives the same addresses as a larger one. */
static void check_sizes(uint64_t seed)
{
    enum { LIVE = 60, STEPS = 2000 };
    static size_t places[STEPS];
    size_t bytes = (size_t)1 << 30;
    for (int pass = 0; pass < 2; ++pass) {
        hil_region *region;
        size_t live[LIVE];
        int count = 0;
        uint64_t draw = 0;
        CHECK_OK(hil_region_create(&region, bytes, ALIGN));
        for (int step = 0; step < STEPS; ++step) {
            hil_fence after;
            bool found;
            if (count < LIVE && (count == 0 || dice(seed, &draw, 2))) {
                size_t want = dice(seed, &draw, 100 * ALIGN), offset;
                CHECK_OK(hil_region_take(region, want, &offset, &after, &found));
                CHECK(found);
                if (pass) CHECK_INT(offset, places[step]);
                places[step] = live[count++] = offset;
            } else {
                int i = (int)dice(seed, &draw, (uint32_t)count);
                hil_region_give(region, live[i], NULL);
                live[i] = live[--count];
            }
        }
        bytes = hil_region_extent(region);
        hil_region_destroy(region);
    }
}

/* Thousands of takes and gives allocate nothing once the high-water mark was reached. */
static void check_steady(void)
{
    enum { MANY = 4000 };
    static size_t place[MANY];
    hil_region *region;
    hil_fence after;
    bool found;
    long before = 0;
    CHECK_OK(hil_region_create(&region, (size_t)1 << 40, 64));
    for (int round = 0; round < 3; ++round) {
        if (round == 1) before = hil_alloc_count();
        for (size_t i = 0; i < MANY; ++i) {
            CHECK_OK(hil_region_take(region, 64 + i * 37 % 5000, &place[i], &after, &found));
            CHECK(found);
        }
        for (size_t i = 0; i < MANY; i += 2) hil_region_give(region, place[i], NULL);
        for (size_t i = 1; i < MANY; i += 2) hil_region_give(region, place[i], NULL);
    }
    CHECK_INT(hil_alloc_count(), before);
    CHECK_INT(hil_region_used(region), 0);
    hil_region_destroy(region);
}

/* A failed allocation leaves the region unchanged. */
static void check_refused(void)
{
    for (long n = 1;; ++n) {
        hil_region *region = NULL;
        size_t offset;
        hil_fence after;
        bool found;
        hil_alloc_fail_at(n);
        hil_status status = hil_region_create(&region, 1 << 20, 64);
        for (int i = 0; i < 100 && status == HIL_OK; ++i) {
            size_t used = hil_region_used(region);
            status = hil_region_take(region, 64, &offset, &after, &found);
            if (status != HIL_OK) CHECK_INT(hil_region_used(region), used);
        }
        hil_alloc_fail_at(0);
        hil_region_destroy(region);
        if (status == HIL_OK) break;
        CHECK_INT(status, HIL_ERR_MEMORY);
    }
}

int main(void)
{
    check_borders();
    for (uint64_t seed = 1; seed <= 20; ++seed) check_against_map(seed);
    for (uint64_t seed = 1; seed <= 20; ++seed) check_sizes(seed);
    check_steady();
    check_refused();
    return 0;
}
