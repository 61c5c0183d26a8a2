/* test_channels.c - channels do not wait for each other, and a failure ends the waits on all. */
#include "comm/channels.h"
#include "base/alloc.h"
#include "comm/ranks.h"

static void parallel(hil_comm *comm, void *context)
{
    (void)context;
    channels_parallel(comm);
}

static void fail(hil_comm *comm, void *context)
{
    (void)context;
    channels_break(comm);
}

int main(void)
{
    static const int sizes[] = {2, 3, 8};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        ranks_run(sizes[i], parallel, NULL);
        ranks_run(sizes[i], fail, NULL);
    }
    hil_comm *comms[3];
    long n = 0;
    hil_status status = HIL_ERR_MEMORY;
    while (status == HIL_ERR_MEMORY) {
        hil_alloc_fail_at(++n);
        status = hil_comm_threads_create(3, comms);
    }
    hil_alloc_fail_at(0);
    CHECK_OK(status);
    CHECK(n > 10);
    for (int rank = 0; rank < 3; ++rank) hil_comm_close(comms[rank]);
    return 0;
}
