/* python_prefixes.c - finds the user's Python environments, whose packages may hold NVIDIA's
 * libraries. */
#include "cli/command.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Adds a folder to the list, unless it is in the list or does not fit. */
static void add(char list[HIL_PATH_MAX], const char *folder, size_t length)
{
    size_t used = strlen(list);
    if (length == 0 || used + length + 2 > HIL_PATH_MAX) return;
    for (const char *at = list; *at; at += strcspn(at, ":"), at += *at == ':')
        if (strncmp(at, folder, length) == 0 && (at[length] == ':' || !at[length])) return;
    snprintf(list + used, HIL_PATH_MAX - used, "%s%.*s", used ? ":" : "", (int)length, folder);
}

/* Adds the environment of the Python at `path`, PREFIX/bin/python3, and those that its symbolic
   links lead to: the Python of a virtual environment is a link to another's. */
static void add_python(char list[HIL_PATH_MAX], char path[HIL_PATH_MAX])
{
    char target[HIL_PATH_MAX], next[HIL_PATH_MAX];
    for (int links = 0; links < 8; ++links) {
        char *name = strrchr(path, '/'), *bin = name;
        while (bin > path && *--bin != '/') continue;
        add(list, path, (size_t)(bin - path));
        ssize_t length = readlink(path, target, sizeof target - 1);
        if (length <= 0) return;
        target[length] = '\0';
        *name = '\0';
        if (*target == '/')
            memcpy(path, target, (size_t)length + 1);
        else if (hil_path_join(next, path, target) == HIL_OK)
            memcpy(path, next, strlen(next) + 1);
        else
            return;
    }
}

const char *hil_command_prefixes(char list[HIL_PATH_MAX])
{
    static const char *const named[] = {"VIRTUAL_ENV", "CONDA_PREFIX"};
    char path[HIL_PATH_MAX];
    const char *folders = getenv("PATH"), *home = getenv("HOME");
    *list = '\0';
    for (size_t i = 0; i < sizeof named / sizeof *named; ++i) {
        const char *folder = getenv(named[i]);
        if (folder) add(list, folder, strlen(folder));
    }
    while (folders && *folders) {
        size_t length = strcspn(folders, ":");
        int size = snprintf(path, sizeof path, "%.*s/python3", (int)length, folders);
        if (*folders == '/' && size < (int)sizeof path && access(path, X_OK) == 0)
            add_python(list, path);
        folders += length + (folders[length] == ':');
    }
    if (home && hil_path_join(path, home, ".local") == HIL_OK) add(list, path, strlen(path));
    return list;
}
