/* Ranges of a file, small and large, aligned or not, in any order, are where they belong; a file
   that is there already is not created again, and a disk without room is found at once. */
#include "io/ranged_file.h"

#include "check.h"
#include "io/file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BYTES = 3 << 20 };

/* Cuts at odd places and at multiples of blocks; written from the last range to the first. */
static void fill(hil_ranged *file, const char *data)
{
    static const size_t cut[] = {0, 100, 4096, 5000, 300000, 1 << 20, (1 << 20) + 4096, 2500001};
    size_t ranges = sizeof cut / sizeof *cut;
    for (size_t i = ranges; i-- > 0;) {
        size_t end = i + 1 < ranges ? cut[i + 1] : BYTES;
        CHECK_OK(hil_ranged_write(file, data + cut[i], end - cut[i], cut[i]));
    }
}

int main(void)
{
    char folder[] = "/tmp/test_ranged.XXXXXX", path[HIL_PATH_MAX];
    CHECK(mkdtemp(folder));
    CHECK_OK(hil_path_join(path, folder, "file"));
    char *data = aligned_alloc(4096, BYTES);
    for (size_t i = 0; i < BYTES; ++i) data[i] = (char)(i * 2654435761u >> 13);

    hil_ranged file = {0}, other = {0};
    hil_bytes back = {0};
    CHECK_OK(hil_ranged_create(&file, path, BYTES));
    fill(&file, data);
    CHECK_OK(hil_ranged_close(&file, true));
    CHECK_OK(hil_bytes_read(&back, path));
    CHECK_INT(back.size, BYTES);
    CHECK(memcmp(back.data, data, BYTES) == 0);
    hil_bytes_free(&back);

    CHECK(hil_ranged_create(&file, path, BYTES) != HIL_OK);
    CHECK_OK(hil_ranged_open(&other, path));
    CHECK_OK(hil_ranged_write(&other, data + 1, BYTES - 1, 0)); /* memory that is not aligned */
    hil_ranged_abandon(&other);
    hil_ranged_abandon(&other);
    CHECK_OK(hil_bytes_read(&back, path));
    CHECK(memcmp(back.data, data + 1, BYTES - 1) == 0);
    hil_bytes_free(&back);

    CHECK_OK(hil_path_join(path, folder, "large"));
    CHECK(hil_ranged_create(&file, path, (uint64_t)1 << 60) != HIL_OK);
    hil_ranged_abandon(&file);
    CHECK_OK(hil_file_remove_tree(folder));
    free(data);
    return 0;
}
