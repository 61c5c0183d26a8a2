/* sizes.c - "64M", "50%" and "/mnt/nvme:2T". */
#include "cli/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

static hil_status wrong(const char *label, const char *text, bool percent)
{
    return hil_fail(HIL_ERR_USAGE, "%s: '%s' is not a size such as 4096, 64M%s or 2G", label, text,
                    percent ? ", 50%" : "");
}

hil_status hil_size_parse(const char *label, const char *text, uint64_t *out, bool *percent)
{
    static const char units[] = "KMGT";
    const char *rest = text + strspn(text, "0123456789");
    errno = 0;
    uint64_t number = strtoull(text, NULL, 10);
    if (rest == text) return wrong(label, text, percent);
    if (errno == ERANGE) return hil_fail(HIL_ERR_USAGE, "%s: %s is too large", label, text);
    if (percent) *percent = strcmp(rest, "%") == 0;
    if (percent && *percent) {
        if (number < 1 || number > 100)
            return hil_fail(HIL_ERR_USAGE, "%s must be from 1%% to 100%%, not %s", label, text);
    } else if (*rest) {
        const char *unit = strchr(units, *rest >= 'a' ? *rest - 'a' + 'A' : *rest);
        if (!unit || rest[1]) return wrong(label, text, percent);
        unsigned shift = 10 * (unsigned)(unit - units + 1);
        if (number > UINT64_MAX >> shift)
            return hil_fail(HIL_ERR_USAGE, "%s: %s is too large", label, text);
        number <<= shift;
    }
    *out = number;
    return HIL_OK;
}

hil_status hil_disk_parse(const char *label, const char *text, char *path, uint64_t *bytes)
{
    const char *colon = strrchr(text, ':');
    size_t size = strlen(text);
    bool percent = false;
    *bytes = 0;
    if (colon && hil_size_parse(label, colon + 1, bytes, &percent) == HIL_OK) {
        size = (size_t)(colon - text);
        if (*bytes == 0)
            return hil_fail(HIL_ERR_USAGE, "%s: no bytes of %.*s may be used", label, (int)size,
                            text);
    }
    if (size == 0) return hil_fail(HIL_ERR_USAGE, "%s: '%s' names no folder", label, text);
    memcpy(path, text, size);
    path[size] = 0;
    if (!percent) return HIL_OK;
    struct statvfs info;
    if (statvfs(path, &info) != 0)
        return hil_fail(HIL_ERR_IO, "cannot look at %s: %s", path, strerror(errno));
    *bytes = (uint64_t)info.f_bavail * info.f_frsize / 100 * *bytes;
    return HIL_OK;
}
