/* The predictions of a plan for several ranks are exact to the byte on each rank and in every step:
   peaks of all tiers, bytes over every link and between ranks. No peak exceeds its budget. In ZeRO
   stages 1 and 2 every weight is gathered once a step, however small the budgets. */
#include "../run/crew.h"
#include "io/file.h"
#include "store/unit.h"

#include <unistd.h>

enum { STEPS = CHECK_SLOW ? 3 : 5 };

typedef struct seen {
    hil_plan plan;    /* its arrays are not to be used */
    uint64_t weights; /* bytes of a slice of every weight */
} seen;

static void inspect(hil_trainer *t, void *context)
{
    if (hil_comm_rank(t->options.comm)) return;
    seen *s = context;
    s->plan = t->planned.plan;
    s->weights = 0;
    for (size_t u = 0; u < hil_store_units(t->model->store); ++u)
        s->weights += hil_unit_bytes(t->model->store, u, HIL_WEIGHT);
}

static void check_step(const crew *c, const seen *s, int step)
{
    const hil_step_account *a = &c->account[step];
    const hil_plan *p = &s->plan;
    CHECK_INT(a->device_peak, p->peak[HIL_DEVICE]);
    CHECK_INT(a->host_peak, p->peak[HIL_HOST]);
    CHECK_INT(a->disk_peak, p->peak[HIL_DISK]);
    CHECK_INT(a->gathered_bytes, p->gathered);
    CHECK_INT(a->reduced_bytes, p->reduced);
    if (step < 2) return;
    CHECK_INT(a->to_device_bytes, p->to_device);
    CHECK_INT(a->to_host_bytes, p->to_host);
    CHECK_INT(a->disk_read_bytes, p->disk_read);
    CHECK_INT(a->disk_written_bytes, p->disk_written);
}

typedef struct setting {
    int model, ranks, zero;
    const char *dtype;
    int64_t micro_batch;
    int device, host; /* KiB, of each rank */
    size_t tile_size;
    bool slow; /* no prefetch */
} setting;

static void check(const setting *g, const hil_disk_budget *disk)
{
    seen s;
    hil_trainer_options options;
    hil_trainer_defaults(&options);
    options.prefetch = !g->slow;
    crew c = crew_of(g->model, g->ranks);
    c.options = &options;
    c.dtype = g->dtype;
    c.zero = g->zero;
    c.steps = STEPS;
    c.micro_batch = g->micro_batch;
    c.tile_size = g->tile_size;
    c.device_memory = (uint64_t)g->device << 10;
    c.host_memory = (uint64_t)g->host * (uint64_t)g->ranks << 10;
    c.disk = disk;
    c.inspect = inspect;
    c.context = &s;
    crew_run(&c);
    printf("%d ranks, --zero %d, %s, %dK and %dK: %s, window %zuK, gathered %llu, %llu once\n",
           g->ranks, g->zero, g->dtype, g->device, g->host,
           s.plan.by_segment ? "by segment" : "one by one", s.plan.window >> 10,
           (unsigned long long)s.plan.gathered,
           (unsigned long long)(s.weights * (uint64_t)(g->ranks - 1)));
    CHECK(s.plan.peak[HIL_DEVICE] <= c.device_memory);
    CHECK(s.plan.peak[HIL_HOST] <= c.host_memory / (uint64_t)g->ranks);
    for (int step = 0; step < STEPS; ++step) check_step(&c, &s, step);
    if (g->zero < 3) CHECK_INT(s.plan.gathered, s.weights * (uint64_t)(g->ranks - 1));
    crew_free(&c);
}

int main(void)
{
    static const setting all[] = {
        {0, 2, 3, "fp32", 3, 16384, 4096, 0, false}, {2, 3, 3, "bf16", 2, 700, 300, 0, false},
        {0, 4, 3, "bf16", 1, 700, 300, 0, true},     {3, 2, 3, "fp32", 4, 600, 400, 8000, false},
        {1, 2, 3, "fp32", 3, 400, 300, 0, false},    {0, 2, 2, "fp32", 2, 1000, 600, 0, false},
        {2, 4, 2, "bf16", 3, 620, 300, 0, false},    {3, 3, 1, "fp32", 2, 1400, 500, 0, false},
    };
    char folder[] = "/tmp/hilbert-exact-XXXXXX";
    CHECK(mkdtemp(folder) != NULL);
    hil_disk_budget disk = {folder, 64 << 20};
    alarm(600);
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i) check(&all[i], &disk);
    CHECK_OK(hil_file_remove_tree(folder));
    return 0;
}
