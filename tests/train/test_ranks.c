/* Several ranks train like one. Losses agree closely with one rank's; for a given number of ranks
   neither ZeRO stage nor placement changes a bit. Each rank holds its part of the states, and ranks
   exchange as many bytes as documented. */
/* soak: --full */
#include "../run/crew.h"
#include "io/file.h"
#include "store/unit.h"

#include <unistd.h>

static double worst(const crew *a, const crew *b, int steps)
{
    double most = 0;
    for (int i = 0; i < steps; ++i) {
        double error = fabs(a->loss[i] - b->loss[i]) / fabs(b->loss[i]);
        if (!(error <= most)) most = error;
    }
    return most;
}

/* Within 1e-6 at the first step and 1e-5 over all; a comm of one rank is no comm. */
static void check_close(int model)
{
    static const int sizes[] = {1, 2, 3, 4, 8};
    crew alone = crew_of(model, 0);
    crew_run(&alone);
    CHECK(alone.loss[CREW_STEPS - 1] < 0.95 * alone.loss[0]);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        crew c = crew_of(model, sizes[i]);
        crew_run(&c);
        double first = worst(&c, &alone, 1), all = worst(&c, &alone, CREW_STEPS);
        printf("model %d, ranks %d: loss %.6f -> %.6f, off by %.1e at first, %.1e at most\n", model,
               sizes[i], c.loss[0], c.loss[CREW_STEPS - 1], first, all);
        CHECK(first <= 1e-6);
        CHECK(all <= 1e-5);
        if (sizes[i] == 1) CHECK(crew_same(&c, &alone));
        crew_free(&c);
    }
    crew_free(&alone);
}

/* Frozen parameters, vectors smaller than the slices of all ranks, and groups of 8-bit moments. */
static void check_frozen(void)
{
    static const char *const freeze[] = {"*.mlp.*", "*embed*"};
    hil_trainer_options options;
    hil_trainer_defaults(&options);
    options.freeze = freeze;
    options.freeze_count = 2;
    for (int i = 0; i < 3; ++i) {
        static const char *const rules[] = {"adamw", "adamw8bit", "muon"};
        crew alone = crew_of(3, 0), c = crew_of(3, 8);
        alone.options = c.options = &options;
        alone.optimizer = c.optimizer = rules[i];
        alone.micro_batch = 4; /* so that sums have another order */
        crew_run(&alone);
        crew_run(&c);
        printf("frozen, %s: loss %.6f -> %.6f, off by %.1e\n", c.optimizer, c.loss[0],
               c.loss[CREW_STEPS - 1], worst(&c, &alone, CREW_STEPS));
        /* Muon's products round to bf16, and make as much of small gradients as of large ones. */
        bool muon = i == 2;
        CHECK(c.loss[CREW_STEPS - 1] < (muon ? 0.98 : 0.97) * c.loss[0]);
        CHECK(worst(&c, &alone, 1) <= 1e-6);
        CHECK(worst(&c, &alone, CREW_STEPS) <= (muon ? 1e-4 : 1e-5));
        crew_free(&alone);
        crew_free(&c);
    }
}

/* What one rank's store holds and must communicate, by its units. */
typedef struct holding {
    uint64_t states, homes;      /* bytes of all homes, and how many there are */
    uint64_t weights, gradients; /* bytes of a slice of all weights; of all uses' gradients */
    int zero;
    uint64_t planned_gathered, planned_reduced;
} holding;

static void inspect_units(hil_trainer *t, void *context)
{
    const hil_store *store = t->model->store;
    if (hil_comm_rank(t->options.comm)) return;
    holding *h = context;
    *h = (holding){.zero = t->planned.plan.zero,
                   .planned_gathered = t->planned.plan.gathered,
                   .planned_reduced = t->planned.plan.reduced};
    for (size_t u = 0; u < hil_store_units(store); ++u) {
        uint64_t uses = (uint64_t)hil_unit_uses(store, u);
        h->weights += uses ? hil_unit_bytes(store, u, HIL_WEIGHT) : 0;
        h->gradients += uses * hil_unit_bytes(store, u, HIL_GRADIENT);
        for (int s = 0; s < HIL_GRADIENT; ++s)
            h->states += hil_unit_bytes(store, u, (hil_unit_state)s);
        h->homes += HIL_GRADIENT + uses;
        h->states += uses * hil_unit_bytes(store, u, HIL_GRADIENT);
    }
}

/* See [Note: ZeRO stages] in planner.h: they move different bytes and compute the same bits. */
static void check_stages(int model, int ranks, const char *dtype)
{
    crew c[3];
    for (int zero = 1; zero <= 3; ++zero) {
        holding h;
        crew *now = &c[zero - 1];
        *now = crew_of(model, ranks);
        now->dtype = dtype;
        now->zero = zero;
        now->inspect = inspect_units;
        now->context = &h;
        if (zero == 3) now->device_memory = 600 << 10;
        crew_run(now);
        const hil_step_account *a = &now->account[5];
        uint64_t others = (uint64_t)ranks - 1;
        printf("stage %d: gathered %llu of %llu, reduced %llu of %llu\n", zero,
               (unsigned long long)a->gathered_bytes, (unsigned long long)(others * h.weights),
               (unsigned long long)a->reduced_bytes, (unsigned long long)(others * h.gradients));
        CHECK_INT(h.zero, zero);
        CHECK_INT(a->gathered_bytes, h.planned_gathered);
        CHECK_INT(a->reduced_bytes, h.planned_reduced);
        CHECK_INT(a->reduced_bytes, others * h.gradients);
        if (zero < 3) CHECK_INT(a->gathered_bytes, others * h.weights);
        if (zero == 3) CHECK(a->gathered_bytes > others * h.weights);
        if (zero > 1) CHECK(crew_same(now, &c[0]));
    }
    for (int i = 0; i < 3; ++i) crew_free(&c[i]);
}

static const char *const states[] = {"weight", "rest", "moment1", "moment2", "gradient"};
static const char *const tiers[] = {"device", "host", "disk"};
enum { DEVICE, HOST, DISK, MIXED, STATES = 5 };

/* Where everything is kept, and how it moves. */
typedef struct placement {
    int tier; /* MIXED: each state of each unit another */
    int64_t group, window;
    bool streams; /* single tiles are fetched and evicted, not whole segments */
} placement;

static void set(json_t *object, const char *key, json_t *value)
{
    CHECK(json_object_set_new(object, key, value) == 0);
}

static void edit(const placement *p, json_t *plan)
{
    json_t *unit;
    size_t i;
    json_array_foreach(json_object_get(plan, "units"), i, unit) for (int s = 0; s < STATES; ++s)
    {
        int tier = p->tier == MIXED ? ((int)i + s) % 3 : p->tier;
        if (json_object_get(unit, states[s])) set(unit, states[s], json_string(tiers[tier]));
    }
    json_array_foreach(json_object_get(plan, "segments"), i, unit)
    {
        set(unit, "keep", json_integer(p->group * (int64_t)(i % 3) / 2));
        set(unit, "lean", json_integer((int64_t)(i % 2)));
        set(unit, "tapes", json_string(tiers[i % 2 ? HOST : DEVICE]));
    }
    set(plan, "group", json_integer(p->group));
    set(plan, "by_segment", json_boolean(!p->streams));
    set(plan, "window", json_integer(p->window));
    set(plan, "chunk", json_integer(4096));
    set(plan, "slots", json_integer(2));
    set(plan, "ring", json_integer(16 * 4096));
}

/* A folder for plans and swap files. */
static char place[] = "/tmp/hilbert-ranks-XXXXXX";

static void place_run(crew *c, const placement *p)
{
    char file[HIL_PATH_MAX];
    hil_disk_budget disk = {place, 64 << 20};
    c->disk = &disk;
    json_t *plan = crew_plan(c);
    edit(p, plan);
    CHECK_OK(hil_path_join(file, place, "plan.json"));
    CHECK(json_dump_file(plan, file, JSON_INDENT(1)) == 0);
    json_decref(plan);
    c->plan = file;
    crew_run(c);
    c->disk = NULL;
    c->plan = NULL;
    CHECK(unlink(file) == 0);
}

/* For a given number of ranks, any placement gives the same bits. */
static void check_placements(int model, int ranks, const char *dtype, size_t tile_size)
{
    int64_t all = CREW_BATCH / ranks / 2;
    const placement placements[] = {{DEVICE, all, 2 << 20, false}, {HOST, all, 2 << 20, false},
                                    {HOST, 1, 300 << 10, false},   {DISK, all, 2 << 20, false},
                                    {DISK, 1, 200 << 10, true},    {MIXED, all, 160 << 10, true}};
    crew first = {0};
    for (size_t i = 0; i < sizeof placements / sizeof *placements; ++i) {
        crew c = crew_of(model, ranks);
        c.dtype = dtype;
        c.steps = 6;
        c.micro_batch = 2;
        c.tile_size = tile_size;
        place_run(&c, &placements[i]);
        const hil_step_account *a = &c.account[4];
        printf("placement %zu: loss %.9g, disk read %llu, to the device %llu, gathered %llu\n", i,
               c.loss[5], (unsigned long long)a->disk_read_bytes,
               (unsigned long long)a->to_device_bytes, (unsigned long long)a->gathered_bytes);
        CHECK((a->disk_read_bytes > 0) == (placements[i].tier >= DISK));
        if (i == 0)
            first = c;
        else
            CHECK(crew_same(&c, &first));
        if (i) crew_free(&c);
    }
    crew_free(&first);
}

/* Each rank holds its part of the states: measured where all of them are on disk, in whole pages.
 */
static void check_memory(void)
{
    static const int sizes[] = {1, 2, 4, 8};
    holding alone = {0};
    printf("ranks  states of a rank  of one rank's  on disk\n");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        holding h;
        crew c = crew_of(0, sizes[i]);
        c.config = crew_large;
        c.dtype = "bf16";
        c.steps = 2;
        c.inspect = inspect_units;
        c.context = &h;
        place_run(&c, &(placement){DISK, CREW_BATCH / sizes[i] / 3, 8 << 20, false});
        uint64_t held = c.account[1].disk_peak;
        if (i == 0) alone = h;
        double share = (double)h.states / (double)alone.states;
        printf("%5d  %16llu  %13.4f  %llu\n", sizes[i], (unsigned long long)h.states, share,
               (unsigned long long)held);
        CHECK(held >= h.states && held - h.states < h.homes * 4096);
        CHECK(share * sizes[i] < 1.02);
        crew_free(&c);
    }
}

int main(int count, char **arguments)
{
    bool full = count > 1 && strcmp(arguments[1], "--full") == 0;
    CHECK(mkdtemp(place) != NULL);
    for (int model = 0; model < CREW_MODELS; ++model)
        if (full || model == 1 || model == 2) check_close(model);
    check_frozen();
    check_stages(0, 4, "bf16");
    if (full) check_stages(3, 3, "fp32");
    check_placements(1, 3, "bf16", 6000);
    if (full) check_placements(2, 4, "fp32", 0);
    if (full) check_placements(3, 2, "fp16", 3000);
    check_memory();
    CHECK(rmdir(place) == 0);
    return 0;
}
