/* budget.c - defaults of the budgets. */
#include "train/budget.h"

#include "base/memory.h"
#include "io/file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

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

/* Folders of one file system share what is free there: those with a size get it, in their order,
   and those without divide the rest. */
static uint64_t share_room(const hil_allowance *allowance, size_t i, dev_t device, uint64_t room)
{
    const hil_disk_budget *disk = allowance->disks;
    uint64_t heirs = 1;
    for (size_t k = 0; k < allowance->disk_count; ++k) {
        struct stat other;
        if (k == i || stat(disk[k].path, &other) != 0 || other.st_dev != device) continue;
        if (!disk[k].bytes)
            ++heirs;
        else if (k < i || !disk[i].bytes)
            room = room > disk[k].bytes ? room - disk[k].bytes : 0;
    }
    if (!disk[i].bytes) return room / heirs;
    return room < disk[i].bytes ? room : disk[i].bytes;
}

static uint64_t sharers_of(const hil_allowance *allowance)
{
    return allowance->sharers > 1 ? (uint64_t)allowance->sharers : 1;
}

static hil_status find_drive(const hil_allowance *allowance, size_t i, hil_drive *out)
{
    const char *path = allowance->disks[i].path;
    struct stat info;
    uint64_t room;
    if (stat(path, &info) != 0)
        return hil_fail(HIL_ERR_IO, "cannot use %s: %s", path,
                        errno == ENOENT ? "there is no such folder" : strerror(errno));
    if (!S_ISDIR(info.st_mode))
        return hil_fail(HIL_ERR_USAGE, "cannot use %s: it is not a folder", path);
    HIL_TRY(hil_folder_free_bytes(path, &room));
    room = share_room(allowance, i, info.st_dev, percent(room, DISK_PERCENT));
    room /= sharers_of(allowance);
    if (room < 4096) return hil_fail(HIL_ERR_IO, "cannot use %s: nothing is free there", path);
    *out = (hil_drive){.path = path, .bytes = room / 4096 * 4096, .speed = 1};
    return HIL_OK;
}

/* A device with memory of its own leaves the RAM to the host. */
static void divide_apart(uint64_t device, uint64_t host, uint64_t available, hil_budget *out)
{
    if (available == UINT64_MAX) available = UNKNOWN;
    if (!host) host = at_least(percent(available, 100 - MARGIN_PERCENT));
    out->device = (size_t)device;
    out->host = (size_t)host;
}

/* What HIL_PERCENT stands for, where it is one. */
static uint64_t resolve(uint64_t bytes, uint64_t of)
{
    return bytes >= HIL_PERCENT(1) ? percent(of, bytes - HIL_PERCENT(0)) : bytes;
}

hil_status hil_budget_find(const hil_allowance *allowance, hil_budget *out, hil_drive *drives)
{
    *out = (hil_budget){0};
    if (allowance->disk_count > HIL_DRIVES)
        return hil_fail(HIL_ERR_USAGE, "at most %d drives", HIL_DRIVES);
    uint64_t sharers = sharers_of(allowance), available = hil_memory_available();
    uint64_t room = allowance->room ? allowance->room : available;
    uint64_t room_sharers = allowance->room_sharers > 1 ? (uint64_t)allowance->room_sharers : 1;
    if (allowance->device_memory >= HIL_PERCENT(1) && room == UINT64_MAX)
        return hil_fail(HIL_ERR_USAGE, "--device-memory: the system does not say how much memory "
                                       "is free; name a size");
    uint64_t device = resolve(allowance->device_memory, room);
    if (available != UINT64_MAX) available /= sharers;
    uint64_t host = allowance->host_memory / sharers;
    if (allowance->host_memory && !host) host = 1;
    if (allowance->room)
        divide_apart(device ? device : room / room_sharers, host, available, out);
    else
        hil_budget_split(device, host, available, out);
    for (size_t i = 0; i < allowance->disk_count; ++i) {
        HIL_TRY(find_drive(allowance, i, &drives[i]));
        out->disk += drives[i].bytes;
    }
    return HIL_OK;
}

void hil_budget_speeds(const hil_machine *machine, hil_drive *drives, size_t count)
{
    for (size_t i = 0; i < count; ++i) drives[i].speed = machine->drive[i].mixed;
}
