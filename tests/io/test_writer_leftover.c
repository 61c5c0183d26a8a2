/* Files that only look temporary neither block a writer nor are changed by it. */
#include "check.h"
#include "io/file.h"

#include <unistd.h>

int main(void)
{
    char folder[] = "/tmp/hilbert-writer-XXXXXX", path[64], left[8][96];
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/file", folder);
    for (int i = 0; i < 8; ++i) {
        snprintf(left[i], sizeof left[i], "%s.tmp.%ld.%d", path, (long)getpid(), i);
        FILE *file = fopen(left[i], "wb");
        CHECK(file && fclose(file) == 0);
    }
    CHECK_OK(hil_file_write(path, "new", 3));
    for (int i = 0; i < 8; ++i) CHECK(hil_file_exists(left[i]));
    hil_bytes map;
    CHECK_OK(hil_bytes_read(&map, path));
    CHECK(map.size == 3 && memcmp(map.data, "new", 3) == 0);
    hil_bytes_free(&map);
    CHECK_OK(hil_file_remove_tree(folder));
    return 0;
}
