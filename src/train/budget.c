/* budget.c - defaults of the budgets. */
#include "train/budget.h"

#include "base/memory.h"
#include "io/file.h"

#define MARGIN_PERCENT 15 /* of what is free stays free */
#define HOST_PERCENT 10
#define LEAST ((uint64_t)16 << 20)
#define UNKNOWN ((uint64_t)4 << 30) /* where the system does not say */
#define DISK_PERCENT 95

static uint64_t percent(uint64_t bytes, uint64_t part)
{
    return bytes / 100 * part;
}

static uint64_t at_least(uint64_t bytes)
{
    return bytes > LEAST ? bytes : LEAST;
}

void hil_budget_split(uint64_t device, uint64_t host, uint64_t available, hil_budget *out)
{
    if (available == UINT64_MAX) available = UNKNOWN;
    uint64_t all = percent(available, 100 - MARGIN_PERCENT);
    if (!device && !host) host = at_least(percent(available, HOST_PERCENT));
    if (!device) device = at_least(all > host ? all - host : 0);
    if (!host) host = at_least(all > device ? all - device : 0);
    out->device = (size_t)device;
    out->host = (size_t)host;
}

static hil_status find_drive(const hil_disk_budget *disk, hil_drive *out)
{
    uint64_t room;
    if (!hil_file_exists(disk->path))
        return hil_fail(HIL_ERR_IO, "cannot use %s: there is no such folder", disk->path);
    HIL_TRY(hil_folder_free_bytes(disk->path, &room));
    room = percent(room, DISK_PERCENT);
    if (disk->bytes && disk->bytes < room) room = disk->bytes;
    *out = (hil_drive){.path = disk->path, .bytes = room / 4096 * 4096, .speed = 1};
    return HIL_OK;
}

hil_status hil_budget_find(const hil_allowance *allowance, hil_budget *out, hil_drive *drives)
{
    *out = (hil_budget){0};
    if (allowance->disk_count > HIL_DRIVES)
        return hil_fail(HIL_ERR_USAGE, "at most %d drives", HIL_DRIVES);
    hil_budget_split(allowance->device_memory, allowance->host_memory, hil_memory_available(), out);
    for (size_t i = 0; i < allowance->disk_count; ++i) {
        HIL_TRY(find_drive(&allowance->disks[i], &drives[i]));
        out->disk += drives[i].bytes;
    }
    return HIL_OK;
}

void hil_budget_speeds(const hil_machine *machine, hil_drive *drives, size_t count)
{
    for (size_t i = 0; i < count; ++i) drives[i].speed = machine->drive[i].mixed;
}
