/* Temporary names are unique and recognized as hilbert's; a user's file name never is. */
#include "check.h"
#include "io/file.h"

#include <unistd.h>

static const char *last_part(const char *path)
{
    return strrchr(path, '/') + 1;
}

static void check_names(void)
{
    char a[HIL_PATH_MAX], b[HIL_PATH_MAX], copy[HIL_PATH_MAX];
    CHECK_OK(hil_temporary_name(a, "/some/folder/step-12"));
    CHECK_OK(hil_temporary_name(b, "/some/folder/step-12"));
    CHECK(strcmp(a, b) != 0);
    CHECK(strncmp(a, "/some/folder/step-12.tmp-", 25) == 0);
    CHECK(hil_temporary_is(last_part(a)) && hil_temporary_is(last_part(b)));
    CHECK_OK(hil_temporary_name(b, a)); /* a writer's name for a file that is temporary itself */
    CHECK(hil_temporary_is(last_part(b)));
    CHECK_OK(hil_temporary_name(b, "plain"));
    CHECK(hil_temporary_is(b));
    /* Any other letter, an end that is cut off, another file's name. */
    for (size_t i = 0; last_part(a)[i]; ++i) {
        memcpy(copy, last_part(a), strlen(last_part(a)) + 1);
        copy[i] = copy[i] == 'a' ? 'b' : 'a';
        CHECK(!hil_temporary_is(copy));
        copy[i] = 0;
        CHECK(!hil_temporary_is(copy));
    }
    static const char *const users[] = {
        "",         "data.tmp.1.2",    "notes.tmp",  "tmp-0123456789abcdef-step-4",
        "tmp-mine", "x.tmp.20240101",  "latest.tmp", "x.tmp-00000000000000000000000000000000",
        ".tmp-",    "latest.tmp.12.0", "ranks.tmp",  ".tmp-00000000000000000000000000000000",
    };
    for (size_t i = 0; i < sizeof users / sizeof *users; ++i) CHECK(!hil_temporary_is(users[i]));
}

/* A writer's file has such a name until commit. */
static void check_writer(void)
{
    char folder[] = "/tmp/hilbert-temporary-XXXXXX", path[64];
    hil_writer *writer;
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/file", folder);
    CHECK_OK(hil_writer_open(&writer, path));
    CHECK_OK(hil_writer_add(writer, "new", 3));
    CHECK(!hil_file_exists(path));
    CHECK(rmdir(folder) != 0);
    CHECK_OK(hil_dir_remove_matching(folder, hil_temporary_is)); /* finds it */
    CHECK(rmdir(folder) == 0);
    hil_writer_close(writer);
}

int main(void)
{
    check_names();
    check_writer();
    return 0;
}
