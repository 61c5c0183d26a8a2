/* Weights kept in few bits: steps have the bits of a run whose frozen weights are the expanded
   numbers in fp32; any placement, device and cut into tiles give the same bits, and every peak and
   every byte over a link is the planned one; with several ranks the losses are those of one. */
#include "../run/crew.h"
#include "io/file.h"
#include "store/unit.h"

#include <unistd.h>

enum { STEPS = 4 };

static const char *const formats[] = {"nf4", "int8", "fp8", "bf16"};
static const char *const patterns[] = {"*.c_*.weight", "*_proj.weight"};

typedef struct setting {
    int model, format;
    const char *dtype;
    int ranks;
    int device, host; /* KiB of each rank; 0: plenty */
    bool threads;     /* on the test device */
    size_t tile_size;
} setting;

typedef struct seen {
    hil_plan plan; /* its arrays are not to be used */
    size_t quantized;
    uint64_t bytes, plain; /* of the quantized weights, and as they would be in their dtype */
} seen;

static double loss_of(hil_trainer *t)
{
    int32_t token[CREW_BATCH * CREW_SEQ], target[CREW_BATCH * CREW_SEQ];
    hil_batch batch = {
        .sequences = CREW_BATCH, .length = CREW_SEQ, .token = token, .target = target};
    hil_step_result result;
    crew_tokens(0, token, target);
    CHECK_OK(hil_trainer_loss(t, &batch, &result));
    return result.loss;
}

/* A weight that stays expanded is expanded again when it was written. */
static void check_written(hil_trainer *t)
{
    hil_store *store = t->model->store;
    double before = loss_of(t);
    for (size_t i = 0; i < hil_store_count(store); ++i) {
        const hil_param *p = hil_store_at(store, i);
        float *zeros;
        if (!hil_param_quant(p)) continue;
        CHECK_OK(HIL_ALLOC(hil_param_elements(p), &zeros));
        CHECK_OK(hil_trainer_write(t, hil_param_spec_of(p)->name, zeros, hil_param_elements(p)));
        hil_free(zeros);
    }
    CHECK(loss_of(t) != before);
}

static void look(hil_trainer *t, void *context)
{
    seen *s = context;
    hil_store *store = t->model->store;
    if (hil_comm_rank(t->options.comm)) return;
    *s = (seen){.plan = t->planned.plan};
    for (size_t i = 0; i < hil_store_count(store); ++i) {
        const hil_param *p = hil_store_at(store, i);
        s->quantized += hil_param_quant(p) != HIL_QUANT_NONE;
        CHECK(!hil_param_quant(p) || strstr(hil_param_spec_of(p)->name, ".0.") ||
              strstr(hil_param_spec_of(p)->name, ".1."));
    }
    /* Its evaluations are not planned. */
    if (s->plan.expanded && s->plan.device_budget > 2 * s->plan.peak[HIL_DEVICE]) check_written(t);
}

static void run(const setting *g, const hil_disk_budget *disk, crew *c, seen *s)
{
    static hil_trainer_options options;
    hil_trainer_defaults(&options);
    options.base_dtype = formats[g->format];
    options.freeze = &patterns[g->model >= 2];
    options.freeze_count = 1;
    if (g->threads) options.device.name = "threads";
    *c = crew_of(g->model, g->ranks);
    c->options = &options;
    c->dtype = g->dtype;
    c->steps = STEPS;
    c->micro_batch = 1;
    c->tile_size = g->tile_size;
    c->device_memory = (uint64_t)g->device << 10;
    c->host_memory = (uint64_t)g->host * (uint64_t)(g->ranks ? g->ranks : 1) << 10;
    c->disk = disk;
    c->inspect = look;
    c->context = s;
    crew_run(c);
    CHECK(s->quantized > 0);
}

static void check_plan(const crew *c, const seen *s)
{
    for (int step = 0; step < STEPS; ++step) {
        const hil_step_account *a = &c->account[step];
        const hil_plan *p = &s->plan;
        CHECK_INT(a->device_peak, p->peak[HIL_DEVICE]);
        CHECK_INT(a->host_peak, p->peak[HIL_HOST]);
        CHECK_INT(a->disk_peak, p->peak[HIL_DISK]);
        if (step < 2) continue;
        CHECK_INT(a->to_device_bytes, p->to_device);
        CHECK_INT(a->disk_read_bytes, p->disk_read);
        CHECK_INT(a->disk_written_bytes, p->disk_written);
    }
}

/* Runs the same steps on the expanded numbers, not quantized. */
static void check_expanded(const setting *g, const crew *expected)
{
    hil_config config;
    hil_model *model;
    hil_trainer *t;
    crew c = *expected, trial = *expected;
    hil_trainer_options options = crew_options(&c, NULL);
    options.base_dtype = NULL;
    CHECK_OK(hil_config_parse(&config, c.config, strlen(c.config), "crew"));
    CHECK_OK(hil_build_model(&model, &config));
    CHECK_OK(hil_trainer_create(&t, model, &options));
    int64_t at = 0;
    trial.steps = 0; /* its weights are those of before the first step */
    trial.inspect = NULL;
    crew_run(&trial);
    for (size_t i = 0; i < hil_store_count(model->store); ++i) {
        const hil_param *p = hil_store_at(model->store, i);
        CHECK_OK(hil_trainer_write(t, hil_param_spec_of(p)->name, trial.weights + at,
                                   hil_param_elements(p)));
        at += hil_param_elements(p);
    }
    crew_steps(&c, NULL, t);
    crew_read(&c, NULL, t);
    if (!crew_same(&c, expected)) check_die(formats[g->format], __LINE__, "differs from fp32");
    hil_trainer_destroy(t);
    hil_model_destroy(model);
    crew_free(&c);
    crew_free(&trial);
}

/* Ranks keep slices of the bytes; the losses are those of one rank. */
static void check_ranks(const setting *g, const crew *whole)
{
    setting shared = *g;
    for (shared.ranks = 2; shared.ranks <= 3; ++shared.ranks) {
        crew c;
        seen s;
        run(&shared, NULL, &c, &s);
        check_plan(&c, &s);
        for (int step = 0; step < STEPS; ++step) CHECK_NEAR(c.loss[step], whole->loss[step], 1e-6);
        crew_free(&c);
    }
}

/* What stays expanded leaves room for a window that is not used as a whole. */
static void check_tight(const setting *given, const hil_disk_budget *disk)
{
    setting g = *given;
    int expanded = 0;
    crew c;
    seen s;
    g.threads = true;
    run(&g, disk, &c, &s);
    crew_free(&c);
    g.host = 4000;
    g.device = (int)(s.plan.peak[HIL_DEVICE] >> 10) + 64;
    for (int i = 0; i < 12; ++i, g.device -= 12) {
        run(&g, disk, &c, &s);
        check_plan(&c, &s);
        expanded += s.plan.expanded > 0;
        crew_free(&c);
    }
    CHECK(expanded > 0);
}

int main(void)
{
    static const setting all[] = {
        {.model = 0, .format = 0, .dtype = "fp32"},
        {.model = 2, .format = 0, .dtype = "fp32", .tile_size = 8000},
        {.model = 3, .format = 1, .dtype = "fp32"},
        {.model = 0, .format = 2, .dtype = "fp32"},
        {.model = 2, .format = 3, .dtype = "fp32"},
        {.model = 3, .format = 0, .dtype = "bf16", .tile_size = 8000},
        {.model = 1, .format = 2, .dtype = "fp16"},
        {.model = 2, .format = 1, .dtype = "bf16"},
    };
    static const setting other[] = {
        {.device = 300, .host = 4000},
        {.device = 300, .host = 200},
        {.device = 300, .host = 400, .threads = true},
        {.threads = true},
    };
    char folder[] = "/tmp/hilbert-quantized-XXXXXX";
    CHECK(mkdtemp(folder) != NULL);
    hil_disk_budget disk = {folder, 64 << 20};
    alarm(600);
    check_tight(&all[5], &disk);
    for (size_t i = 0; i < sizeof all / sizeof *all; i += CHECK_SLOW ? 3 : 1) {
        crew whole, placed;
        seen s;
        run(&all[i], NULL, &whole, &s);
        check_plan(&whole, &s);
        if (strcmp(all[i].dtype, "fp32") == 0) check_expanded(&all[i], &whole);
        if (i < 2) check_ranks(&all[i], &whole);
        for (size_t k = 0; k < sizeof other / sizeof *other; ++k) {
            setting g = other[k];
            if ((i + k) % 2) continue;
            g.model = all[i].model;
            g.format = all[i].format;
            g.dtype = all[i].dtype;
            g.tile_size = all[i].tile_size;
            run(&g, &disk, &placed, &s);
            printf("%s in %s, %dK and %dK%s: %llu bytes to the device, %llu from disk\n",
                   formats[g.format], g.dtype, g.device, g.host, g.threads ? ", threads" : "",
                   (unsigned long long)placed.account[STEPS - 1].to_device_bytes,
                   (unsigned long long)placed.account[STEPS - 1].disk_read_bytes);
            /* With memory to spare on a device of its own, weights stay expanded. */
            CHECK((s.plan.expanded > 0) == (g.threads && !g.device));
            if (!crew_same(&whole, &placed)) check_die(formats[g.format], __LINE__, "differs");
            check_plan(&placed, &s);
            crew_free(&placed);
        }
        crew_free(&whole);
    }
    CHECK_OK(hil_file_remove_tree(folder));
    return 0;
}
