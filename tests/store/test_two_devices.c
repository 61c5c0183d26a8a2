/* Swap files on two file systems, one of which (tmpfs) refuses direct I/O: the same bits, pages on
   both in proportion to their speed, and both ways are reported. */
#include "runs.h"
#include "tier/disk_drives.h"

#include <sys/stat.h>

enum { STEPS = 3 };

static char shared[64];

static void remove_shared(void)
{
    (void)!hil_file_remove_tree(shared);
}

static bool in_memory_here(void)
{
    struct stat here, there;
    snprintf(shared, sizeof shared, "/dev/shm/hilbert-XXXXXX");
    if (!mkdtemp(shared)) return false;
    CHECK(atexit(remove_shared) == 0);
    return stat(folder, &here) == 0 && stat(shared, &there) == 0 && here.st_dev != there.st_dev;
}

static void check(hil_io_kind engine)
{
    rig r;
    int64_t count;
    float *expected = runs_expected(HIL_BF16, STEPS, &count);
    float *got = malloc((size_t)count * sizeof *got);
    CHECK(got != NULL);
    runs_create(&r, HIL_BF16, EVERYTHING_ON_DISK);
    r.drive[1].path = shared;
    CHECK_OK(rig_open(&r, 2, engine));
    CHECK_OK(runs_go(&r, STEPS, got));
    runs_same(got, expected, count);
    CHECK(!hil_io_is_direct(r.tiers.disk->drive[1].file));
    uint64_t bytes[HIL_DRIVES];
    hil_disk_extent(r.tiers.disk, bytes);
    double share = (double)bytes[1] / (double)(bytes[0] + bytes[1]);
    CHECK_NEAR(share, r.drive[1].speed / (r.drive[0].speed + r.drive[1].speed), 0.1);
    rig_close(&r);
    free(expected);
    free(got);
}

int main(void)
{
    fixture_open();
    if (!in_memory_here()) return CHECK_SKIP;
    with_engines(check);
    fixture_close();
    return 0;
}
