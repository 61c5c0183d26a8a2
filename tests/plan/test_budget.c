/* Budgets that are not set are chosen so that both memories together leave a margin free. */
#include "check.h"
#include "io/file.h"
#include "plan/budget.h"

#include <unistd.h>

#define GIB ((uint64_t)1 << 30)

static void check_split(uint64_t device, uint64_t host, uint64_t available)
{
    hil_budget b = {0};
    hil_budget_split(device, host, available, &b);
    CHECK(b.device > 0 && b.host > 0);
    if (device) CHECK_INT(b.device, device);
    if (host) CHECK_INT(b.host, host);
    bool chosen = !device || !host;
    uint64_t given = device + host;
    if (chosen && given < available / 2 && available >= GIB) {
        CHECK(b.device + b.host <= available / 100 * 86);
        CHECK(b.device + b.host >= available / 100 * 80);
    }
}

static void check_drives(void)
{
    char folder[] = "/tmp/hilbert-budget-XXXXXX";
    CHECK(mkdtemp(folder) != NULL);
    hil_disk_budget disks[] = {{folder, 0}, {folder, 12345678}, {folder, 0}};
    hil_allowance allowance = {.memory = {GIB, GIB, disks, 3, HIL_IO_AUTO}};
    hil_budget b;
    hil_drive drives[HIL_DRIVES];
    CHECK_OK(hil_budget_find(&allowance, &b, drives));
    CHECK(drives[0].bytes > 0 && drives[0].bytes % 4096 == 0);
    CHECK_INT(drives[1].bytes, 12345678 / 4096 * 4096);
    CHECK(b.disk == drives[0].bytes + drives[1].bytes + drives[2].bytes);
    uint64_t room;
    CHECK_OK(hil_dir_free_bytes(folder, &room));
    CHECK(b.disk < room / 2 * 3); /* they share one file system, which other processes write to */
    allowance = (hil_allowance){
        .memory = {GIB, GIB, &(hil_disk_budget){folder, (uint64_t)1 << 60}, 1, HIL_IO_AUTO}};
    CHECK_OK(hil_budget_find(&allowance, &b, drives + 2));
    CHECK(drives[2].bytes < (uint64_t)1 << 60); /* no more than there is */
    CHECK_TEXT(drives[1].path, folder);
    CHECK(rmdir(folder) == 0);
    CHECK_FAILS(hil_budget_find(&allowance, &b, drives), HIL_ERR_IO, "there is no such folder");
    hil_machine machine = {.drive = {{.mixed = 3}, {.mixed = 6}}};
    hil_budget_speeds(&machine, drives, 2);
    CHECK(drives[0].speed == 3 && drives[1].speed == 6);
}

/* Device memory is each rank's; everything else is divided by the ranks of the machine. */
static void check_sharers(void)
{
    char folder[] = "/tmp/hilbert-budget-XXXXXX";
    CHECK(mkdtemp(folder) != NULL);
    hil_disk_budget disk = {folder, 3 << 20};
    hil_allowance allowance = {.memory = {GIB, 6 << 20, &disk, 1, HIL_IO_AUTO}, .sharers = 4};
    hil_budget b, alone;
    hil_drive drive;
    CHECK_OK(hil_budget_find(&allowance, &b, &drive));
    CHECK_INT(b.device, GIB);
    CHECK_INT(b.host, (6 << 20) / 4);
    CHECK_INT(b.disk, (3 << 20) / 4 / 4096 * 4096);
    allowance = (hil_allowance){.sharers = 4};
    CHECK_OK(hil_budget_find(&allowance, &b, &drive));
    allowance.sharers = 1;
    CHECK_OK(hil_budget_find(&allowance, &alone, &drive));
    CHECK(b.device + b.host < alone.device + alone.host);
    if (alone.host > 64 << 20) CHECK(4 * (b.device + b.host) < (alone.device + alone.host) / 2 * 3);
    CHECK(rmdir(folder) == 0);
}

/* A device with memory of its own: the RAM is the host's alone. */
static void check_apart(void)
{
    hil_allowance allowance = {.sharers = 1, .room = 100 * GIB};
    hil_budget b, alone;
    CHECK_OK(hil_budget_find(&(hil_allowance){.sharers = 1}, &alone, NULL));
    CHECK_OK(hil_budget_find(&allowance, &b, NULL));
    CHECK_INT(b.device, 100 * GIB);
    CHECK(b.host > alone.host);
    CHECK(b.host <= (alone.host + alone.device) / 10 * 11); /* of what was free a moment before */
    allowance.memory.device = HIL_PERCENT(30);
    allowance.memory.host = 5 * GIB;
    CHECK_OK(hil_budget_find(&allowance, &b, NULL));
    CHECK_INT(b.device, 30 * GIB);
    CHECK_INT(b.host, 5 * GIB);
    /* Four ranks share it: each gets a part by default; a percentage is of the whole device. */
    allowance.room_sharers = 4;
    CHECK_OK(hil_budget_find(&allowance, &b, NULL));
    CHECK_INT(b.device, 30 * GIB);
    allowance.memory.device = 0;
    CHECK_OK(hil_budget_find(&allowance, &b, NULL));
    CHECK_INT(b.device, 25 * GIB);
    allowance = (hil_allowance){.memory.device = HIL_PERCENT(100), .sharers = 1};
    CHECK_OK(hil_budget_find(&allowance, &b, NULL));
    CHECK(b.device > alone.device / 2);
}

int main(void)
{
    check_apart();
    static const uint64_t given[] = {0, 1 << 20, GIB, 20 * GIB};
    static const uint64_t available[] = {64 << 20, GIB, 16 * GIB, 500 * GIB, UINT64_MAX};
    for (size_t d = 0; d < 4; ++d)
        for (size_t h = 0; h < 4; ++h)
            for (size_t a = 0; a < 4; ++a) check_split(given[d], given[h], available[a]);
    hil_budget b = {0};
    hil_budget_split(0, 0, UINT64_MAX, &b);
    CHECK(b.device > 0 && b.host > 0);
    check_drives();
    check_sharers();
    return 0;
}
