/* memory.c - mappings; /proc/meminfo, the limits of control groups (version 2 and 1) and of the
   process. */
#include "base/memory.h"

#include "base/alloc.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define HUGE_PAGE ((size_t)2 << 20)
#define OWN ((uint64_t)16 << 20)     /* memory of the program itself */
#define THREADS ((uint64_t)64 << 20) /* address space of the program's threads */
#define EACH_THREAD ((uint64_t)10 << 20)

/* The number in the first line of the file that matches `format`; UINT64_MAX if none does. */
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

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* One version of control groups. */
typedef struct version {
    const char *mount, *limit, *used, *cache; /* `cache` as in memory.stat */
    const char *self;                         /* as in /proc/self/cgroup */
} version;

/* Bytes left in one group; counts the page cache as free. */
static uint64_t left_in(const version *v, const char *group)
{
    char path[4096];
    snprintf(path, sizeof path, "%s%s/%s", v->mount, group, v->limit);
    uint64_t limit = read_number(path, "%llu");
    snprintf(path, sizeof path, "%s%s/%s", v->mount, group, v->used);
    uint64_t used = read_number(path, "%llu");
    snprintf(path, sizeof path, "%s%s/memory.stat", v->mount, group);
    uint64_t cache = read_number(path, v->cache);
    if (limit == UINT64_MAX || used == UINT64_MAX) return UINT64_MAX;
    if (cache != UINT64_MAX) used = used > cache ? used - cache : 0;
    return limit > used ? limit - used : 0;
}

/* Least bytes left in this process's group and its ancestors; the root may be a container's. */
static uint64_t group_left(const version *v)
{
    char line[4096], group[3072] = "";
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(line, sizeof line, file)) {
        const char *name = strstr(line, v->self);
        if (name)
            snprintf(group, sizeof group, "%.*s", (int)strcspn(name + strlen(v->self), "\n"),
                     name + strlen(v->self));
    }
    if (file) fclose(file);
    uint64_t least = left_in(v, "");
    for (char *end; (end = strrchr(group, '/')); *end = 0)
        least = smaller(least, left_in(v, group));
    return least;
}

/* Bytes left of the limits on address space and data (ulimit -v, -d), less those for threads. */
static uint64_t process_left(void)
{
    unsigned long long whole = 0, skip, data = 0;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), cpus = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t threads = THREADS + cpus * EACH_THREAD, least = UINT64_MAX;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file && fscanf(file, "%llu %llu %llu %llu %llu %llu", &whole, &skip, &skip, &skip, &skip,
                       &data) != 6)
        whole = data = 0;
    if (file) fclose(file);
    const struct {
        __rlimit_resource_t kind;
        uint64_t used;
    } limits[] = {{RLIMIT_AS, whole * page}, {RLIMIT_DATA, data * page}};
    for (int i = 0; i < 2; ++i) {
        struct rlimit limit;
        if (getrlimit(limits[i].kind, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) continue;
        uint64_t used = limits[i].used + threads;
        least = smaller(least, limit.rlim_cur > used ? limit.rlim_cur - used : 0);
    }
    return least;
}

uint64_t hil_memory_left(int sharers)
{
    static const version versions[] = {
        {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file %llu", "0::"},
        {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
         "total_inactive_file %llu", ":memory:"},
    };
    uint64_t groups = smaller(group_left(&versions[0]), group_left(&versions[1]));
    if (groups != UINT64_MAX) groups /= (uint64_t)sharers;
    return smaller(groups, process_left());
}

uint64_t hil_memory_available(void)
{
    uint64_t machine = read_number("/proc/meminfo", "MemAvailable: %llu kB");
    if (machine != UINT64_MAX) machine *= 1024;
    uint64_t left = hil_memory_left(1);
    if (left != UINT64_MAX) left = left > OWN ? left - OWN : 0;
    return smaller(machine, left);
}

uint64_t hil_memory_most(bool *limited)
{
    uint64_t machine = read_number("/proc/meminfo", "MemTotal: %llu kB");
    if (machine != UINT64_MAX) machine *= 1024;
    uint64_t left = hil_memory_left(1);
    *limited = left < machine;
    return smaller(machine, left);
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
