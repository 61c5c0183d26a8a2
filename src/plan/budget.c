/* budget.c - defaults and checks of the budgets. */
#include "plan/budget.h"

#include "base/memory.h"
#include "base/text.h"
#include "io/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define MARGIN_PERCENT 15 /* of the free memory stays free */
#define HOST_PERCENT 10
#define LEAST ((uint64_t)16 << 20)
#define UNKNOWN ((uint64_t)4 << 30) /* if the system does not report free memory */
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

/* Folders of one file system share its free space: those with a size get it in their order, those
   without a size divide the rest equally. */
static uint64_t share_room(const hil_allowance *allowance, size_t i, dev_t device, uint64_t room)
{
    const hil_disk_budget *disk = allowance->memory.disks;
    uint64_t heirs = 1;
    for (size_t k = 0; k < allowance->memory.disk_count; ++k) {
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

/* Gives this rank its part of the `room` bytes that a folder has for all ranks of the machine. */
static hil_status give_drive(const hil_allowance *allowance, const char *path, uint64_t room,
                             hil_drive *out)
{
    room /= sharers_of(allowance);
    if (room < 4096) return hil_fail(HIL_ERR_IO, "cannot use %s: nothing is free there", path);
    *out = (hil_drive){.path = path, .bytes = room / 4096 * 4096, .speed = 1};
    return HIL_OK;
}

static hil_status find_drive(const hil_allowance *allowance, size_t i, hil_drive *out)
{
    const char *path = allowance->memory.disks[i].path;
    struct stat info;
    uint64_t room;
    if (allowance->hypothetical && allowance->memory.disks[i].bytes)
        return give_drive(allowance, path, allowance->memory.disks[i].bytes, out);
    if (allowance->hypothetical && stat(path, &info) != 0 && errno == ENOENT)
        return hil_fail(HIL_ERR_IO, "there is no folder %s here: name its size, --disk %s:2T", path,
                        path);
    if (stat(path, &info) != 0)
        return hil_fail(HIL_ERR_IO, "cannot use %s: %s", path,
                        errno == ENOENT ? "there is no such folder" : strerror(errno));
    if (!S_ISDIR(info.st_mode))
        return hil_fail(HIL_ERR_USAGE, "cannot use %s: it is not a folder", path);
    HIL_TRY(hil_dir_free_bytes(path, &room));
    room = share_room(allowance, i, info.st_dev, percent(room, DISK_PERCENT));
    return give_drive(allowance, path, room, out);
}

/* Budgets for a device with memory of its own: all RAM is the host's. */
static void divide_apart(uint64_t device, uint64_t host, uint64_t available, hil_budget *out)
{
    if (available == UINT64_MAX) available = UNKNOWN;
    if (!host) host = at_least(percent(available, 100 - MARGIN_PERCENT));
    out->device = (size_t)device;
    out->host = (size_t)host;
}

/* Turns a HIL_PERCENT into bytes; leaves other budgets as they are. */
static uint64_t resolve(uint64_t bytes, uint64_t of)
{
    return bytes >= HIL_PERCENT(1) ? percent(of, bytes - HIL_PERCENT(0)) : bytes;
}

hil_status hil_budget_find(const hil_allowance *allowance, hil_budget *out, hil_drive *drives)
{
    *out = (hil_budget){0};
    if (allowance->memory.disk_count > HIL_DRIVES)
        return hil_fail(HIL_ERR_USAGE, "at most %d drives", HIL_DRIVES);
    uint64_t sharers = sharers_of(allowance), available = hil_memory_available();
    uint64_t room = allowance->room ? allowance->room : available;
    uint64_t room_sharers = allowance->room_sharers > 1 ? (uint64_t)allowance->room_sharers : 1;
    if (allowance->memory.device >= HIL_PERCENT(1) && room == UINT64_MAX)
        return hil_fail(HIL_ERR_USAGE, "--device-memory: the system does not say how much memory "
                                       "is free; name a size");
    uint64_t device = resolve(allowance->memory.device, room);
    if (available != UINT64_MAX) available /= sharers;
    uint64_t host = allowance->memory.host / sharers;
    if (allowance->memory.host && !host) host = 1;
    if (allowance->room)
        divide_apart(device ? device : room / room_sharers, host, available, out);
    else
        hil_budget_split(device, host, available, out);
    for (size_t i = 0; i < allowance->memory.disk_count; ++i) {
        HIL_TRY(find_drive(allowance, i, &drives[i]));
        out->disk += drives[i].bytes;
    }
    return HIL_OK;
}

/* Names what the user set: "--device-memory 8.0 GiB on each of 4 ranks and --host-memory 2.0 GiB".
 */
static void name_asked(char out[160], uint64_t device, uint64_t sharers, uint64_t host)
{
    char size[32], ranks[40] = "";
    out[0] = 0;
    if (sharers > 1)
        snprintf(ranks, sizeof ranks, " on each of %llu ranks", (unsigned long long)sharers);
    if (device)
        snprintf(out, 160, "--device-memory %s%s%s", hil_text_bytes(size, device), ranks,
                 host ? " and " : "");
    size_t used = strlen(out);
    if (host) snprintf(out + used, 160 - used, "--host-memory %s", hil_text_bytes(size, host));
}

static hil_status check_ram(uint64_t device, uint64_t sharers, uint64_t host)
{
    char asked[160], there[32], most[32];
    bool limited, both = device && host;
    uint64_t bytes = hil_memory_most(&limited), sum = host;
    if (device > (UINT64_MAX - host) / sharers)
        sum = UINT64_MAX;
    else
        sum += device * sharers;
    if (sum <= bytes) return HIL_OK;
    name_asked(asked, device, sharers, host);
    return hil_fail(HIL_ERR_BUDGET,
                    "%s: more than the %s%s: give less --%s-memory%s, at most %s in all, or leave "
                    "%s out",
                    asked, hil_text_bytes(there, bytes),
                    limited ? " that the limits on this process (its control group or ulimit) leave"
                    : both  ? " of RAM here, which is both without a GPU"
                            : " of RAM here",
                    device ? "device" : "host", both ? " or --host-memory" : "",
                    hil_text_bytes(most, percent(hil_memory_available(), 100 - MARGIN_PERCENT)),
                    both ? "both" : "it");
}

hil_status hil_budget_check(const hil_allowance *allowance, const hil_device *device,
                            const hil_budget *budget)
{
    uint64_t sharers = sharers_of(allowance), host = allowance->memory.host;
    uint64_t asked = allowance->memory.device ? budget->device : 0;
    char size[32], free[32], room[32];
    if (!device || !device->available) return check_ram(asked, sharers, host);
    if (asked > device->available)
        return hil_fail(HIL_ERR_BUDGET,
                        "--device-memory %s: %s has %s free: give less --device-memory, at most "
                        "%s, or leave it out",
                        hil_text_bytes(size, asked), device->name,
                        hil_text_bytes(free, device->available),
                        hil_text_bytes(room, allowance->room));
    return check_ram(0, 1, host);
}

void hil_budget_speeds(const hil_machine *machine, hil_drive *drives, size_t count)
{
    for (size_t i = 0; i < count; ++i) drives[i].speed = machine->drive[i].mixed;
}
