/* Gradients that leave tile by tile during backward, and those that leave when their segment is
   done, give the same bits: for every number of ranks, placement, dtype and window. The plan gives
   them tile by tile where the sums of a segment fit neither on the device nor on the host; its
   predictions are then exact to the byte, and ranks exchange no more. */
#include "../run/crew.h"
#include "io/file.h"

#include <unistd.h>

/* soak: --full */

enum { STEPS = 4 };

static const char *const states[] = {"weight", "rest", "moment1", "moment2", "gradient"};
static const char *const tiers[] = {"device", "host", "disk"};
enum { DEVICE, HOST, DISK, MIXED };

typedef struct placement {
    int tier; /* MIXED: each state of each unit another */
    int64_t window;
    bool by_tile;
} placement;

/* A folder for plans and swap files. */
static char place[] = "/tmp/hilbert-at-once-XXXXXX";
static char file[HIL_PATH_MAX];
static hil_disk_budget disk = {place, 64 << 20};

static void set(json_t *object, const char *key, json_t *value)
{
    CHECK(json_object_set_new(object, key, value) == 0);
}

static void edit(const placement *p, json_t *plan)
{
    json_t *unit;
    size_t i;
    json_array_foreach(json_object_get(plan, "units"), i, unit) for (int s = 0; s < 5; ++s)
    {
        int tier = p->tier == MIXED ? ((int)i + s) % 3 : p->tier;
        if (json_object_get(unit, states[s])) set(unit, states[s], json_string(tiers[tier]));
    }
    json_array_foreach(json_object_get(plan, "segments"), i, unit)
    {
        set(unit, "keep", json_integer(i % 3 == 1));
        set(unit, "lean", json_integer(i % 3 == 2));
    }
    set(plan, "by_segment", json_false());
    set(plan, "by_tile", json_boolean(p->by_tile));
    set(plan, "keeps_sums", json_boolean(p->tier == DEVICE)); /* has no effect with several ranks */
    set(plan, "window", json_integer(p->window));
    set(plan, "chunk", json_integer(4096));
    set(plan, "slots", json_integer(2));
    set(plan, "ring", json_integer(16 * 4096));
}

static void write_plan(json_t *plan)
{
    CHECK(json_dump_file(plan, file, JSON_INDENT(1)) == 0);
    json_decref(plan);
}

/* One micro-batch in a step on each rank. */
static crew whole_batch(int model, int ranks, const char *dtype)
{
    crew c = crew_of(model, ranks);
    c.dtype = dtype;
    c.steps = STEPS;
    c.tile_size = 6000;
    c.micro_batch = CREW_BATCH / (ranks ? ranks : 1);
    return c;
}

/* `device`: "cpu", or one with memory of its own. */
static void check_same(int model, int ranks, const char *dtype, const char *device)
{
    hil_trainer_options options;
    hil_trainer_defaults(&options);
    options.device.name = device;
    const placement placements[] = {{DEVICE, 2 << 20, true},  {HOST, 2 << 20, true},
                                    {HOST, 160 << 10, false}, {HOST, 160 << 10, true},
                                    {DISK, 160 << 10, true},  {MIXED, 200 << 10, true},
                                    {MIXED, 200 << 10, false}};
    crew first = whole_batch(model, ranks, dtype);
    first.options = &options;
    crew_run(&first);
    uint64_t spilled = 0;
    for (size_t i = 0; i < sizeof placements / sizeof *placements; ++i) {
        const placement *p = &placements[i];
        crew c = whole_batch(model, ranks, dtype);
        c.disk = &disk;
        c.options = &options;
        json_t *plan = crew_plan(&c);
        edit(p, plan);
        write_plan(plan);
        c.plan = file;
        crew_run(&c);
        const hil_step_account *a = &c.account[STEPS - 1];
        printf("model %d, %d ranks, %s, %s, placement %zu: to the device %llu, reduced %llu\n",
               model, ranks, dtype, device, i, (unsigned long long)a->to_device_bytes,
               (unsigned long long)a->reduced_bytes);
        CHECK(crew_same(&c, &first));
        CHECK_INT(a->reduced_bytes, first.account[STEPS - 1].reduced_bytes);
        /* In the same window, sums that leave tile by tile are not spilled; a device's own rules of
           eviction may fetch more weights instead. */
        if (strcmp(device, "cpu") != 0) {
            crew_free(&c);
            continue;
        }
        if (p->tier == HOST && !p->by_tile) spilled = a->to_device_bytes;
        if (p->tier == HOST && p->by_tile && spilled) CHECK(a->to_device_bytes < spilled);
        crew_free(&c);
    }
    crew_free(&first);
}

static void copy_plan(hil_trainer *t, void *context)
{
    if (!hil_comm_rank(t->options.comm)) *(hil_plan *)context = t->planned.plan;
}

/* The trainer of these options must not open. */
static void refuse(hil_comm *comm, void *context)
{
    const crew *c = context;
    hil_config config;
    hil_model *model;
    hil_trainer *t;
    CHECK_OK(hil_config_parse(&config, c->config, strlen(c->config), "crew"));
    CHECK_OK(hil_build_model(&model, &config));
    hil_trainer_options options = crew_options(c, comm);
    CHECK_INT(hil_trainer_create(&t, model, &options), HIL_ERR_BUDGET);
    hil_model_destroy(model);
}

/* Its layers are larger than its head. */
static const char *const thick =
    "{\"model_type\": \"llama\", \"vocab_size\": 300, \"hidden_size\": 128,"
    " \"intermediate_size\": 640, \"num_attention_heads\": 4, \"num_key_value_heads\": 4,"
    " \"num_hidden_layers\": 3, \"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-5,"
    " \"tie_word_embeddings\": false}";
enum { LAYER_SUMS = (4 * 128 + 3 * 640) * 128 * 4 };

/* A layer's sums take 4 bytes a parameter on each rank: more than the device and the host have
   beside the states. */
static void check_budget(int ranks, int device, int host)
{
    hil_plan p;
    crew large = whole_batch(0, ranks, "bf16"), c = large;
    large.config = c.config = thick;
    c.device_memory = (uint64_t)device << 10;
    c.host_memory = (uint64_t)host * (uint64_t)ranks << 10;
    c.inspect = copy_plan;
    c.context = &p;
    crew_run(&large);
    crew_run(&c);
    printf("%d ranks in %dK and %dK each: by tile %d, window %zuK, spilled %zu, host %lluK\n",
           ranks, device, host, p.by_tile, p.window >> 10, p.spilled,
           (unsigned long long)p.peak[HIL_HOST] >> 10);
    CHECK(p.by_tile && p.spilled < LAYER_SUMS / 4); /* the head's, at most */
    CHECK(crew_same(&c, &large));
    const hil_step_account *a = &c.account[STEPS - 1];
    CHECK_INT(a->device_peak, p.peak[HIL_DEVICE]);
    CHECK_INT(a->host_peak, p.peak[HIL_HOST]);
    CHECK(a->device_peak <= c.device_memory && a->host_peak <= c.host_memory / (uint64_t)ranks);
    CHECK_INT(a->gathered_bytes, p.gathered);
    CHECK_INT(a->reduced_bytes, p.reduced);
    CHECK_INT(a->to_device_bytes, p.to_device);
    CHECK_INT(a->to_host_bytes, p.to_host);
    json_t *plan = crew_plan(&c);
    set(plan, "by_tile", json_false());
    write_plan(plan);
    c.plan = file;
    ranks_run(ranks, refuse, &c);
    crew_free(&large);
    crew_free(&c);
}

/* With several micro-batches all sums are needed until the last one. */
static void check_refused(void)
{
    crew c = whole_batch(2, 0, "fp32");
    json_t *plan = crew_plan(&c);
    set(plan, "by_segment", json_false());
    set(plan, "by_tile", json_true());
    write_plan(plan);
    c.plan = file;
    c.micro_batch /= 2;
    hil_config config;
    hil_model *model;
    hil_trainer *t;
    CHECK_OK(hil_config_parse(&config, c.config, strlen(c.config), "crew"));
    CHECK_OK(hil_build_model(&model, &config));
    hil_trainer_options options = crew_options(&c, NULL);
    CHECK_INT(hil_trainer_create(&t, model, &options), HIL_ERR_INPUT);
    CHECK(strstr(hil_status_message(), "one micro-batch") != NULL);
    hil_model_destroy(model);
}

int main(int argc, char **argv)
{
    bool full = argc > 1 && strcmp(argv[1], "--full") == 0;
    CHECK(mkdtemp(place) != NULL);
    CHECK_OK(hil_path_join(file, place, "plan.json"));
    check_same(1, 3, "bf16", "cpu");
    check_same(2, 0, "bf16", "threads");
    check_same(0, 2, "bf16", "threads");
    check_budget(2, 2560, 7700);
    if (full || !CHECK_SLOW) {
        check_same(0, 0, "bf16", "cpu");
        check_same(3, 4, "fp16", "cpu");
    }
    if (full) {
        check_same(2, 2, "fp32", "cpu");
        check_same(3, 2, "fp32", "threads:each");
        check_budget(4, 1400, 4200);
    }
    check_refused();
    CHECK(unlink(file) == 0);
    CHECK(rmdir(place) == 0);
    return 0;
}
