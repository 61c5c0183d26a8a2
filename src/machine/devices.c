/* devices.c - opens what --device names. */
#include "machine/devices.h"

#include "base/alloc.h"
#include "comm/comm.h"
#include "device/device_limit.h"
#include "device/device_threads.h"
#include "ops/ops_threads.h"
#include "optim/math_threads.h"
#include "machine/cuda_load.h"
#include "base/note.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_EACH "threads:each"

#define RESERVE ((uint64_t)256 << 20) /* and 1 / RESERVE_PART: kernels load at first use */
#define RESERVE_PART 50
#define RESERVE_CONNECTED ((uint64_t)1 << 30) /* NCCL allocates buffers in its first calls */

/* "threads": one device shared by the ranks of a machine; "threads:each": one for each rank. */
static hil_status open_threads(bool each, const hil_comm *comm, hil_device **out)
{
    HIL_TRY(hil_device_threads_open(out));
    if (each) (*out)->id[0] = (unsigned char)(hil_comm_rank(comm) + 128);
    hil_device_ops_set(*out, &hil_ops_threads);
    hil_device_math_set(*out, &hil_math_threads);
    return HIL_OK;
}

static hil_status open_gpu(const char *prefixes, int index, hil_device **out)
{
    hil_cuda_module_open open;
    HIL_TRY(hil_gpu_load(prefixes, &open));
    return open(out, index, hil_fail);
}

/* "cuda", "cuda:N" */
static hil_status parse_index(const char *name, int rank, int count, int *out)
{
    const char *number = name + strlen("cuda");
    char *end = NULL;
    long index = 0;
    *out = count ? rank % count : 0;
    if (!*number) return HIL_OK;
    if (*number == ':' && number[1] >= '0' && number[1] <= '9')
        index = strtol(number + 1, &end, 10);
    if (!end || *end || index > 1 << 16)
        return hil_fail(HIL_ERR_USAGE, "--device %s: expected auto, cpu, cuda or cuda:N", name);
    *out = (int)index;
    return HIL_OK;
}

static hil_status open_named(const char *name, const char *prefixes, const hil_comm *comm,
                             hil_device **out)
{
    int index;
    if (strcmp(name, "cpu") == 0) return HIL_OK;
    if (strcmp(name, "threads") == 0) return open_threads(false, comm, out);
    if (strcmp(name, THREADS_EACH) == 0) return open_threads(true, comm, out);
    if (strncmp(name, "cuda", 4) != 0)
        return hil_fail(HIL_ERR_USAGE, "--device %s: expected auto, cpu, cuda or cuda:N", name);
    int count = hil_gpu_visible();
    HIL_TRY(parse_index(name, hil_comm_local_rank(comm), count, &index));
    if (count == 0)
        return hil_fail(HIL_ERR_INPUT,
                        "--device %s: there is no GPU here that NVIDIA's driver "
                        "shows (see nvidia-smi, CUDA_VISIBLE_DEVICES)",
                        name);
    return open_gpu(prefixes, index, out);
}

/* "NAME@SPEED": the device behind a bus of that many GB/s. */
static hil_status open_limited(const hil_device_choice *choice, const char *at,
                               const hil_comm *comm, hil_device **out)
{
    char name[64], *end = NULL;
    double speed = strtod(at + 1, &end);
    if (end == at + 1 || *end || !(speed > 0))
        return hil_fail(HIL_ERR_USAGE, "--device %s: expected GB/s after @", choice->name);
    snprintf(name, sizeof name, "%.*s", (int)(at - choice->name), choice->name);
    HIL_TRY(open_named(name, choice->prefixes, comm, out));
    if (!*out) return hil_fail(HIL_ERR_USAGE, "--device %s: a CPU has no bus", choice->name);
    hil_status status = hil_device_limit(*out, speed * 1e9);
    if (status == HIL_OK) return HIL_OK;
    hil_devices_close(*out);
    *out = NULL;
    return status;
}

hil_status hil_devices_open(const hil_device_choice *choice, const hil_comm *comm,
                            const hil_observer *observer, hil_device **out)
{
    int rank = hil_comm_local_rank(comm);
    *out = NULL;
    const char *at = choice->name ? strchr(choice->name, '@') : NULL;
    if (at) return open_limited(choice, at, comm, out);
    if (choice->name && strcmp(choice->name, "auto") != 0)
        return open_named(choice->name, choice->prefixes, comm, out);
    int count = hil_gpu_visible();
    if (count == 0 || open_gpu(choice->prefixes, rank % count, out) == HIL_OK) return HIL_OK;
    hil_note(observer, "the GPU is not used: %s", hil_status_message());
    return HIL_OK;
}

bool hil_devices_gpu(const hil_device *device)
{
    return device && hil_device_ops_of(device) != &hil_ops_threads;
}

hil_status hil_devices_check_fp8(const hil_device *device)
{
    if (!device || device->fp8) return HIL_OK;
    return hil_fail(HIL_ERR_USAGE,
                    "--dtype fp8: %s has no products in 8 bits (compute capability 8.9 or newer "
                    "has); use --dtype bf16",
                    device->name);
}

void hil_devices_close(hil_device *device)
{
    if (device) device->close(device);
}

typedef struct holder {
    int holds; /* whether the rank has a device */
    unsigned char id[sizeof((hil_device *)0)->id];
} holder;

/* Ids of GPUs are globally unique; the test device has the same id on every machine, so the
   count is capped at the ranks of this machine. */
static int count_sharers(const hil_comm *comm, const holder *all, const holder *mine)
{
    int same = 0, local = hil_comm_local_size(comm);
    for (int rank = 0; rank < hil_comm_size(comm); ++rank)
        same += memcmp(all[rank].id, mine->id, sizeof mine->id) == 0;
    return same < local ? same : local;
}

hil_status hil_devices_share(hil_comm *comm, const hil_observer *observer, hil_device **device,
                             int *sharers)
{
    int ranks = hil_comm_size(comm), without = -1;
    holder mine = {.holds = *device != NULL}, *all = NULL;
    *sharers = 1;
    if (ranks == 1) return HIL_OK;
    if (*device) memcpy(mine.id, (*device)->id, sizeof mine.id);
    hil_status status = hil_comm_agree(comm, HIL_CHANNEL_CONTROL, HIL_ALLOC(ranks, &all), NULL);
    if (status == HIL_OK)
        status = hil_comm_gather(comm, HIL_CHANNEL_CONTROL, &mine, all, sizeof mine);
    for (int rank = 0; rank < ranks && status == HIL_OK; ++rank)
        if (!all[rank].holds) without = rank;
    if (status == HIL_OK && *device && without < 0) *sharers = count_sharers(comm, all, &mine);
    hil_free(all);
    if (!*device || without < 0) return status;
    hil_note(observer, "the GPU is not used: rank %d has none, and all ranks compute alike",
             without);
    hil_devices_close(*device);
    *device = NULL;
    return status;
}

int hil_devices_planned_sharers(const hil_device_choice *choice, int ranks)
{
    const char *name = choice->name ? choice->name : "auto";
    bool each = strcmp(name, "auto") == 0 || strcmp(name, "cuda") == 0;
    int count = each ? hil_gpu_visible() : 1;
    if (strcmp(name, THREADS_EACH) == 0) return 1;
    return count > 1 ? (ranks + count - 1) / count : ranks;
}

uint64_t hil_devices_room(const hil_device *device, int sharers, bool connected)
{
    if (!device->available) return 0;
    uint64_t processes = sharers > 1 ? (uint64_t)sharers : 1;
    uint64_t reserve = processes * RESERVE + device->memory / RESERVE_PART;
    uint64_t least = device->available / 2;
    if (connected) reserve += RESERVE_CONNECTED;
    return device->available > reserve + least ? device->available - reserve : least;
}
