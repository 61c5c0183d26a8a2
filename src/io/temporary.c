/* temporary.c - unique names for incomplete files, recognizable as ours by a checksum. */
#include "io/file.h"

#include "base/hash.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MARK ".tmp-"
#define MARK_BYTES (sizeof MARK - 1)
#define DIGITS 16 /* of the number, and of the checksum after it */

/* Unique across processes, hosts and time. */
static uint64_t new_number(void)
{
    static atomic_uint serial;
    struct {
        char host[64];
        struct timespec time;
        pid_t process;
        unsigned serial;
    } who;
    memset(&who, 0, sizeof who);
    (void)!gethostname(who.host, sizeof who.host);
    clock_gettime(CLOCK_REALTIME, &who.time);
    who.process = getpid();
    who.serial = atomic_fetch_add(&serial, 1);
    return hil_hash(0, &who, sizeof who);
}

static void print_id(char out[2 * DIGITS + 1], uint64_t number, const char *name, size_t size)
{
    snprintf(out, 2 * DIGITS + 1, "%016llx%016llx", (unsigned long long)number,
             (unsigned long long)hil_hash(number, name, size));
}

hil_status hil_temporary_name(char out[HIL_PATH_MAX], const char *path)
{
    char id[2 * DIGITS + 1];
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    print_id(id, new_number(), name, strlen(name));
    if (snprintf(out, HIL_PATH_MAX, "%s" MARK "%s", path, id) < HIL_PATH_MAX) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT, "path too long: %.80s...", path);
}

bool hil_temporary_is(const char *name)
{
    size_t size = strlen(name);
    if (size <= MARK_BYTES + 2 * DIGITS) return false;
    size -= MARK_BYTES + 2 * DIGITS; /* of the final name */
    char id[2 * DIGITS + 1];
    unsigned long long number;
    if (strncmp(name + size, MARK, MARK_BYTES) != 0) return false;
    if (sscanf(name + size + MARK_BYTES, "%16llx", &number) != 1) return false;
    print_id(id, number, name, size);
    return strcmp(name + size + MARK_BYTES, id) == 0;
}
