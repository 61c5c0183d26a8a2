/* fibers.cpp - the threads of a block as fibers of one thread of the CPU. A fiber runs GPU threads
   one after the other until one waits at a barrier; then another fiber goes on, of the same warp if
   one can, so that the cache holds what runs. Kernels without barriers need one fiber, and no
   thread ever runs beside another. */
#include "emulator.h"
#include "fibers.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <vector>

namespace emulator
{

#define STACK_BYTES ((size_t)256 << 10)
#define STACK_COLOR                                                                                \
    ((size_t)1088) /* tops are apart by more than 256 KiB: else they share a cache set */
#define MOST_THREADS 1024

thread_local place *now __attribute__((tls_model("initial-exec")));

namespace
{

struct barrier {
    int members, arrived;
    unsigned turn; /* counts how often all arrived */
};

struct copy {
    void *to;
    const void *from;
    size_t bytes, zeros;
    unsigned group;
};

struct gpu_thread {
    place where; /* first: `now` points here */
    int index;
    barrier *waits; /* NULL: it can run */
    unsigned turn;  /* of the barrier when it arrived */
    unsigned exchanges, group;
    std::vector<copy> copies;
};

struct fiber {
    void *saved;
    gpu_thread *thread; /* that it runs or that waits; NULL: it is idle */
};

/* Factors of a product of matrices; c becomes a sum when the first lane asks for it. */
typedef float four __attribute__((vector_size(16)));
struct factors {
    float a[16][16];
    four b[16][2], c[16][2];
    bool done;
};

/* What lanes show each other is there until the second exchange after it. */
struct warp {
    barrier lanes;
    uint64_t word[2][EMULATED_WARP];
    factors product[2];
};

struct gpu_block {
    const std::function<void(void)> *body;
    int threads, started, ended;
    barrier all;
    std::vector<gpu_thread> thread;
    std::vector<warp> warps;
    std::vector<fiber> fibers;
    void *caller;
    size_t running; /* fiber */
    alignas(1024) char dynamic[EMULATED_SHARED_BYTES];
};

/* A pointer needs no constructor, so that each use is one load. */
thread_local gpu_block *here_now __attribute__((tls_model("initial-exec")));

#define here (*here_now)

extern "C" void hil_emulator_switch(void **save, void *load);
asm(".text\n"
    ".globl hil_emulator_switch\n"
    ".hidden hil_emulator_switch\n"
    ".type hil_emulator_switch, @function\n"
    "hil_emulator_switch:\n"
    "pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
    "movq %rsp, (%rdi)\n movq %rsi, %rsp\n"
    "popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n"
    "ret\n"
    ".size hil_emulator_switch, . - hil_emulator_switch\n");

gpu_thread *self(void)
{
    return (gpu_thread *)now;
}

void to_next(void);

/* Lets all go on if those that are left have arrived. */
void release(barrier *b)
{
    if (b->arrived == 0 || b->arrived < b->members) return;
    b->arrived = 0;
    ++b->turn;
}

void wait_at(barrier *b)
{
    gpu_thread *t = self();
    t->turn = b->turn;
    ++b->arrived;
    release(b);
    if (b->turn != t->turn) return;
    t->waits = b;
    to_next();
    now = &t->where;
}

warp *own_warp(const gpu_thread *t)
{
    return &here.warps[(size_t)(t->index / EMULATED_WARP)];
}

void leave(gpu_thread *t)
{
    t->copies.clear();
    ++here.ended;
    warp *w = own_warp(t);
    --w->lanes.members, --here.all.members;
    release(&w->lanes);
    release(&here.all);
}

/* The life of a fiber: GPU threads that have not begun, until there are none. */
void live(void)
{
    for (;;) {
        while (here.started < here.threads) {
            gpu_thread *t = &here.thread[(size_t)here.started++];
            here.fibers[here.running].thread = t;
            now = &t->where;
            (*here.body)();
            leave(t);
        }
        here.fibers[here.running].thread = NULL;
        to_next();
    }
}

void create(fiber *f, size_t index)
{
    char *stack = (char *)mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED || mprotect(stack, 4096, PROT_NONE) != 0) abort();
    void **top = (void **)(stack + STACK_BYTES - index % 64 * STACK_COLOR) - 1;
    *--top = (void *)live; /* returned to, with a stack as after a call */
    for (int i = 0; i < 6; ++i) *--top = NULL;
    f->saved = top;
}

bool can_run(const fiber *f)
{
    if (!f->thread) return here.started < here.threads;
    return f->thread->waits->turn != f->thread->turn;
}

[[noreturn]] void report_deadlock(void)
{
    fprintf(stderr,
            "emulated GPU: threads wait for each other in block (%u, %u, %u): %d of %d ended\n",
            here.thread[0].where.blockIdx.x, here.thread[0].where.blockIdx.y,
            here.thread[0].where.blockIdx.z, here.ended, here.threads);
    abort();
}

/* A fiber that can go on: the next one of those that run a warp, or the first of all others, or a
   new one. */
size_t find_next(void)
{
    size_t count = here.fibers.size(), own = here.running / EMULATED_WARP * EMULATED_WARP;
    for (size_t i = 1; i < EMULATED_WARP; ++i) {
        size_t at = own + (here.running + i) % EMULATED_WARP;
        if (at < count && can_run(&here.fibers[at])) return at;
    }
    bool more = here.started < here.threads && count < MOST_THREADS;
    bool fill = more && count % EMULATED_WARP; /* those of a warp first */
    for (size_t at = 0; at < count && !fill; ++at)
        if (at != here.running && can_run(&here.fibers[at])) return at;
    if (!more) report_deadlock();
    here.fibers.push_back({});
    create(&here.fibers.back(), count);
    return count;
}

/* Leaves the running fiber, for another or for run_threads. */
void to_next(void)
{
    void **save = &here.fibers[here.running].saved;
    if (here.ended == here.threads) {
        hil_emulator_switch(save, here.caller);
        return;
    }
    here.running = find_next();
    hil_emulator_switch(save, here.fibers[here.running].saved);
}

void run_threads(void)
{
    if (here.fibers.empty()) {
        here.fibers.push_back({});
        create(&here.fibers.back(), 0);
    }
    here.running = 0;
    hil_emulator_switch(&here.caller, here.fibers[0].saved);
}

void begin_block(dim3 grid, dim3 size, dimensions block)
{
    here.threads = (int)(size.x * size.y * size.z);
    here.started = here.ended = 0;
    here.all = {here.threads, 0, 0};
    here.thread.resize((size_t)here.threads);
    here.warps.resize((size_t)((here.threads + EMULATED_WARP - 1) / EMULATED_WARP));
    for (warp &each : here.warps) each.lanes = {0, 0, 0};
    for (int i = 0; i < here.threads; ++i) {
        gpu_thread *t = &here.thread[(size_t)i];
        unsigned n = (unsigned)i;
        t->where = {{n % size.x, n / size.x % size.y, n / size.x / size.y},
                    block,
                    {size.x, size.y, size.z},
                    {grid.x, grid.y, grid.z}};
        t->index = i;
        t->waits = NULL;
        t->exchanges = t->group = 0;
        ++own_warp(t)->lanes.members;
    }
}

} // namespace

void run_grid(dim3 grid, dim3 block, size_t shared, const std::function<void(void)> &body)
{
    if (!here_now) {
        here_now = new gpu_block();
        here.fibers.reserve(MOST_THREADS);
    }
    here.body = &body;
    for (unsigned z = 0; z < grid.z; ++z)
        for (unsigned y = 0; y < grid.y; ++y)
            for (unsigned x = 0; x < grid.x; ++x) {
                memset(here.dynamic, 0xff, shared); /* no kernel may read what it did not write */
                begin_block(grid, block, {x, y, z});
                run_threads();
            }
    now = NULL;
}

void block_barrier(void)
{
    wait_at(&here.all);
}

void warp_barrier(void)
{
    wait_at(&own_warp(self())->lanes);
}

static int lane_id(void)
{
    return self()->index % EMULATED_WARP;
}

/* Shows a word of each lane to all of the warp. */
static const uint64_t *show(uint64_t word)
{
    gpu_thread *t = self();
    warp *w = own_warp(t);
    uint64_t *all = w->word[t->exchanges++ % 2];
    all[lane_id()] = word;
    wait_at(&w->lanes);
    return all;
}

uint64_t exchange(uint64_t value, int lane)
{
    return show(value)[lane & (EMULATED_WARP - 1)];
}

uint64_t exchange_across(uint64_t value, int mask)
{
    return exchange(value, lane_id() ^ mask);
}

void *dynamic_shared(void)
{
    return here.dynamic;
}

uint32_t shared_address(const void *pointer)
{
    size_t at = (size_t)((const char *)pointer - here.dynamic);
    if (at >= sizeof here.dynamic) {
        fprintf(stderr, "emulated GPU: only dynamic shared memory has an address in PTX\n");
        abort();
    }
    return (uint32_t)at;
}

void *shared_pointer(uint32_t address)
{
    return here.dynamic + address;
}

void begin_copy(void *to, const void *from, size_t bytes, size_t zeros)
{
    self()->copies.push_back({to, from, bytes, zeros, self()->group});
}

void commit_copies(void)
{
    ++self()->group;
}

void wait_copies(int left)
{
    gpu_thread *t = self();
    size_t done = 0;
    for (; done < t->copies.size() && t->copies[done].group + (unsigned)left < t->group; ++done) {
        const copy *c = &t->copies[done];
        memcpy(c->to, c->from, c->bytes);
        memset((char *)c->to + c->bytes, 0, c->zeros);
    }
    t->copies.erase(t->copies.begin(), t->copies.begin() + (long)done);
}

/* Lane 8 i + r has the address of row r of matrix i; lane 4 r + c gets numbers 2 c and 2 c + 1 of
   row r, transposed of column r. */
void load_registers(void *const all[5], bool transposed)
{
    int row = lane_id() / 4, pair = lane_id() % 4;
    const uint64_t *at = show(*(const uint32_t *)all[4]);
    for (int i = 0; i < 4; ++i) {
        uint16_t two[2];
        for (int k = 0; k < 2; ++k) {
            int line = transposed ? 2 * pair + k : row, column = transposed ? row : 2 * pair + k;
            two[k] = ((const uint16_t *)(here.dynamic + at[8 * i + line]))[column];
        }
        *(uint32_t *)all[i] = two[0] | (uint32_t)two[1] << 16;
    }
}

uint32_t transpose_matrix(uint32_t x)
{
    int row = lane_id() / 4, pair = lane_id() % 4, shift = 16 * (row % 2);
    const uint64_t *all = show(x);
    uint64_t first = all[8 * pair + row / 2], second = all[8 * pair + 4 + row / 2];
    return (uint32_t)((first >> shift & 0xffff) | (second >> shift & 0xffff) << 16);
}

static float number_of(uint16_t bits, bool bf16)
{
    if (bf16) return __uint_as_float((unsigned)bits << 16);
    __half x;
    memcpy(&x, &bits, sizeof x);
    return __half2float(x);
}

/* The two numbers of a register, `apart` from each other. */
static void unpack(float *to, int apart, const void *from, bool bf16)
{
    uint32_t word = *(const uint32_t *)from;
    to[0] = number_of((uint16_t)word, bf16);
    to[apart] = number_of((uint16_t)(word >> 16), bf16);
}

static void multiply(factors *f)
{
    for (int i = 0; i < 16; ++i) {
        four *sum = f->c[i], low = sum[0], high = sum[1];
        for (int k = 0; k < 16; ++k) {
            float a = f->a[i][k];
            low += a * f->b[k][0];
            high += a * f->b[k][1];
        }
        sum[0] = low, sum[1] = high;
    }
    f->done = true;
}

/* Lane 4 g + t has of a rows g and g + 8, columns 2 t and 2 t + 8 and their neighbours; of b the
   same rows of column g; of c rows g and g + 8, columns 2 t and 2 t + 1. */
void multiply_registers(void *const all[10], bool bf16)
{
    gpu_thread *lane = self();
    warp *w = own_warp(lane);
    factors *f = &w->product[lane->exchanges++ % 2];
    int g = lane_id() / 4, t = lane_id() % 4;
    float *b = (float *)f->b + g, *c[2] = {(float *)f->c[g] + 2 * t, (float *)f->c[g + 8] + 2 * t};
    f->done = false;
    for (int i = 0; i < 4; ++i) c[i / 2][i % 2] = *(const float *)all[i];
    for (int i = 0; i < 4; ++i)
        unpack(&f->a[g + i % 2 * 8][2 * t + i / 2 * 8], 1, all[4 + i], bf16);
    for (int i = 0; i < 2; ++i) unpack(b + (2 * t + i * 8) * 8, 8, all[8 + i], bf16);
    wait_at(&w->lanes);
    if (!f->done) multiply(f);
    for (int i = 0; i < 4; ++i) *(float *)all[i] = c[i / 2][i % 2];
}

} // namespace emulator
