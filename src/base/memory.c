/* memory.c - mappings; /proc/meminfo and the limits of control groups (version 2 and 1). */
#include "base/memory.h"

#include "base/alloc.h"
#include "base/text.h"

#include <stdio.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)

/* The number after `format` in the first line of the file that has it; UINT64_MAX where none has.
 */
static uint64_t read_number(const char *path, const char *format)
{
    char line[256];
    unsigned long long number;
    uint64_t found = UINT64_MAX;
    FILE *file = fopen(path, "re");
    if (!file) return UINT64_MAX;
    while (found == UINT64_MAX && fgets(line, sizeof line, file))
        if (sscanf(line, format, &number) == 1) found = number;
    fclose(file);
    return found;
}

static uint64_t group_left(const char *limit_path, const char *used_path)
{
    uint64_t limit = read_number(limit_path, "%llu"), used = read_number(used_path, "%llu");
    if (limit == UINT64_MAX || used == UINT64_MAX) return UINT64_MAX;
    return limit > used ? limit - used : 0;
}

uint64_t hil_memory_available(void)
{
    uint64_t least = read_number("/proc/meminfo", "MemAvailable: %llu kB");
    if (least != UINT64_MAX) least *= 1024;
    const uint64_t group[] = {
        group_left("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        group_left("/sys/fs/cgroup/memory/memory.limit_in_bytes",
                   "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    };
    for (int i = 0; i < 2; ++i)
        if (group[i] < least) least = group[i];
    return least;
}

hil_status hil_memory_map(size_t bytes, void **out)
{
    int how = MAP_PRIVATE | MAP_ANONYMOUS;
    *out = MAP_FAILED;
    if (!hil_alloc_refused())
        *out = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE, how, -1, 0);
    if (*out == MAP_FAILED) {
        char text[32];
        *out = NULL;
        return hil_fail(HIL_ERR_MEMORY, "out of memory: cannot get %s",
                        hil_text_bytes(text, bytes));
    }
    if (bytes >= HUGE_PAGE) (void)madvise(*out, bytes, MADV_HUGEPAGE);
    return HIL_OK;
}

void hil_memory_unmap(void *memory, size_t bytes)
{
    if (memory) munmap(memory, bytes ? bytes : 1);
}
