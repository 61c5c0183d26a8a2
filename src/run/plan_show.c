/* plan_show.c - hilbert plan: makes the plan that train would follow, and prints it. */
#include "hilbert/plan.h"

#include "base/alloc.h"
#include "base/sized.h"
#include "machine/devices.h"
#include "train/freeze.h"
#include "train/pairs.h"
#include "plan/plan.h"
#include "plan/plan_file.h"
#include "plan/plan_print.h"
#include "plan/plan_report.h"
#include "run/generator.h"
#include "run/trial.h"
#include "run/train.h"
#include "store/store.h"

#include <stdlib.h>
#include <string.h>

typedef struct show {
    const hil_train_options *options;
    const hil_observer *observer;
    hil_source source;
    hil_model *model;
    hil_device *device; /* NULL: the CPU */
    const hil_gpu *gpu; /* GPU that `device` simulates; NULL: it is a real device */
    hil_dtype dtype;
    const hil_rule *rule;
    int ranks;
    int64_t seq, share, micro_batch; /* share: sequences of each rank */
    int64_t context;                 /* of a chat; 0: training */
    double dpo_beta;                 /* of hil_trainer_options */
    const hil_trial *trial;
    hil_planned planned;
} show;

/* A step is one of training, or a part of a prompt with one token of the reply. */
static hil_status set_lengths(show *s)
{
    int64_t most = s->source.config.max_positions;
    if (!s->context) {
        HIL_TRY(hil_source_seq(&s->source, s->options->seq, &s->seq));
        return hil_ranks_share(s->ranks, s->options->batch, &s->share);
    }
    if (s->context < 0 || s->context > most || s->ranks > 1)
        return hil_fail(HIL_ERR_USAGE, "--context %lld: the model has %lld positions, and one rank",
                        (long long)s->context, (long long)most);
    s->seq = hil_generator_chunk(s->context);
    s->share = 1;
    return HIL_OK;
}

static uint64_t cache_bytes(const show *s)
{
    const hil_config *c = &s->source.config;
    return 2 * (uint64_t)(s->context * c->layers * c->kv_heads * c->head_dim) *
           hil_dtype_size(s->dtype);
}

/* Makes the model one of `layers` layers, whose kinds repeat. */
static void repeat_layers(hil_config *c, int64_t layers)
{
    uint64_t *kinds[] = {c->mixture.dense, c->slides, c->still};
    for (int64_t n = c->layers; n < layers; ++n)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; ++k) {
            int64_t like = n % c->layers;
            uint64_t bit = kinds[k][like / 64] >> (like % 64) & 1;
            kinds[k][n / 64] = (kinds[k][n / 64] & ~((uint64_t)1 << (n % 64))) | bit << (n % 64);
        }
    c->layers = layers;
}

static hil_status open_model(show *s)
{
    const hil_train_options *o = s->options;
    if (!o->model) return hil_fail(HIL_ERR_USAGE, "a plan needs a model");
    HIL_TRY(hil_training_check(o));
    HIL_TRY(hil_dtype_parse(o->dtype, &s->dtype));
    HIL_TRY(hil_rule_find(o->optimizer, &s->rule));
    HIL_TRY(hil_source_open(&s->source, o->model));
    if (s->trial->layers) repeat_layers(&s->source.config, s->trial->layers);
    HIL_TRY(set_lengths(s));
    HIL_TRY(hil_source_adapt(&s->source, &o->adapter));
    HIL_TRY(hil_source_loss(&s->source, o->loss, o->beta, &s->dpo_beta));
    HIL_TRY(hil_source_build(&s->source, &s->model));
    HIL_TRY(hil_freeze(s->model->store, o->freeze, o->freeze_count));
    if (s->dpo_beta > 0) HIL_TRY(hil_pairs_check(s->model));
    hil_store_options store = {.compute = s->dtype,
                               .training = !s->context,
                               .tile_size = o->tile_size,
                               .moments = s->context ? 0 : s->rule->moments,
                               .codec = s->rule->codec,
                               .ranks = s->ranks};
    HIL_TRY(hil_quant_parse(o->base_dtype, s->dtype, &store.base));
    return hil_store_arrange(s->model->store, &store);
}

static hil_status make_plan(show *s)
{
    const hil_train_options *o = s->options;
    bool gpu = s->gpu || hil_devices_gpu(s->device);
    s->micro_batch = o->micro_batch;
    if (!s->micro_batch) s->micro_batch = hil_source_micro_batch(&s->source, s->seq, s->share, gpu);
    int threads = o->threads;
    if (!threads && s->ranks > 1) threads = hil_pool_cpus() / s->ranks;
    if (!threads && s->ranks > 1) threads = 1;
    int sharers = s->gpu ? 1 : hil_devices_planned_sharers(&o->device, s->ranks);
    const hil_cluster *cluster = s->trial->cluster;
    int on_machine = cluster ? (int)cluster->gpus : s->ranks;
    hil_plan_request request = {
        .model = s->model,
        .device = s->device,
        .connected = s->device && s->ranks > 1 && sharers == 1,
        .compute = s->dtype,
        .training = !s->context,
        .sequences = s->share,
        .length = s->seq,
        .cache = s->context,
        .micro_batch = s->micro_batch,
        .beta = s->dpo_beta,
        .allowance = {.memory = o->memory, .sharers = on_machine, .room_sharers = sharers},
        .threads = threads,
        .zero = o->zero,
        .prefetch = o->prefetch,
        .recompute = o->recompute,
        .file = o->plan,
        .probe_cache = o->probe_cache,
        .stop = o->stop,
        .hypothetical = true,
        .gpu = s->gpu,
        .cluster = cluster};
    return hil_plan_make(&request, s->observer, &s->planned);
}

static int64_t count_parameters(const hil_model *model)
{
    int64_t count = 0;
    for (size_t i = 0; i < hil_store_count(model->store); ++i)
        count += hil_param_elements(hil_store_at(model->store, i));
    return count;
}

/* Parameters that a token uses: of a mixture only the chosen experts'. */
static int64_t count_active(const show *s)
{
    const hil_mixture_config *m = &s->source.config.mixture;
    double count = 0;
    for (size_t i = 0; i < hil_store_count(s->model->store); ++i) {
        hil_param *p = hil_store_at(s->model->store, i);
        bool expert = m->experts && strstr(hil_param_spec_of(p)->name, ".experts.");
        double part = expert ? (double)m->chosen / (double)m->experts : 1;
        count += part * (double)hil_param_elements(p);
    }
    return (int64_t)count;
}

/* The inputs of the ZeRO-Infinity paper's formulas for this run. */
static hil_dense describe(const show *s)
{
    const hil_config *c = &s->source.config;
    double elements = (double)count_parameters(s->model), size = (double)hil_dtype_size(s->dtype);
    double states = 0, updated = 0, gradients = 0, weights = 0;
    bool quantized = false;
    for (size_t u = 0; u < s->planned.outline.units; ++u) {
        const hil_outline_unit *unit = &s->planned.unit[u];
        double all = 0;
        for (int i = 0; i < HIL_UNIT_STATES; ++i) all += (double)unit->bytes[i] * s->ranks;
        states += all;
        if (hil_outline_kind(unit) == HIL_UNIT_TRAINED) updated += all;
        gradients += (double)unit->bytes[HIL_GRADIENT] * s->ranks;
        weights += (double)unit->bytes[HIL_WEIGHT] * s->ranks;
        quantized = quantized || unit->quant != HIL_QUANT_NONE;
    }
    return (hil_dense){.layers = (double)c->layers,
                       .hidden = (double)c->hidden,
                       .heads = (double)c->heads,
                       .batch = (double)s->share,
                       .seq = (double)s->seq,
                       .interval = 1,
                       .parameters = elements,
                       .state_bytes = states / elements,
                       .weight_bytes = quantized ? weights / elements : size,
                       /* The update reads the states of what is trained and writes all of them but
                          the gradient. */
                       .optimizer_bytes = (updated - gradients / 2) / elements,
                       .activation_bytes = size};
}

/* Takes ownership of `object`; the caller frees *out. */
static hil_status dump(json_t *object, char **out)
{
    *out = object ? json_dumps(object, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(object);
    return *out ? HIL_OK : hil_fail(HIL_ERR_MEMORY, "no memory for the plan");
}

/* The object that train --plan reads, with the table of memory and the names of speeds that are
   assumed. */
static hil_status write_json(const show *s, const hil_plan_report *r, char **out)
{
    json_t *object;
    HIL_TRY(
        hil_plan_write(&s->planned.outline, &s->planned.plan, &s->planned.machine.speeds, &object));
    json_object_set_new(object, "machine", json_string(s->planned.machine.name));
    json_t *assumed = json_array();
    if (s->gpu) json_array_append_new(assumed, json_string(s->gpu->name));
    if (!s->planned.machine.measured) json_array_append_new(assumed, json_string("host"));
    for (size_t i = 0; i < s->options->memory.disk_count; ++i)
        if (!s->planned.machine.drive_known[i])
            json_array_append_new(assumed, json_string(s->options->memory.disks[i].path));
    json_object_set_new(object, "assumed_speeds", assumed);
    json_object_set_new(object, "memory", hil_plan_report_rows(r));
    return dump(object, out);
}

static hil_status fill_report(const show *s, hil_plan_report *r)
{
    hil_plan_view view = {.outline = &s->planned.outline,
                          .plan = &s->planned.plan,
                          .machine = &s->planned.machine,
                          .dense = s->context ? (hil_dense){0} : describe(s),
                          .dtype = s->dtype,
                          .tokens = s->planned.tokens,
                          .cache = cache_bytes(s)};
    hil_plan_report_fill(&view, r);
    r->model_type = s->source.config.arch->name;
    r->dtype = hil_dtype_name(s->dtype);
    r->optimizer = s->rule->name;
    r->parameters = count_parameters(s->model);
    r->batch = s->options->batch;
    r->length = s->seq;
    r->context = s->context;
    if (s->gpu) r->gpu = s->gpu->name;
    if (s->device) r->gpu_overhead = s->device->outside;
    return write_json(s, r, &r->json);
}

/* Fills the report of a run that does not fit from the last failure's message. */
static hil_status fill_refusal(const show *s, hil_plan_report *r)
{
    const hil_budget *b = &s->planned.budget;
    *r = (hil_plan_report){.budget = {"budget", b->device, b->host + s->planned.tokens, b->disk}};
    snprintf(r->missing, sizeof r->missing, "%s", hil_status_message());
    json_t *budget = json_pack("{s:I, s:I, s:I}", "device", (json_int_t)r->budget.device, "host",
                               (json_int_t)r->budget.host, "disk", (json_int_t)r->budget.disk);
    return dump(json_pack("{s:b, s:s, s:o}", "fits", 0, "missing", r->missing, "budget", budget),
                &r->json);
}

/* Opens the device. A GPU that this machine lacks is simulated by the device `threads`. */
static hil_status open_device(show *s, const char *gpu)
{
    hil_device_choice played = {.name = "threads:each"};
    if (s->trial->cluster)
        s->gpu = &s->trial->cluster->gpu;
    else if (gpu)
        HIL_TRY(hil_gpu_find(gpu, &s->gpu));
    else
        return hil_devices_open(&s->options->device, NULL, s->observer, &s->device);
    HIL_TRY(hil_devices_open(&played, NULL, s->observer, &s->device));
    hil_gpu_describe(s->gpu, s->device);
    return HIL_OK;
}

void hil_plan_defaults_sized(hil_plan_options *options, size_t size)
{
    const hil_plan_options defaults = {.ranks = 1};
    hil_sized_fill(options, size, &defaults, sizeof defaults);
}

hil_status hil_trial_plan(const hil_trial *trial, const hil_plan_options *own,
                          const hil_observer *observer, hil_plan_report **out)
{
    show s = {.options = trial->run, .observer = observer, .trial = trial};
    hil_plan_report *report = NULL;
    hil_status status;
    *out = NULL;
    s.ranks = own->ranks > 1 ? own->ranks : 1;
    if (trial->cluster) s.ranks = (int)(trial->cluster->nodes * trial->cluster->gpus);
    s.context = own->context;
    HIL_TRY_DONE(HIL_ALLOC(1, &report));
    HIL_TRY_DONE(open_model(&s));
    HIL_TRY_DONE(open_device(&s, own->gpu));
    status = make_plan(&s);
    if (status == HIL_OK)
        status = fill_report(&s, report);
    else if (status == HIL_ERR_BUDGET)
        status = fill_refusal(&s, report);
    HIL_TRY_DONE(status);
    report->scale.layers = s.source.config.layers;
    report->scale.active = count_active(&s);
    *out = report;
    report = NULL;
done:
    hil_plan_close(report);
    hil_planned_free(&s.planned);
    hil_devices_close(s.device);
    hil_model_destroy(s.model);
    hil_source_close(&s.source);
    return status;
}

hil_status hil_plan_open(hil_plan_report **out, const hil_train_options *train,
                         const hil_plan_options *options, const hil_observer *observer)
{
    hil_train_options run;
    hil_plan_options own;
    hil_trial trial = {.run = &run};
    *out = NULL;
    HIL_TRY(HIL_SIZED_TAKE(hil_train, &run, train));
    HIL_TRY(HIL_SIZED_TAKE(hil_plan, &own, options));
    if (own.cluster) return hil_trial_scale(&run, &own, observer, out);
    if (own.largest) return hil_fail(HIL_ERR_USAGE, "--largest needs --cluster FILE");
    return hil_trial_plan(&trial, &own, observer, out);
}

void hil_plan_close(hil_plan_report *report)
{
    if (!report) return;
    free(report->json);
    hil_free(report);
}

/* Prints which speeds are measured and which are assumed. */
static void print_speeds(const hil_plan_report *r, const hil_memory_options *memory, FILE *out)
{
    const hil_machine *machine = &r->machine;
    if (r->gpu)
        fprintf(out, "speeds: assumed for %s, host %s (%s)\n", r->gpu,
                machine->measured ? "as measured here" : "assumed as well", machine->name);
    else if (machine->measured)
        fprintf(out, "speeds: as measured here (%s)\n", machine->name);
    else
        fprintf(out, "speeds: assumed, of %s\n", machine->name);
    for (size_t i = 0; i < memory->disk_count; ++i) {
        const hil_drive_speed *speed = &machine->drive[i];
        const char *path = memory->disks[i].path;
        fprintf(out, "disk %s: %.2f GB/s read, %.2f GB/s written, ", path, speed->read * 1e-9,
                speed->write * 1e-9);
        if (machine->drive_known[i])
            fprintf(out, "as measured here\n");
        else
            fprintf(out, "assumed (hilbert probe --disk %s measures it)\n", path);
    }
}

static hil_status print_text(const hil_plan_report *r, const hil_memory_options *memory, FILE *out)
{
    hil_text text = {0};
    char number[32];
    hil_status status = hil_plan_print_all(r, &text);
    if (status == HIL_OK) {
        fprintf(out, "%s with %s parameters in %s, ", r->model_type,
                hil_text_count(number, (uint64_t)r->parameters), r->dtype);
        if (r->context)
            fprintf(out,
                    "a chat of up to %lld tokens; a step reads %lld tokens and writes the first of "
                    "the reply\n",
                    (long long)r->context, (long long)r->length);
        else
            fprintf(out, "%s; a step of %lld x %lld tokens\n", r->optimizer, (long long)r->batch,
                    (long long)r->length);
        if (r->scale.nodes)
            hil_trial_print(r, out);
        else
            print_speeds(r, memory, out);
        fprintf(out, "\n%s", text.data);
        if (r->gpu_overhead)
            fprintf(out,
                    "outside the budget, CUDA and its libraries take about %s of the GPU's "
                    "memory\n",
                    hil_text_bytes(number, r->gpu_overhead));
    }
    hil_text_free(&text);
    return status;
}

hil_status hil_plan_show(const hil_train_options *train, const hil_plan_options *options,
                         const hil_observer *observer, FILE *out)
{
    hil_train_options run;
    hil_plan_options own;
    hil_plan_report *r;
    HIL_TRY(hil_plan_open(&r, train, options, observer));
    hil_status status = HIL_SIZED_TAKE(hil_train, &run, train);
    if (status == HIL_OK) status = HIL_SIZED_TAKE(hil_plan, &own, options);
    if (status == HIL_OK && own.json)
        fprintf(out, "%s\n", r->json);
    else if (status == HIL_OK && r->fits)
        status = print_text(r, &run.memory, out);
    if (status == HIL_OK && !r->fits) {
        if (!own.json) hil_trial_print_largest(&r->scale, out);
        status = hil_fail(HIL_ERR_BUDGET, "%s", r->missing);
    }
    hil_plan_close(r);
    return status;
}
