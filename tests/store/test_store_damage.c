/* A flipped bit anywhere in the swap files is found before the page is used: the run fails with a
   checksum error, or never reads that page again. Its numbers never change. */
#include "runs.h"
#include "store/internal.h"

/* soak: --full */

enum { STEPS = 3 };

static int64_t count;
static float *expected, *got;

/* When a byte is corrupted, and which. */
typedef enum corruption_time { BETWEEN_STEPS, AFTER_GIVING, AFTER_MICRO_BATCH } corruption_time;
typedef struct corruption {
    corruption_time time;
    int64_t target; /* the number of the page, among those that exist at that time */
    uint64_t seed;  /* chooses the byte */
    bool padding;   /* a byte after the data */
    bool done, noticed;
} corruption;

/* Corrupts page h->target if it is in this extent; otherwise adds the extent's pages to *at. */
static void corrupt_extent(rig *r, const hil_extent *extent, int64_t *at, corruption *h)
{
    if (!extent->at) return;
    int64_t page = h->target - *at;
    *at += extent->pages;
    if (page < 0 || page >= extent->pages) return;
    size_t used = extent->page;
    if (page + 1 == extent->pages) used = extent->bytes - (size_t)page * extent->page;
    size_t room = (used + HIL_IO_ALIGN - 1) / HIL_IO_ALIGN * HIL_IO_ALIGN;
    if (!extent->at[page].written || (h->padding && room == used)) return;
    uint32_t word[4];
    hil_philox(h->seed, (uint64_t)h->target, 0, word);
    size_t byte = h->padding ? used + word[0] % (room - used) : word[0] % used;
    CHECK_OK(hil_disk_damage(r->tiers.disk, extent, page, byte));
    h->done = true;
}

/* Corrupts page h->target; false: there is no such page. */
static bool corrupt(rig *r, corruption *h)
{
    int64_t at = 0;
    CHECK_OK(hil_links_drain(r->tiers.links));
    for (size_t u = 0; u < r->store->units; ++u) {
        hil_unit *unit = &r->store->unit[u];
        for (int s = 0; s < HIL_GRADIENT && h->time == BETWEEN_STEPS; ++s)
            corrupt_extent(r, &unit->home[s].extent, &at, h);
        for (int i = 0; i < unit->uses; ++i) {
            const hil_use *use = &unit->use[i];
            if (h->time == AFTER_GIVING && use->given) corrupt_extent(r, &use->home.extent, &at, h);
            if (h->time == AFTER_MICRO_BATCH && use->sum.stored)
                corrupt_extent(r, &use->sum.extent, &at, h);
        }
    }
    return h->target < at;
}

/* A step with one corrupted page. *last: there is no such page. */
static hil_status corrupted_step(rig *r, corruption *h, bool *last, float *out)
{
    double norm;
    if (h->time == BETWEEN_STEPS) *last = !corrupt(r, h);
    HIL_TRY(hil_store_pass_begin(r->store, HIL_PASS_TRAIN));
    for (int s = SEGMENTS - 1; s >= 0; --s) {
        for (int m = 0; m < 2; ++m) {
            HIL_TRY(rig_segment_run(r, s, (float)(m + 1) * 0.25f, -1));
            if (h->time == AFTER_MICRO_BATCH && s == SEGMENTS - 1 && m == 0) *last = !corrupt(r, h);
        }
        HIL_TRY(hil_store_give_gradients(r->store, s));
    }
    HIL_TRY(hil_store_pass_end(r->store));
    if (h->time == AFTER_GIVING) *last = !corrupt(r, h);
    HIL_TRY(hil_store_norm(r->store, &norm));
    *out = (float)norm;
    float scale = (float)(1 / (1 + norm));
    hil_status status = hil_store_update(r->store, rig_rule, &scale, sizeof scale);
    hil_store_step_end(r->store);
    return status;
}

static bool corrupted_run(rig *r, corruption *h)
{
    bool last = false;
    double norm;
    alarm(60);
    CHECK_OK(rig_open(r, 2, HIL_IO_AUTO));
    CHECK_OK(rig_step(r, -1, &norm));
    got[0] = (float)norm;
    hil_status status = corrupted_step(r, h, &last, got + 1);
    if (status == HIL_OK) status = runs_go(r, STEPS - 2, got + 2);
    h->noticed = status != HIL_OK;
    if (h->done && !h->padding && (h->time != AFTER_MICRO_BATCH || h->noticed))
        CHECK_FAILS(status, HIL_ERR_IO, "checksum error in ");
    else
        CHECK_OK(status);
    if (status == HIL_OK) runs_same(got, expected, count);
    rig_close(r);
    alarm(0);
    return last;
}

/* How often the corruption was noticed; for padding, how often it was done. */
static int64_t corrupt_each_page(int placement, corruption_time time, bool padding, int64_t stride)
{
    int64_t found = 0;
    for (int64_t target = 0;; target += stride) {
        rig r;
        corruption h = {
            .time = time, .target = target, .seed = (uint64_t)stride, .padding = padding};
        runs_create(&r, HIL_BF16, placement);
        bool last = corrupted_run(&r, &h);
        found += padding ? h.done : h.noticed;
        if (last) return found;
    }
}

int main(int argc, char **argv)
{
    bool full = argc > 1 && strcmp(argv[1], "--full") == 0;
    fixture_open();
    expected = runs_expected(HIL_BF16, STEPS, &count);
    got = malloc((size_t)count * sizeof *got);
    CHECK(got != NULL);
    for (int placement = EVERYTHING_ON_DISK; placement <= MIXED; ++placement) {
        CHECK(corrupt_each_page(placement, BETWEEN_STEPS, false, full ? 1 : 7) > 3);
        CHECK(corrupt_each_page(placement, AFTER_GIVING, false, full ? 1 : 3) > 1);
        CHECK(corrupt_each_page(placement, BETWEEN_STEPS, true, full ? 1 : 5) > 0);
    }
    CHECK(corrupt_each_page(EVERYTHING_ON_DISK, AFTER_MICRO_BATCH, false, 1) > 0);
    free(expected);
    free(got);
    fixture_close();
    return 0;
}
