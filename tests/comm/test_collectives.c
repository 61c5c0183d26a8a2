/* test_collectives.c - all collective calls, with 1, 2, 3 and 8 ranks as threads. */
#include "comm/collectives.h"
#include "comm/ranks.h"

static void everything(hil_comm *comm, void *context)
{
    (void)context;
    collectives_all(comm);
}

int main(void)
{
    collectives_numbers(NULL);
    collectives_agree(NULL);
    collectives_gather(NULL, HIL_CHANNEL_GATHER, 100, 0);
    collectives_exchange(NULL, HIL_CHANNEL_REDUCE, 100, 0);
    collectives_broadcast(NULL, HIL_CHANNEL_SAVE, 100);
    static const int sizes[] = {1, 2, 3, 8};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) ranks_run(sizes[i], everything, NULL);
    return 0;
}
