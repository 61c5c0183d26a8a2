/* Every task runs exactly once, whatever the number of threads, in its own run. */
#include "base/pool.h"
#include "check.h"

static void add(void *context, int64_t i, int thread)
{
    (void)thread;
    ((int *)context)[i] += (int)i + 1;
}

/* Runs one after the other, with threads that are late for one when the next begins. */
static void check_turns(void)
{
    enum { RUNS = 20000, MOST = 5 };
    static int seen[2][MOST];
    hil_pool *pool;
    CHECK_OK(hil_pool_create(&pool, 4));
    for (int run = 0; run < RUNS; ++run) {
        int *now = seen[run % 2], tasks = 1 + run % MOST;
        memset(now, 0, sizeof seen[0]);
        hil_pool_run(pool, add, now, tasks);
        for (int i = 0; i < MOST; ++i) CHECK_INT(now[i], i < tasks ? i + 1 : 0);
    }
    hil_pool_destroy(pool);
}

int main(void)
{
    check_turns();
    static int seen[5000];
    for (int threads = 1; threads <= 4; ++threads) {
        hil_pool *pool;
        CHECK_OK(hil_pool_create(&pool, threads));
        for (int64_t tasks = 0; tasks < 5000; tasks = tasks * 3 + 1) {
            memset(seen, 0, sizeof seen);
            hil_pool_run(pool, add, seen, tasks);
            for (int i = 0; i < 5000; ++i) CHECK_INT(seen[i], i < tasks ? i + 1 : 0);
        }
        CHECK_OK(hil_pool_reserve(pool, 1000));
        CHECK(hil_pool_scratch(pool, threads - 1) != NULL);
        hil_pool_destroy(pool);
    }
    hil_pool *pool;
    CHECK_OK(hil_pool_create_dry(&pool));
    CHECK(hil_pool_is_dry(pool));
    memset(seen, 0, sizeof seen);
    hil_pool_run(pool, add, seen, 5000);
    for (int i = 0; i < 5000; ++i) CHECK_INT(seen[i], 0);
    CHECK_OK(hil_pool_reserve(pool, (size_t)1 << 60));
    hil_pool_destroy(pool);
    CHECK_NEAR(hil_pool_stretch(4, 3), 1.5, 0);
    CHECK_NEAR(hil_pool_stretch(1, 16), 16, 0);
    CHECK_NEAR(hil_pool_stretch(32, 16), 1, 0);
    CHECK_NEAR(hil_pool_stretch(5, 1), 1, 0);
    CHECK_NEAR(hil_pool_stretch(5, 0), 1, 0); /* of a GPU */
    CHECK_FAILS(hil_pool_create(&pool, -1), HIL_ERR_USAGE, "threads");
    return 0;
}
