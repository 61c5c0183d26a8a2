/* Any placement, any transfers and any order of work give the same losses and weights, bit for bit,
   over 20 steps: of whole models, and of adapters on bases of every kind, also when resumed.
   Without
   --full only a few of the runs, chosen by the seed. */
/* soak: --full */
#include "../plan/plans.h"

#include "base/philox.h"

#define STEPS (CHECK_SLOW ? 5 : 20)
#define SEED 3
#define STATES 5

static const char *const states[STATES] = {"weight", "rest", "moment1", "moment2", "gradient"};
static const char *const tiers[3] = {"device", "host", "disk"};

enum { DEVICE, HOST, DISK };
enum { WEIGHT };
enum { KEEP_NONE, KEEP_HALF, KEEP_ALL, KEEP_LEAN, KEEP_MIXED, KEEP_THIN };
typedef enum spread {
    SAME,    /* every state of every unit in its class's tier */
    HALVES,  /* the units take turns between the class's tier and the next one */
    ONE_UNIT /* only the units of the first block, the rest on the device */
} spread;

/* One plan. No `tier`: the budgets decide. */
typedef struct placement {
    const char *name;
    spread spread;
    int tier[STATES];
    int64_t group; /* micro-batches */
    int keep, activations, tapes, spill;
    int64_t window; /* KiB */
    hil_io_kind io;
    size_t drives;
    bool prefetch_off;
    uint64_t device, host; /* budgets, KiB; where 0, plenty of it and the plan is edited */
} placement;

#define ALL(t)                                                                                     \
    {                                                                                              \
        t, t, t, t, t                                                                              \
    }

static const placement placements[] = {
    {.name = "device", .tier = ALL(DEVICE), .group = 1, .keep = KEEP_ALL},
    {.name = "device-segments", .tier = ALL(DEVICE), .group = 4, .keep = KEEP_ALL},
    {.name = "host", .tier = ALL(HOST), .group = 4, .keep = KEEP_ALL},
    {.name = "host-one-by-one", .tier = ALL(HOST), .group = 1, .keep = KEEP_NONE},
    {.name = "disk", .tier = ALL(DISK), .group = 4, .keep = KEEP_NONE},
    {.name = "disk-one-by-one", .tier = ALL(DISK), .group = 1, .keep = KEEP_HALF},
    {.name = "disk-threads", .tier = ALL(DISK), .group = 4, .io = HIL_IO_THREADS},
    {.name = "disk-uring", .tier = ALL(DISK), .group = 4, .io = HIL_IO_URING},
    {.name = "disk-two-drives", .tier = ALL(DISK), .group = 4, .drives = 2},
    {.name = "disk-no-prefetch", .tier = ALL(DISK), .group = 4, .prefetch_off = true},
    {.name = "disk-tight", .tier = ALL(DISK), .group = 4, .window = 96},
    {.name = "disk-tight-spill", .tier = ALL(DISK), .group = 1, .window = 96, .spill = DISK},
    {.name = "one-unit", .spread = ONE_UNIT, .tier = ALL(DISK), .group = 4, .keep = KEEP_ALL},
    {.name = "halves-device", .spread = HALVES, .tier = ALL(DEVICE), .group = 4},
    {.name = "halves-host", .spread = HALVES, .tier = ALL(HOST), .group = 4, .keep = KEEP_HALF},
    {.name = "halves-disk", .spread = HALVES, .tier = ALL(DISK), .group = 1, .keep = KEEP_ALL},
    {.name = "every-class",
     .spread = HALVES,
     .tier = {DEVICE, HOST, DISK, DEVICE, HOST},
     .group = 4,
     .keep = KEEP_HALF,
     .activations = HOST},
    {.name = "moments-disk",
     .tier = {DEVICE, HOST, DISK, DISK, HOST},
     .group = 1,
     .keep = KEEP_ALL},
    {.name = "kept-host", .tier = ALL(HOST), .group = 4, .keep = KEEP_ALL, .activations = HOST},
    {.name = "kept-disk", .tier = ALL(DEVICE), .group = 4, .keep = KEEP_HALF, .activations = DISK},
    {.name = "lean-device", .tier = ALL(DEVICE), .group = 1, .keep = KEEP_LEAN},
    {.name = "lean-host", .tier = ALL(HOST), .group = 4, .keep = KEEP_MIXED, .activations = HOST},
    {.name = "lean-disk", .tier = ALL(DISK), .group = 4, .keep = KEEP_LEAN, .activations = DISK},
    {.name = "tapes-host", .tier = ALL(HOST), .group = 4, .keep = KEEP_MIXED, .tapes = HOST},
    {.name = "tapes-disk", .tier = ALL(DEVICE), .group = 4, .keep = KEEP_LEAN, .tapes = DISK},
    {.name = "tapes-tight",
     .tier = ALL(HOST),
     .group = 4,
     .keep = KEEP_HALF,
     .activations = HOST,
     .tapes = HOST,
     .window = 96},
    {.name = "lean-tight", .tier = ALL(DISK), .group = 4, .keep = KEEP_LEAN, .window = 96},
    {.name = "again-device", .tier = ALL(DEVICE), .group = 1, .keep = KEEP_NONE},
    {.name = "again-host", .tier = ALL(DEVICE), .group = 4, .activations = HOST},
    {.name = "again-disk", .tier = ALL(DISK), .group = 4, .activations = DISK},
    {.name = "thin-device", .tier = ALL(DEVICE), .group = 1, .keep = KEEP_THIN},
    {.name = "thin-host", .tier = ALL(HOST), .group = 4, .keep = KEEP_THIN, .tapes = HOST},
    {.name = "thin-disk",
     .tier = ALL(DISK),
     .group = 1,
     .keep = KEEP_THIN,
     .activations = HOST,
     .tapes = DISK,
     .window = 96},
    {.name = "budget-350K", .device = 350, .host = 700},
    {.name = "budget-250K", .device = 250, .host = 500, .drives = 2},
};
enum { PLACEMENTS = sizeof placements / sizeof *placements };

static int tier_of(const placement *p, const char *unit, size_t index, int state)
{
    int tier = p->tier[state];
    if (p->spread == ONE_UNIT) return strstr(unit, ".0.") ? tier : DEVICE;
    if (p->spread == HALVES && (index + (size_t)state) % 2) return (tier + 1) % 3;
    return tier;
}

static void edit(const placement *p, json_t *plan)
{
    json_t *unit, *segment;
    size_t i;
    json_array_foreach(json_object_get(plan, "units"), i, unit)
    {
        const char *name = json_string_value(json_object_get(unit, "name"));
        for (int s = 0; s < STATES; ++s)
            if (json_object_get(unit, states[s]))
                plan_set_text(unit, states[s], tiers[tier_of(p, name, i, s)]);
    }
    static const int64_t quarters[] = {
        [KEEP_HALF] = 2, [KEEP_ALL] = 4, [KEEP_MIXED] = 1, [KEEP_THIN] = 0};
    bool thin = p->keep == KEEP_THIN;
    int64_t lean = p->keep == KEEP_LEAN || thin ? p->group : p->keep == KEEP_MIXED ? 2 : 0;
    json_array_foreach(json_object_get(plan, "segments"), i, segment)
    {
        int64_t keep = (p->group * quarters[p->keep] + (int64_t)i % 2 * 2) / 4;
        plan_set(segment, "keep", p->keep == KEEP_HALF ? keep : p->group * quarters[p->keep] / 4);
        plan_set(segment, "lean", lean);
        CHECK(json_object_set_new(segment, "thin", json_boolean(thin)) == 0);
        plan_set_text(segment, "activations", tiers[p->activations]);
        plan_set_text(segment, "tapes", tiers[p->tapes]);
    }
    plan_set(plan, "group", p->group);
    plan_set(plan, "window", (p->window ? p->window : 4096) * 1024);
    plan_set(plan, "chunk", 4096);
    plan_set(plan, "slots", 2);
    plan_set(plan, "ring", 8 * 4096);
    plan_set_text(plan, "spill", tiers[p->spill ? p->spill : HOST]);
}

typedef struct arrangement {
    const char *model, *dtype;
    uint64_t tile_size;
    bool examples;     /* prompts and completions as data */
    const char *pairs; /* the loss, of pairs of answers as data; NULL: cross-entropy */
    bool whole;        /* not with an adapter, whatever the loss */
    const char *base;  /* an adapter on a base of this dtype; "": that of the computation */
    bool dora;
    const char *optimizer; /* NULL: adamw */
    bool resumed;          /* in the middle, with the same placement */
} arrangement;

static hil_train_options options_of(job_place *place, const arrangement *a, const char *out)
{
    hil_train_options options = job_options(place, a->model, out);
    options.dtype = a->dtype;
    options.steps = STEPS;
    options.micro_batch = 1;
    options.shuffle = true;
    options.threads = 2;
    options.save_every = 0;
    if (a->optimizer) options.optimizer = a->optimizer;
    if (a->tile_size) options.tile_size = a->tile_size;
    if (a->examples) job_examples(place, &options);
    if (a->pairs) job_pairs(place, &options, a->pairs);
    if (a->pairs && a->whole) job_whole(&options);
    if (a->base) {
        options.adapter.source = "lora";
        options.adapter.rank = 3;
        options.adapter.dropout = 0.1;
        options.lr = 1e-2;
        options.adapter.dora = a->dora;
        if (strcmp(a->model, "mixtral") == 0 && !a->dora) {
            static const char *const experts[] = {"q_proj", "experts.gate_up_proj",
                                                  "experts.down_proj"};
            options.adapter.target = experts;
            options.adapter.targets = 3;
            options.adapter.dropout = 0;
        }
        if (a->base[0]) options.base_dtype = a->base;
    }
    return options;
}

static void reference(job_place *place, const arrangement *a, char out[JOB_PATH])
{
    char name[96];
    snprintf(name, sizeof name, "%s-%s-%d-%d-%s%d-%d-%s%s", a->model, a->dtype, (int)a->tile_size,
             a->examples, a->pairs ? a->pairs : "", a->whole, a->dora, a->base ? a->base : "whole",
             a->optimizer ? a->optimizer : "");
    job_path(place, out, name);
    if (hil_file_exists(out)) return;
    hil_train_options options = options_of(place, a, out);
    job_train(&options);
}

/* Checks that the run really moved what its placement says. States in RAM are updated in place:
   only weights, activations and what Muon makes orthogonal have to be copied to the device. */
static void check_moved(const arrangement *a, const placement *p, const char *name, const char *out)
{
    double read[STEPS], device[STEPS];
    CHECK_INT(job_metrics(out, "disk_read_bytes", read, STEPS), STEPS);
    CHECK_INT(job_metrics(out, "to_device_bytes", device, STEPS), STEPS);
    bool disk = p->activations == DISK || p->tapes == DISK;
    bool moves = p->activations != DEVICE || p->tapes != DEVICE || p->device || a->optimizer;
    for (int s = 0; s < STATES; ++s)
        for (size_t u = 0; u < 2; ++u) {
            disk = disk || tier_of(p, ".0.", u, s) == DISK;
            moves = moves || (s == WEIGHT && tier_of(p, ".0.", u, s) != DEVICE);
        }
    if (!p->device && disk != (read[STEPS - 1] > 0))
        check_die(name, __LINE__, "the disk was not used as planned");
    if (moves != (device[STEPS - 1] > 0))
        check_die(name, __LINE__, "the link to the device was not used as planned");
}

/* If the system refuses io_uring, there is only one engine. */
static hil_io_kind io_of(const placement *p)
{
    hil_io *io;
    hil_io_options options;
    hil_io_defaults(&options);
    options.engine = p->io;
    if (hil_io_create(&io, &options) != HIL_OK) {
        printf("%s: %s\n", p->name, hil_status_message());
        return HIL_IO_AUTO;
    }
    hil_io_destroy(io);
    return p->io;
}

static void train(const hil_train_options *options, const char *name)
{
    hil_train_result result;
    if (hil_train(options, NULL, &result) != HIL_OK)
        check_die(name, __LINE__, hil_status_message());
}

static void compare(job_place *place, const arrangement *a, const placement *p)
{
    char expected[JOB_PATH], out[JOB_PATH], file[JOB_PATH], drive[2][JOB_PATH], name[160];
    snprintf(name, sizeof name, "%s %s, tiles of %d%s%s%s: %s", a->model, a->dtype,
             (int)a->tile_size,
             a->examples ? ", examples"
             : a->pairs  ? ", pairs "
             : a->base   ? ", adapter "
                         : "",
             a->pairs  ? a->pairs
             : a->base ? a->base
                       : "",
             a->resumed ? " resumed"
             : a->dora  ? " DoRA"
                        : "",
             p->name);
    reference(place, a, expected);
    hil_train_options options = options_of(place, a, job_path(place, out, "run"));
    hil_disk_budget disks[2] = {{job_path(place, drive[0], "drive0"), 64 << 20},
                                {job_path(place, drive[1], "drive1"), 32 << 20}};
    options.overwrite = true;
    options.memory.disks = disks;
    options.memory.disk_count = p->drives ? p->drives : 1;
    options.memory.io = io_of(p);
    options.prefetch = !p->prefetch_off;
    options.memory.device = p->device ? p->device * 1024 : 64 << 20;
    options.memory.host = p->host ? p->host * 1024 : 64 << 20;
    if (!p->device) {
        json_t *plan = plan_of(&options);
        edit(p, plan);
        CHECK(json_dump_file(plan, job_path(place, file, "plan.json"), JSON_INDENT(1)) == 0);
        json_decref(plan);
        options.plan = file;
    }
    if (a->resumed) options.steps = STEPS / 2;
    train(&options, name);
    options.resume = a->resumed;
    options.overwrite = false;
    options.steps = STEPS;
    if (a->resumed) train(&options, name);
    check_moved(a, p, name, out);
    if (!job_same(expected, out)) check_die(name, __LINE__, "differs from everything resident");
}

/* Adapters: without --full one kind of base for every other placement, half of them resumed. Those
   of a mixture without DoRA have the experts as targets. */
static int compare_adapters(job_place *place, arrangement a, const placement *p, int number,
                            bool full)
{
    static const char *const bases[] = {"", "nf4", "int8", "fp8"};
    int runs = 0;
    a.examples = false;
    for (int b = 0; b < 4; ++b) {
        if (!full && b != number % 4) continue;
        a.base = bases[b];
        a.resumed = number / 4 % 2;
        a.dora = number % 3 == 0;
        compare(place, &a, p);
        ++runs;
    }
    return runs;
}

/* State spaces, the delta rule, and attention in chunks, all beside experts. Without --full each
   with a few of the placements, one of them resumed, and with an adapter. */
static int compare_recurrent(job_place *place, int i, const char *const *dtypes, bool full)
{
    static const char *const models[] = {"granitemoehybrid", "qwen3_next", "llama4"};
    int runs = 0;
    for (int k = 0; k < 3; ++k) {
        arrangement a = {.model = models[k],
                         .dtype = dtypes[(i + k) % 3],
                         .tile_size = i % 2 ? 2000 : 0,
                         .resumed = i % 4 == 2};
        if (placements[i].device || (!full && (i + 4 * k) % 11 != 6)) continue;
        compare(place, &a, &placements[i]);
        runs += 1 + compare_adapters(place, a, &placements[i], i + k, full);
    }
    return runs;
}

/* Losses that compare answers, of adapters and of whole models. */
static void compare_pairs(job_place *place, arrangement a, int i)
{
    static const char *const losses[] = {"orpo", "kto", "simpo", "dpo"};
    a.examples = false;
    a.pairs = losses[i / 3 % 4];
    a.whole = i / 12 % 2;
    compare(place, &a, &placements[i]);
}

int main(int count, char **arguments)
{
    static const char *const models[] = {"gpt2", "llama", "mixtral"};
    static const char *const dtypes[] = {"fp32", "bf16", "fp16"};
    bool full = count > 1 && strcmp(arguments[1], "--full") == 0;
    job_place place;
    char drive[JOB_PATH];
    int runs = 0;
    job_begin(&place);
    CHECK_OK(hil_dir_create(job_path(&place, drive, "drive0")));
    CHECK_OK(hil_dir_create(job_path(&place, drive, "drive1")));
    for (int i = 0; i < PLACEMENTS; i += CHECK_SLOW && !full ? 2 : 1)
        runs += compare_recurrent(&place, i, dtypes, full);
    for (int i = 0; i < PLACEMENTS; i += CHECK_SLOW && !full ? 2 : 1)
        for (int k = 0; k < 18; ++k) {
            arrangement a = {.model = models[k % 3],
                             .dtype = dtypes[k / 3 % 3],
                             .tile_size = k / 9 ? 2000 : 0,
                             .examples = (i + k) % 4 == 0};
            if (!full && hil_philox_permute(SEED, 18 * 64, (uint64_t)i) % 18 != (uint64_t)k)
                continue;
            compare(&place, &a, &placements[i]);
            ++runs;
            if (full || i % 2) runs += compare_adapters(&place, a, &placements[i], i + k, full);
            if (i % 3 != 1 && !full) continue;
            compare_pairs(&place, a, i);
            ++runs;
        }
    /* Capped scores and logits, norms after each part, rotary embedding per layer type; experts
       that files stack, and those with biases, beside sinks; latent attention, and experts chosen
       from groups. */
    static const char *const others[] = {"gemma2",  "granitemoe",  "gemma3",
                                         "gpt_oss", "deepseek_v2", "deepseek_v3"};
    for (int i = 0; i < PLACEMENTS; i += full ? 1 : 5) {
        arrangement a = {
            .model = others[i % 6], .dtype = dtypes[i % 3], .tile_size = (uint64_t)i % 4 * 700};
        if (placements[i].device) continue;
        compare(&place, &a, &placements[i]);
        ++runs;
    }
    /* Linear and gated attention, convolutions, state spaces, also with an adapter, and resumed. */
    static const char *const hybrids[] = {"qwen3_5", "qwen3_next", "lfm2", "granitemoehybrid"};
    for (int i = 3; i < PLACEMENTS; i += full ? 1 : 7) {
        arrangement a = {.model = hybrids[i / 7 % 4],
                         .dtype = dtypes[i % 3],
                         .tile_size = (uint64_t)i % 4 * 700,
                         .base = i % 5 == 4 ? "nf4" : NULL,
                         .resumed = i % 2};
        if (placements[i].device) continue;
        compare(&place, &a, &placements[i]);
        ++runs;
    }
    /* A rule whose scope is a matrix; its window holds one twice, besides the products. */
    for (int i = 0; i < PLACEMENTS; i += full ? 1 : 4) {
        arrangement a = {.model = models[i % 3],
                         .dtype = dtypes[i % 2],
                         .tile_size = (uint64_t)i % 3 * 700,
                         .optimizer = "muon",
                         .resumed = i % 2};
        placement p = placements[i];
        if (p.window) p.window = 256;
        compare(&place, &a, &p);
        ++runs;
    }
    /* Products in 8 bits: a tile of a weight has a scale of its own. */
    for (int i = 2; i < PLACEMENTS; i += full ? 1 : 4) {
        arrangement a = {.model = models[i / 4 % 3],
                         .dtype = "fp8",
                         .tile_size = (uint64_t)i % 3 * 700,
                         .base = i / 4 % 4 == 3 ? "" : NULL,
                         .resumed = i / 4 % 2};
        compare(&place, &a, &placements[i]);
        ++runs;
    }
    printf("%d runs, each equal to its own with everything on the device\n", runs);
    job_end(&place);
    return 0;
}
