/* Budgets are hard, rehearsals map no memory, and every failure at opening is clean. */
#include "base/alloc.h"
#include "device/device_threads.h"
#include "io/io_fixture.h"
#include "speeds.h"
#include "tier/tiers.h"

#include <errno.h>

/* Whether the address is mapped. */
static bool readable(const char *memory)
{
    int ends[2];
    CHECK_INT(pipe(ends), 0);
    ssize_t moved = write(ends[1], memory, 1);
    CHECK(moved == 1 || errno == EFAULT);
    close(ends[0]);
    close(ends[1]);
    return moved == 1;
}

static void budgets(void)
{
    hil_tiers tiers;
    void *a, *b, *c;
    hil_tiers_options options = {.device_bytes = 100000, .host_bytes = 3 * HIL_IO_ALIGN + 100};
    for (int rehearse = 0; rehearse < 2; ++rehearse) {
        options.speeds = rehearse ? &any_speeds : NULL;
        CHECK_OK(hil_tiers_open(&tiers, &options));
        CHECK(tiers.disk == NULL && tiers.io == NULL);
        CHECK_OK(hil_tiers_take(&tiers, HIL_HOST, 100, "a", &a));
        CHECK_OK(hil_tiers_take(&tiers, HIL_HOST, HIL_IO_ALIGN + 1, "b", &b));
        CHECK_FAILS(hil_tiers_take(&tiers, HIL_HOST, 1, "the ring", &c), HIL_ERR_BUDGET,
                    "host memory of 12.1 KiB is too little: the ring needs 1 B and 100 B are left");
        CHECK_INT((uintptr_t)a % HIL_IO_ALIGN, 0);
        CHECK_INT((char *)b - (char *)a, HIL_IO_ALIGN);
        CHECK_OK(hil_tiers_take(&tiers, HIL_DEVICE, 90000, "c", &c));
        CHECK_FAILS(hil_tiers_take(&tiers, HIL_DEVICE, 10000, "more", &a), HIL_ERR_BUDGET,
                    "device memory of 97.7 KiB is too little: more needs 9.8 KiB");
        CHECK_INT(readable(b), !rehearse);
        CHECK_INT(readable(c), !rehearse);
        hil_tiers_close(&tiers);
    }
}

/* Bytes of this process: its addresses, and what is resident of them. */
typedef struct process_size {
    long mapped, resident;
} process_size;

static process_size measure(void)
{
    process_size size = {0, 0};
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%ld %ld", &size.mapped, &size.resident) == 2);
    fclose(file);
    size.mapped *= sysconf(_SC_PAGESIZE);
    size.resident *= sysconf(_SC_PAGESIZE);
    return size;
}

/* Budgets far beyond the machine take no memory until they are used. */
static void lazy(void)
{
    hil_tiers tiers;
    void *memory;
    hil_tiers_options options = {.device_bytes = (size_t)64 << 30, .host_bytes = (size_t)64 << 30};
    long before = measure().resident;
    CHECK_OK(hil_tiers_open(&tiers, &options));
    CHECK_OK(hil_tiers_take(&tiers, HIL_DEVICE, (size_t)60 << 30, "all", &memory));
    memset(memory, 1, MIB);
    CHECK(measure().resident - before < (long)(16 * MIB));
    hil_tiers_close(&tiers);
}

/* A second range of device memory: however adding it fails, nothing stays mapped, and it can be
   added again. */
static void extended(void)
{
    const long more = (long)1 << 30;
    hil_tiers tiers;
    void *memory;
    CHECK_OK(hil_tiers_open(&tiers, &(hil_tiers_options){.device_bytes = HIL_IO_ALIGN}));
    long before = measure().mapped;
    CHECK_MEMORY(hil_tiers_extend(&tiers, (size_t)more));
    CHECK(measure().mapped - before < 2 * more);
    CHECK_OK(hil_tiers_take(&tiers, HIL_DEVICE, (size_t)more, "more", &memory));
    memset(memory, 1, MIB);
    hil_tiers_close(&tiers);
    CHECK(measure().mapped - before < more);
}

static void failures(hil_io_kind engine)
{
    char missing[100];
    int before = open_descriptors();
    hil_tiers tiers;
    hil_drive drive = {folder, MIB, 1};
    uint64_t bytes[HIL_DRIVES] = {64 * KIB};
    hil_tiers_options options = {.device_bytes = MIB,
                                 .host_bytes = MIB,
                                 .drives = &drive,
                                 .drive_count = 1,
                                 .drive_bytes = bytes,
                                 .io = engine};
    for (long n = 1;; ++n) {
        hil_alloc_fail_at(n);
        hil_status status = hil_tiers_open(&tiers, &options);
        hil_alloc_fail_at(0);
        if (status == HIL_OK) break;
        CHECK_FAILS(status, HIL_ERR_MEMORY, "out of memory");
        CHECK_INT(open_descriptors(), before);
        hil_tiers_close(&tiers); /* after a failed open */
        CHECK(n < 200);
    }
    hil_tiers_close(&tiers);
    snprintf(missing, sizeof missing, "%s/nothing", folder);
    drive.path = missing;
    CHECK_FAILS(hil_tiers_open(&tiers, &options), HIL_ERR_IO, missing);
    options.drive_count = HIL_DRIVES + 1;
    CHECK_FAILS(hil_tiers_open(&tiers, &options), HIL_ERR_USAGE, "17 drives");
    CHECK_INT(open_descriptors(), before);
}

/* A refused pin fails with advice, and the tiers stay usable. */
static void pins(void)
{
    hil_tiers tiers;
    hil_device *device;
    void *memory;
    CHECK_OK(hil_device_threads_open(&device));
    hil_tiers_options options = {.device_bytes = 1 << 20, .host_bytes = 1 << 20, .device = device};
    CHECK_OK(hil_tiers_open(&tiers, &options));
    for (int i = 0; i < 8; ++i) { /* apart from each other: the device's list of them grows */
        CHECK_OK(hil_tiers_take(&tiers, HIL_HOST, 1, "a test", &memory));
        CHECK_OK(hil_tiers_take(&tiers, HIL_HOST, 2 * HIL_IO_ALIGN, "a test", &memory));
        CHECK_OK(hil_tiers_pin(&tiers, memory, 2 * HIL_IO_ALIGN, HIL_PIN_FIRST));
    }
    hil_alloc_fail_at(1);
    CHECK_FAILS(hil_tiers_pin_all(&tiers), HIL_ERR_MEMORY,
                "cannot pin 8.0 KiB for copies to and from threads: give less --host-memory");
    hil_alloc_fail_at(0);
    CHECK_OK(hil_tiers_pin_all(&tiers));
    hil_tiers_close(&tiers);
    device->close(device);
}

int main(void)
{
    fixture_open();
    budgets();
    pins();
    lazy();
    extended();
    with_engines(failures);
    fixture_close();
    return 0;
}
