/* A plan made with fewer layers, each of which stands for several, has the numbers of the plan with
   all of them: bytes of states to the page, bytes and seconds of a step and what tensors need
   closely; and it stays within the same budgets. */
#include "check.h"
#include "machine/devices.h"
#include "model/build.h"
#include "plan/plan.h"
#include "run/layers.h"
#include "store/store.h"

#include <math.h>

enum { LAYERS = 48, FEWER = 12, RANKS = 4 };
#define GIB ((uint64_t)1 << 30)

static const char cluster_text[] =
    "{\"name\": \"c\", \"gpus\": 4, \"gpu\": {\"memory_gib\": 8, \"tensor_tflops\": 100, "
    "\"fp32_tflops\": 10, \"memory_gb_s\": 1000, \"bus_gb_s\": 20}, \"ram_gib\": 64, "
    "\"ram_gb_s\": 200, \"drives\": {\"count\": 4, \"gb\": 500, \"read_gb_s\": 6, "
    "\"write_gb_s\": 3}, \"network\": {\"inside_gb_s\": 50}}";

/* What is asked of a plan. */
typedef struct asked {
    int64_t sequences, micro_batch;
    uint64_t device, host; /* host: of all ranks */
    bool mixture;
} asked;

/* Of the mixture three layers of 24 have an MLP alone. */
static const char dense_text[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 32000, \"hidden_size\": 4096,"
    " \"intermediate_size\": 11008, \"num_attention_heads\": 32,"
    " \"num_key_value_heads\": 32, \"num_hidden_layers\": 48,"
    " \"max_position_embeddings\": 4096, \"rms_norm_eps\": 1e-5,"
    " \"tie_word_embeddings\": false}";
static const char mixture_text[] =
    "{\"model_type\": \"qwen3_moe\", \"vocab_size\": 64000, \"hidden_size\": 2048,"
    " \"intermediate_size\": 6144, \"moe_intermediate_size\": 768, \"num_attention_heads\": 16,"
    " \"num_key_value_heads\": 4, \"head_dim\": 128, \"num_hidden_layers\": 48,"
    " \"num_experts\": 64, \"num_experts_per_tok\": 4, \"mlp_only_layers\": [0, 1, 2],"
    " \"max_position_embeddings\": 4096, \"rms_norm_eps\": 1e-6,"
    " \"tie_word_embeddings\": false}";

/* With `fewer` of its layers, if not 0, and what they stand for. */
static hil_model *build(const asked *a, int64_t fewer, int64_t *stands)
{
    hil_config config;
    hil_model *model;
    const char *text = a->mixture ? mixture_text : dense_text;
    CHECK_OK(hil_config_parse(&config, text, strlen(text), "model"));
    if (fewer) hil_layers_thin(&config, fewer, stands);
    CHECK_OK(hil_build_model(&model, &config));
    hil_store_options store = {
        .compute = HIL_BF16, .training = true, .tile_size = 8 << 20, .moments = 2, .ranks = RANKS};
    CHECK_OK(hil_store_arrange(model->store, &store));
    return model;
}

static void make(const asked *a, int64_t fewer, hil_planned *out)
{
    hil_cluster cluster;
    hil_device_choice choice = {.name = "threads:each"};
    hil_device *device;
    hil_disk_budget disk = {"drives", 2000 * GIB};
    int64_t stands[LAYERS];
    hil_model *model = build(a, fewer, stands);
    CHECK_OK(hil_cluster_parse(&cluster, cluster_text, strlen(cluster_text), "cluster"));
    CHECK_OK(hil_devices_open(&choice, NULL, NULL, &device));
    hil_gpu_describe(&cluster.gpu, device);
    hil_plan_request request = {
        .model = model,
        .device = device,
        .connected = true,
        .compute = HIL_BF16,
        .training = true,
        .sequences = a->sequences,
        .length = 1024,
        .micro_batch = a->micro_batch,
        .allowance =
            {.memory = {.device = a->device, .host = a->host, .disks = &disk, .disk_count = 1},
             .sharers = RANKS},
        .threads = 1,
        .prefetch = true,
        .hypothetical = true,
        .gpu = &cluster.gpu,
        .cluster = &cluster,
        .stands = fewer ? stands : NULL,
    };
    CHECK_OK(hil_plan_make(&request, NULL, out));
    hil_devices_close(device);
    hil_model_destroy(model);
}

/* Bytes of all states, on all tiers. */
static uint64_t states_of(const hil_planned *p, int tier)
{
    hil_plan_table table;
    uint64_t bytes = 0;
    hil_plan_count(&p->outline, &p->plan, &table);
    for (int s = 0; s < HIL_UNIT_STATES; ++s)
        for (int t = 0; t < HIL_TIERS; ++t)
            if (tier < 0 || t == tier) bytes += table.bytes[s][t];
    return bytes;
}

static void close_to(const char *what, double got, double expected, double part)
{
    printf("  %s: %.6g of %.6g\n", what, got, expected);
    if (fabs(got - expected) > part * expected) check_die(__FILE__, __LINE__, what);
}

static void check(const asked *a)
{
    hil_planned all, few;
    make(a, 0, &all);
    make(a, FEWER, &few);
    const hil_plan *p = &all.plan, *q = &few.plan;
    printf("%s, %d sequences, %d at once, %.1f GiB\n", a->mixture ? "mixture" : "dense",
           (int)a->sequences, (int)a->micro_batch, (double)a->device / (double)GIB);
    CHECK_INT(states_of(&few, -1), states_of(&all, -1));
    for (int t = 0; t < HIL_TIERS; ++t) {
        uint64_t budget[HIL_TIERS] = {q->device_budget, q->host_budget, q->disk_budget};
        CHECK(q->peak[t] <= budget[t]);
    }
    close_to("disk", (double)states_of(&few, HIL_DISK), (double)states_of(&all, HIL_DISK), 0.1);
    close_to("seconds", q->step_seconds, p->step_seconds, 0.1);
    close_to("computing", q->compute_seconds, p->compute_seconds, 0.05);
    close_to("gathered", (double)q->gathered, (double)p->gathered, 0.1);
    close_to("reduced", (double)q->reduced, (double)p->reduced, 0.001);
    close_to("disk read", (double)q->disk_read, (double)p->disk_read, 0.1);
    CHECK_INT(q->by_tile, p->by_tile);
    hil_planned_free(&all);
    hil_planned_free(&few);
}

/* A unit that stands for three, of which the sums stay in the window of a GPU: three times its
   other states are reserved, and two of them are those that no rehearsal has. */
static void check_kept_sums(void)
{
    static const hil_outline_unit unit = {
        .elements = 4096, .bytes = {8192, 8192, 16384, 16384, 8192}, .uses = 1, .count = 3};
    static const hil_outline outline = {.unit = &unit, .units = 1, .micros = 2, .training = true};
    hil_unit_place place = {{0}, false};
    hil_plan plan = {.discrete = true, .chunk = 4096, .unit = &place, .units = 1};
    for (int kept = 0; kept < 2; ++kept) {
        uint64_t more[HIL_TIERS], need[HIL_TIERS], states = 49152 + (kept ? 0 : 8192);
        plan.keeps_sums = kept;
        hil_plan_represented(&plan, &outline, more);
        hil_plan_needs(&plan, &outline, need);
        CHECK_INT(need[HIL_DEVICE], 3 * states);
        CHECK_INT(more[HIL_DEVICE], 2 * states);
    }
}

/* At least one layer of each kind is kept, in their order, and each stands for some of its kind. */
static void check_kinds(void)
{
    hil_config config;
    int64_t stands[LAYERS], dense = 0, sum = 0;
    CHECK_OK(hil_config_parse(&config, mixture_text, strlen(mixture_text), "model"));
    hil_layers_thin(&config, 9, stands);
    CHECK_INT(config.layers, 9);
    CHECK(config.mixture.dense[0] == 1 && stands[0] == 3);
    for (int64_t n = 1; n < config.layers; ++n) sum += stands[n];
    CHECK_INT(sum, LAYERS - 3);
    CHECK_OK(hil_config_parse(&config, mixture_text, strlen(mixture_text), "model"));
    hil_layers_repeat(&config, 3 * LAYERS);
    for (int64_t n = 0; n < 3 * LAYERS; ++n) {
        bool is = config.mixture.dense[n / 64] >> n % 64 & 1;
        CHECK(is == (n % LAYERS < 3));
        dense += is;
    }
    CHECK_INT(dense, 9);
}

int main(void)
{
    check_kept_sums();
    check_kinds();
    static const asked all[] = {
        {4, 4, 3 * GIB, 40 * GIB, false},
        {8, 1, 4 * GIB, 60 * GIB, false},
        {4, 4, 3 * GIB, 40 * GIB, true},
        {8, 4, 7 * GIB, 200 * GIB, true},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i) check(&all[i]);
    return 0;
}
