/* Pages that are faulted in by the background keep what is written meanwhile, and are there in the
   end; it can be stopped at any time. Copies wait until their own memory is pinned. */
#include "tier/tiers.h"

#include "base/memory.h"
#include "device/device_threads.h"

#include "check.h"

#include <pthread.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define BYTES ((size_t)130 << 20) /* 65 pieces */

static char *map_pages(void)
{
    char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

static hil_status begin(hil_population **out, char *memory, size_t bytes, int threads)
{
    hil_population_task task = {.memory = memory, .bytes = bytes, .threads = threads};
    return hil_population_begin(out, &task);
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
    CHECK_OK(begin(&population, memory, BYTES, threads));
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
    CHECK_OK(begin(&population, memory, BYTES, 2));
    hil_population_end(population);
    CHECK(munmap(memory, BYTES) == 0);
    CHECK_OK(begin(&population, memory, 4096, 2)); /* too small to pay */
    CHECK(population == NULL);
    hil_population_end(population);
}

#define COPIED ((size_t)16 << 10) /* more than may be copied without being pinned */
#define HOST_BYTES ((size_t)4 << 20)
#define PINS_MOST 16

static const hil_device_heap *heap; /* of the device for tests */

/* What the device is asked to pin: it refuses, or takes its time. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool refused;
    const char *blocked; /* the range at this address waits for `open` */
    bool open;
    int together;               /* each waits until so many are pinned at the same time */
    int inside, most;           /* now, and at most */
    const char *pin[PINS_MOST]; /* in the order in which they began */
    size_t bytes[PINS_MOST];
    int count;
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static hil_status pin_at_gate(hil_device *device, void *memory, size_t bytes)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20;
    pthread_mutex_lock(&gate.lock);
    CHECK(gate.count < PINS_MOST);
    gate.bytes[gate.count] = bytes;
    gate.pin[gate.count++] = memory;
    if (++gate.inside > gate.most) gate.most = gate.inside;
    pthread_cond_broadcast(&gate.changed);
    int error = 0;
    while (!error && ((memory == gate.blocked && !gate.open) || gate.most < gate.together))
        error = pthread_cond_timedwait(&gate.changed, &gate.lock, &until);
    --gate.inside;
    bool refused = gate.refused;
    pthread_mutex_unlock(&gate.lock);
    if (refused) return hil_fail(HIL_ERR_MEMORY, "refused");
    return heap->pin(device, memory, bytes);
}

static int pins_so_far(void)
{
    pthread_mutex_lock(&gate.lock);
    int count = gate.count;
    pthread_mutex_unlock(&gate.lock);
    return count;
}

static void open_gate(void)
{
    pthread_mutex_lock(&gate.lock);
    gate.open = true;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.lock);
}

typedef struct world {
    hil_device *device;
    hil_device_heap gated;
    hil_tiers tiers;
    char *host, *arena;
} world;

static void begin_world(world *w)
{
    gate.refused = gate.open = false;
    gate.blocked = NULL;
    gate.together = gate.inside = gate.most = gate.count = 0;
    CHECK_OK(hil_device_threads_open(&w->device));
    heap = w->device->heap;
    w->gated = *heap;
    w->gated.pin = pin_at_gate;
    w->device->heap = &w->gated;
    hil_tiers_options options = {
        .device_bytes = HOST_BYTES, .host_bytes = HOST_BYTES, .device = w->device};
    CHECK_OK(hil_tiers_open(&w->tiers, &options));
    CHECK_OK(hil_tiers_take(&w->tiers, HIL_DEVICE, HOST_BYTES, "a test", (void **)&w->arena));
    CHECK_OK(hil_tiers_take(&w->tiers, HIL_HOST, HOST_BYTES, "a test", (void **)&w->host));
}

static void end_world(world *w)
{
    open_gate();
    hil_tiers_close(&w->tiers);
    w->device->close(w->device);
}

static hil_status copy_out(world *w, char *to, size_t bytes)
{
    hil_fence fence = {0};
    hil_job job = {
        .link = HIL_LINK_OUT, .parts = 1, .part = {{.to = to, .from = w->arena, .bytes = bytes}}};
    CHECK_OK(hil_links_submit(w->tiers.links, &job, &fence));
    return hil_links_wait(w->tiers.links, &fence, HIL_WAIT_GRADIENTS);
}

static void pin(world *w, size_t at, size_t bytes, hil_pin_order order)
{
    CHECK_OK(hil_tiers_pin(&w->tiers, w->host + at, bytes, order));
}

/* A copy to host memory that cannot be pinned. */
static void says_that_it_is_refused(hil_pin_order order)
{
    world w;
    begin_world(&w);
    gate.refused = true;
    pin(&w, 0, COPIED, order);
    CHECK_OK(hil_tiers_populate(&w.tiers, 2));
    CHECK_FAILS(copy_out(&w, w.host, COPIED), HIL_ERR_MEMORY, "cannot pin 16.0 KiB");
    end_world(&w);
}

/* Weights are copied while the rest is still being pinned, in the order that was asked for. */
static void waits_for_its_own(void)
{
    world w;
    size_t far = HOST_BYTES / 2;
    begin_world(&w);
    pin(&w, 0, far - COPIED, HIL_PIN_LATER);
    pin(&w, far, COPIED, HIL_PIN_FIRST);
    gate.blocked = w.host;
    CHECK_OK(hil_tiers_populate(&w.tiers, 1));
    CHECK_OK(copy_out(&w, w.host + far, COPIED));
    CHECK(gate.pin[0] == w.host + far);
    open_gate();
    CHECK_OK(copy_out(&w, w.host, COPIED));
    end_world(&w);
}

/* One range is pinned by several threads, in pieces; copies may cross them. */
static void pins_in_parallel(void)
{
    static char pages[BYTES];
    world w;
    hil_population *population;
    hil_pins *pins;
    begin_world(&w);
    gate.together = 2;
    CHECK_OK(hil_pins_create(&pins, w.device));
    CHECK_OK(hil_pins_add(pins, w.host, HOST_BYTES, HIL_PIN_FIRST));
    CHECK_OK(hil_pins_queue(pins));
    hil_population_task task = {.pins = pins, .memory = pages, .bytes = BYTES, .threads = 2};
    CHECK_OK(hil_population_begin(&population, &task));
    CHECK_OK(hil_pins_wait(pins, w.host, HOST_BYTES));
    CHECK(gate.most >= 2);
    CHECK_OK(copy_out(&w, w.host + 100, HOST_BYTES - 200));
    hil_population_end(population);
    CHECK_OK(hil_links_drain(w.tiers.links));
    hil_pins_destroy(pins);
    end_world(&w);
}

/* Memory that may never be used is pinned by the copy that needs it, and no more than that. */
static void pins_on_use(void)
{
    world w;
    begin_world(&w);
    size_t piece = w.device->pin_piece, whole = HOST_BYTES - COPIED;
    size_t boundary = piece - (uintptr_t)w.host % piece;
    pin(&w, 0, whole, HIL_PIN_ON_USE);
    pin(&w, whole, COPIED, HIL_PIN_FIRST);
    CHECK_OK(hil_tiers_pin_all(&w.tiers));
    CHECK_OK(hil_tiers_populate(&w.tiers, 2));
    CHECK_INT(pins_so_far(), 1); /* the last one */
    CHECK_OK(copy_out(&w, w.host + boundary + COPIED, COPIED));
    CHECK_INT(pins_so_far(), 2);
    CHECK(gate.pin[1] == w.host + boundary && gate.bytes[1] == piece);
    CHECK_OK(copy_out(&w, w.host + boundary + piece - COPIED, 2 * COPIED));
    CHECK_INT(pins_so_far(), 3);
    CHECK_OK(copy_out(&w, w.host + boundary, piece));
    CHECK_INT(pins_so_far(), 3);
    pin(&w, 0, HOST_BYTES, HIL_PIN_FIRST); /* all of it is registered */
    CHECK_OK(hil_tiers_pin_all(&w.tiers));
    CHECK_INT(pins_so_far(), 3);
    end_world(&w);
}

static bool is_there(char *memory)
{
    unsigned char there;
    CHECK(mincore(memory, 4096, &there) == 0);
    return there & 1;
}

/* What nothing copies is faulted in by the background, after what forward copies and before what
   backward does, and is not pinned. */
static void touches(void)
{
    world w;
    const size_t far = HOST_BYTES / 2; /* not in one huge page with the others */
    begin_world(&w);
    char *next = w.host + far - COPIED, *touched = w.host + far;
    pin(&w, 0, COPIED, HIL_PIN_FIRST);
    pin(&w, far, COPIED, HIL_PIN_TOUCH);
    pin(&w, far - COPIED, COPIED, HIL_PIN_NEXT);
    gate.blocked = next;
    CHECK_OK(hil_tiers_populate(&w.tiers, 1));
    while (!is_there(touched)) CHECK(usleep(1000) == 0);
    open_gate();
    CHECK_OK(hil_pins_wait(w.tiers.pins, next, COPIED));
    CHECK_INT(pins_so_far(), 2);
    CHECK(gate.pin[0] == w.host && gate.pin[1] == next);
    end_world(&w);
}

int main(void)
{
    says_that_it_is_refused(HIL_PIN_FIRST);
    says_that_it_is_refused(HIL_PIN_ON_USE);
    waits_for_its_own();
    pins_in_parallel();
    pins_on_use();
    touches();
    populates(1);
    populates(40);
    stops_at_once();
    return 0;
}
