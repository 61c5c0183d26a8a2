/* sizes.c - parses sizes: "64M", "24GB", "1.5 GiB", "50%" and "/mnt/nvme:2T". */
#include "cli/options.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

static hil_status wrong(const char *label, const char *text, bool percent)
{
    return hil_fail(HIL_ERR_USAGE,
                    "%s: '%s' is not a size; write bytes, or 64M, 1.5G or 2T (powers of 1024), or "
                    "24GB (powers of 1000)%s",
                    label, text, percent ? ", or 50%" : "");
}

/* The bytes of a unit: "", "B", "K", "KiB", "KB", ... in any case; 0: not a unit. */
static double unit_bytes(const char *unit)
{
    static const char prefixes[] = "KMGTP";
    if (!*unit || strcasecmp(unit, "B") == 0) return 1;
    const char *prefix = strchr(prefixes, toupper((unsigned char)*unit));
    if (!prefix) return 0;
    int power = (int)(prefix - prefixes) + 1;
    if (!unit[1] || strcasecmp(unit + 1, "iB") == 0) return ldexp(1, 10 * power);
    return strcasecmp(unit + 1, "B") == 0 ? pow(1000, power) : 0;
}

bool hil_size_is_decimal(const char *text)
{
    size_t size = strlen(text);
    return size > 1 && isalpha((unsigned char)text[size - 2]) &&
           tolower((unsigned char)text[size - 1]) == 'b' &&
           tolower((unsigned char)text[size - 2]) != 'i';
}

static hil_status parse_percent(const char *label, const char *text, double number, uint64_t *out)
{
    if (number < 1 || number > 100)
        return hil_fail(HIL_ERR_USAGE, "%s must be from 1%% to 100%%, not %s", label, text);
    if (number != floor(number))
        return hil_fail(HIL_ERR_USAGE, "%s: %s must be a whole percentage", label, text);
    *out = (uint64_t)number;
    return HIL_OK;
}

hil_status hil_size_parse(const char *label, const char *text, uint64_t *out, bool *percent)
{
    size_t whole = strspn(text, "0123456789"), size = whole;
    if (text[size] == '.') size += 1 + strspn(text + size + 1, "0123456789");
    const char *rest = text + size + strspn(text + size, " ");
    bool fraction = size > whole;
    if (whole == 0 || (fraction && size == whole + 1)) return wrong(label, text, percent);
    errno = 0;
    uint64_t number = strtoull(text, NULL, 10);
    if (errno == ERANGE) return hil_fail(HIL_ERR_USAGE, "%s: %s is too large", label, text);
    double real = strtod(text, NULL), unit = unit_bytes(rest);
    if (percent) *percent = strcmp(rest, "%") == 0;
    if (percent && *percent) return parse_percent(label, text, real, out);
    if (unit == 0 || (fraction && unit == 1)) return wrong(label, text, percent);
    if (real * unit >= 0x1p64) return hil_fail(HIL_ERR_USAGE, "%s: %s is too large", label, text);
    *out = fraction ? (uint64_t)(real * unit) : number * (uint64_t)unit;
    return HIL_OK;
}

static bool is_folder(const char *text, size_t size)
{
    char path[HIL_PATH_MAX];
    struct stat info;
    if (size >= sizeof path) return false;
    memcpy(path, text, size);
    path[size] = 0;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

hil_status hil_option_parse_disk(const char *label, const char *text, char *path, uint64_t *bytes)
{
    const char *colon = strrchr(text, ':');
    size_t size = strlen(text), front = colon ? (size_t)(colon - text) : size;
    bool percent = false;
    *bytes = 0;
    /* A folder may be named "a:5G". */
    bool sized = colon && isdigit((unsigned char)colon[1]) &&
                 (is_folder(text, front) || !is_folder(text, size));
    if (sized) {
        HIL_TRY(hil_size_parse(label, colon + 1, bytes, &percent));
        size = front;
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
        return hil_fail(HIL_ERR_IO, "cannot inspect %s: %s", path, strerror(errno));
    *bytes = (uint64_t)info.f_bavail * info.f_frsize / 100 * *bytes;
    return HIL_OK;
}
