/* Which ranks share a device, and how much of it each may use. */
#include "../comm/ranks.h"
#include "machine/devices.h"

#include <stdatomic.h>
#include <string.h>

#define GIB ((size_t)1 << 30)

static atomic_int closed;

static void close_device(hil_device *device)
{
    (void)device;
    atomic_fetch_add(&closed, 1);
}

/* Rank r has device which[r]; -1: none. */
static void share(hil_comm *comm, void *context)
{
    const int *which = context;
    int rank = hil_comm_rank(comm), size = hil_comm_size(comm), expected = 0, sharers, all = 1;
    hil_device own = {.close = close_device}, *device = which[rank] < 0 ? NULL : &own;
    memset(own.id, 1, sizeof own.id);
    own.id[15] = (unsigned char)which[rank];
    for (int r = 0; r < size; ++r) {
        expected += which[r] == which[rank];
        if (which[r] < 0) all = 0;
    }
    CHECK_OK(hil_devices_share(comm, NULL, &device, &sharers));
    CHECK(device == (all ? &own : NULL));
    CHECK_INT(sharers, all ? expected : 1);
}

int main(void)
{
    ranks_run(4, share, (int[]){0, 1, 2, 3});
    ranks_run(4, share, (int[]){0, 0, 1, 0});
    ranks_run(3, share, (int[]){5, 5, 5});
    ranks_run(2, share, (int[]){-1, -1});
    CHECK_INT(closed, 0);
    ranks_run(3, share, (int[]){0, -1, 1});
    CHECK_INT(closed, 2);
    int alone;
    hil_device *none = NULL;
    CHECK_OK(hil_devices_share(NULL, NULL, &none, &alone));
    CHECK_INT(alone, 1);

    /* Each process needs a reserve for libraries that load later. */
    hil_device gpu = {.memory = 80 * GIB, .available = 78 * GIB};
    CHECK(hil_devices_room(&gpu, 1, false) < gpu.available);
    CHECK(hil_devices_room(&gpu, 8, false) < hil_devices_room(&gpu, 1, false));
    CHECK(hil_devices_room(&gpu, 1000, false) >= gpu.available / 2);
    CHECK(hil_devices_room(&gpu, 1, true) < hil_devices_room(&gpu, 1, false));
    CHECK_INT(hil_devices_planned_sharers(&(hil_device_choice){.name = "cuda:1"}, 3), 3);
    CHECK_INT(hil_devices_planned_sharers(&(hil_device_choice){.name = "threads"}, 3), 3);
    return 0;
}
