/* The Python environments that are searched: those that variables name, those of every python3 on
   PATH and of its link targets, and the user's own; each once. */
#include "check.h"
#include "cli/command.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[] = "/tmp/hil_prefixes_XXXXXX";

/* A path under the root; valid for the next three calls. */
static const char *at(const char *name)
{
    static char path[4][HIL_PATH_MAX];
    static int turn;
    turn = (turn + 1) % 4;
    CHECK(hil_path_join(path[turn], root, name) == HIL_OK);
    return path[turn];
}

static void make_folder(const char *name)
{
    CHECK(mkdir(at(name), 0700) == 0);
}

static void make_program(const char *name)
{
    FILE *file = fopen(at(name), "w");
    CHECK(file && fclose(file) == 0 && chmod(at(name), 0700) == 0);
}

static void expect(const char *path, const char *want)
{
    char list[HIL_PATH_MAX];
    CHECK(setenv("PATH", path, 1) == 0);
    CHECK_TEXT(hil_command_prefixes(list), want);
}

int main(void)
{
    char path[HIL_PATH_MAX], want[HIL_PATH_MAX];
    CHECK(mkdtemp(root));
    const char *folders[] = {"base", "base/bin", "env", "env/bin", "links", "none"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; ++i) make_folder(folders[i]);
    make_program("base/bin/python3.12");
    CHECK(symlink("python3.12", at("base/bin/python3")) == 0);
    CHECK(symlink("../../base/bin/python3", at("env/bin/python3")) == 0);
    CHECK(symlink(at("env/bin/python3"), at("links/python3")) == 0);
    unsetenv("VIRTUAL_ENV");
    unsetenv("CONDA_PREFIX");
    unsetenv("HOME");

    expect("/nowhere", "");
    snprintf(path, sizeof path, "/nowhere:bin::%s/none:%s/base/bin", root, root);
    snprintf(want, sizeof want, "%s/base", root);
    expect(path, want);
    snprintf(path, sizeof path, "%s/links", root); /* links/python3 -> env -> base */
    snprintf(want, sizeof want, "%s:%s/env:%s/env/bin/../../base", root, root, root);
    expect(path, want);

    CHECK(setenv("VIRTUAL_ENV", at("env"), 1) == 0 && setenv("CONDA_PREFIX", "/conda", 1) == 0);
    CHECK(setenv("HOME", "/home/me", 1) == 0);
    snprintf(path, sizeof path, "%s/base/bin:%s/base/bin", root, root);
    snprintf(want, sizeof want, "%s/env:/conda:%s/base:/home/me/.local", root, root);
    expect(path, want);

    memset(path, 'x', sizeof path - 1); /* a folder that does not fit is omitted */
    path[0] = '/';
    path[sizeof path - 1] = '\0';
    CHECK(setenv("VIRTUAL_ENV", path, 1) == 0);
    expect("/nowhere", "/conda:/home/me/.local");

    const char *made[] = {"base/bin/python3.12", "base/bin/python3", "env/bin/python3",
                          "links/python3"};
    for (size_t i = 0; i < sizeof made / sizeof *made; ++i) CHECK(unlink(at(made[i])) == 0);
    for (size_t i = sizeof folders / sizeof *folders; i-- > 0;) CHECK(rmdir(at(folders[i])) == 0);
    return rmdir(root);
}
