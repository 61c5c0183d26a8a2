/* Pages that are faulted in by the background keep what is written meanwhile, and are there in the
   end; it can be stopped at any time. */
#include "tier/population.h"

#include "base/memory.h"

#include "check.h"

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define BYTES ((size_t)130 << 20) /* three pieces */

static char *map_pages(void)
{
    char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

static size_t resident(char *memory, size_t page)
{
    static unsigned char in[BYTES / 4096];
    size_t count = 0;
    CHECK(mincore(memory, BYTES, in) == 0);
    for (size_t i = 0; i < BYTES / page; ++i) count += in[i] & 1;
    return count;
}

static void populates(int threads)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = BYTES / page;
    hil_population *population;
    char *memory = map_pages();
    CHECK_OK(hil_population_begin(&population, memory, BYTES, threads));
    CHECK(population != NULL);
    for (size_t i = 0; i < pages; i += 7) memory[i * page] = (char)(1 + i % 100);
    bool known = madvise(memory, page, MADV_POPULATE_WRITE) == 0; /* to this Linux */
    for (int i = 0; i < 6000 && known && resident(memory, page) < pages; ++i)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    if (known) CHECK(resident(memory, page) == pages);
    hil_population_end(population);
    for (size_t i = 0; i < pages; ++i)
        CHECK(memory[i * page] == (i % 7 == 0 ? (char)(1 + i % 100) : 0));
    CHECK(munmap(memory, BYTES) == 0);
}

static void stops_at_once(void)
{
    hil_population *population;
    char *memory = map_pages();
    CHECK_OK(hil_population_begin(&population, memory, BYTES, 2));
    hil_population_end(population);
    CHECK(munmap(memory, BYTES) == 0);
    CHECK_OK(hil_population_begin(&population, memory, 4096, 2)); /* too small to pay */
    CHECK(population == NULL);
    hil_population_end(population);
}

int main(void)
{
    populates(1);
    populates(40);
    stops_at_once();
    return 0;
}
