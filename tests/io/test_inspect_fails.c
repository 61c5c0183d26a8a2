/* If stat always fails, locking a folder and looking for free space still end. */
#include "check.h"
#include "io/file.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MANY 10000 /* more calls than needed: an endless loop */

static int calls;

/* Replace those of the C library: both always fail. */
int stat(const char *restrict path, struct stat *restrict info)
{
    (void)path;
    (void)info;
    CHECK(++calls < MANY);
    errno = EIO;
    return -1;
}

int access(const char *path, int mode)
{
    (void)path;
    (void)mode;
    CHECK(++calls < MANY);
    errno = EIO;
    return -1;
}

static void check_lock(const char *folder)
{
    hil_lock lock;
    calls = 0;
    CHECK_FAILS(hil_lock_take(&lock, folder), HIL_ERR_IO, "cannot be inspected");
    CHECK(calls > 0 && lock.fd < 0);
    hil_lock_drop(&lock);
}

static void check_free_bytes(const char *path)
{
    uint64_t bytes = 0;
    calls = 0;
    CHECK_OK(hil_dir_free_bytes(path, &bytes));
    CHECK(calls > 0 && bytes > 0);
}

int main(void)
{
    char folder[] = "hilbert-inspect-XXXXXX";
    CHECK(mkdtemp(folder) != NULL);
    check_lock(folder);
    check_free_bytes(folder);
    check_free_bytes("a/b/c");
    check_free_bytes("/a/b/c");
    CHECK_OK(hil_file_remove_tree(folder));
    return 0;
}
