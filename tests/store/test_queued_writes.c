/* Writing states to disk returns before the drive is done, and what is read afterwards is what was
   written last, whatever the order and the sizes of the writes; a failure surfaces at the end. */
#include "placement.h"

#include "base/clock.h"
#include "io/io_faulty.h"
#include "store/state.h"

#include <errno.h>

enum { PAGE = 4096, MATRIX = 500 * 72 };
#define FAST 1e12
#define SLOW 20000.0 /* a page of weights and one of rests take 0.8 s */

static float want[MATRIX], got[MATRIX], numbers[MATRIX];

static void fill(float *out, int64_t count, uint64_t seed)
{
    uint32_t word[4];
    for (int64_t i = 0; i < count; ++i) {
        hil_philox(seed, (uint64_t)i, 0, word);
        out[i] = (float)(word[0] >> 8) * 0x1p-20f - 8;
    }
}

static void write_range(rig *r, hil_state state, int64_t first, int64_t count, uint64_t seed)
{
    fill(numbers, count, seed);
    CHECK_OK(hil_store_write(r->store, r->param[3], state, first, count, numbers));
    memcpy(want + first, numbers, (size_t)count * sizeof *want);
    memset(numbers, 0, sizeof numbers); /* the store keeps nothing of it */
}

static void compare(rig *r, hil_state state)
{
    CHECK_OK(hil_store_read(r->store, r->param[3], state, 0, MATRIX, got));
    CHECK(memcmp(got, want, sizeof got) == 0);
}

/* A write that waits for the drive takes 0.8 s or more, every time. */
static void check_returns(rig *r)
{
    bool early = false;
    for (int attempt = 0; attempt < 3 && !early; ++attempt) {
        CHECK_OK(hil_store_read(r->store, r->param[3], HIL_MASTER, 0, MATRIX, want));
        hil_io_throttle(SLOW);
        double start = hil_clock_now();
        write_range(r, HIL_MASTER, PAGE, PAGE, 77 + (uint64_t)attempt);
        early = hil_clock_now() - start < 0.4;
        CHECK_OK(hil_store_finish_writes(r->store));
        CHECK(hil_clock_now() - start > 0.4);
        hil_io_throttle(FAST);
    }
    CHECK(early);
    compare(r, HIL_MASTER);
}

/* Whole pages and parts of them, forward, backward and again. */
static void check_orders(rig *r, hil_state state)
{
    uint32_t word[4];
    CHECK_OK(hil_store_read(r->store, r->param[3], state, 0, MATRIX, want));
    for (uint64_t n = 0; n < 200; ++n) {
        hil_philox(9, n, (uint64_t)state, word);
        int64_t first = (int64_t)(word[0] % MATRIX), count = (int64_t)(word[1] % (3 * PAGE)) + 1;
        if (word[2] % 2) first = first / PAGE * PAGE;
        if (word[2] % 4 == 1) count = PAGE;
        if (count > MATRIX - first) count = MATRIX - first;
        write_range(r, state, first, count, n);
        if (word[3] % 16 == 0) compare(r, state);
    }
    compare(r, state);
}

/* The same page twice in a row: the second write is the one that counts. */
static void check_same_page(rig *r)
{
    for (uint64_t n = 0; n < 100; ++n) {
        write_range(r, HIL_MASTER, PAGE, PAGE, 2 * n);
        write_range(r, HIL_MASTER, PAGE, PAGE, 2 * n + 1);
        CHECK_OK(hil_store_read(r->store, r->param[3], HIL_MASTER, PAGE, PAGE, got));
        CHECK(memcmp(got, want + PAGE, PAGE * sizeof *got) == 0);
    }
}

static void check_failure(rig *r)
{
    fill(numbers, MATRIX, 5);
    hil_io_fail_at(3, EIO);
    hil_status status = hil_store_write(r->store, r->param[3], HIL_MASTER, 0, MATRIX, numbers);
    if (status == HIL_OK) status = hil_store_finish_writes(r->store);
    CHECK_FAILS(status, HIL_ERR_IO, "swap");
    hil_io_fail_at(0, 0);
}

int main(void)
{
    rig r;
    rig_create(&r, HIL_BF16);
    rig_place(&r, 3); /* all on disk */
    hil_io_throttle(FAST);
    hil_io_fail_at(1L << 40, EIO);
    CHECK_OK(rig_open(&r, 1, HIL_IO_THREADS));
    check_returns(&r);
    check_orders(&r, HIL_MASTER);
    check_orders(&r, HIL_MOMENT2);
    check_same_page(&r);
    check_failure(&r);
    rig_close(&r);
    return 0;
}
