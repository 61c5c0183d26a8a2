/* plan_show.c - hilbert plan: makes the plan that train would follow, and prints it. */
#include "hilbert/plan.h"

#include "base/alloc.h"
#include "base/sized.h"
#include "machine/devices.h"
#include "train/freeze.h"
#include "train/pairs.h"
#include "plan/layout.h"
#include "plan/plan.h"
#include "plan/plan_file.h"
#include "plan/plan_print.h"
#include "plan/plan_report.h"
#include "run/generator.h"
#include "run/layers.h"
#include "run/trial.h"
#include "run/train.h"
#include "store/store.h"
#include "tensor/fp8.h"
#include "tier/timeline.h"

#include <stdlib.h>
#include <string.h>

#define UNITS_MOST 8192 /* of a model that is rehearsed with all its layers */
#define LAYERS_LEAST 4

typedef struct show {
    const hil_train_options *options;
    const hil_observer *observer;
    hil_source source;
    hil_model *model;
    hil_device *device; /* NULL: the CPU */
    const hil_gpu *gpu; /* GPU that `device` simulates; NULL: it is a real device */
    hil_dtype dtype;
    bool fp8; /* products of the blocks are in 8 bits */
    const hil_rule *rule;
    int ranks;
    int64_t seq, share, micro_batch; /* share: sequences of each rank */
    int64_t context;                 /* of a chat; 0: training */
    hil_preference_loss preference;
    const hil_trial *trial;
    int64_t layers, parameters, active; /* of the model that is asked for */
    int64_t *stands; /* how many of those each layer stands for; NULL: for itself */
    hil_planned planned;
} show;

/* Whether ZeRO-Infinity's layout is planned instead of hilbert's. */
static bool takes_layout(const show *s)
{
    return s->trial->cluster && s->trial->cluster->layout.given;
}

/* A step is one of training, or a part of a prompt with one token of the reply. */
static hil_status set_lengths(show *s)
{
    int64_t most = hil_config_longest(&s->source.config);
    if (!s->context) {
        HIL_TRY(hil_source_seq(&s->source, s->options->seq, &s->seq));
        s->share = 1;
        if (takes_layout(s)) return HIL_OK; /* whose batch may be a fraction */
        return hil_ranks_share(s->ranks, s->options->batch, &s->share);
    }
    if (s->context < 0 || s->context > most || s->ranks > 1)
        return hil_fail(
            HIL_ERR_USAGE, "--context %lld: the model has %lld positions, and one rank%s",
            (long long)s->context, (long long)most, hil_config_longest_why(&s->source.config));
    s->seq = hil_generator_chunk(s->context);
    s->share = 1;
    return HIL_OK;
}

static uint64_t cache_bytes(const show *s)
{
    const hil_config *c = &s->source.config;
    int64_t heads = 0;
    for (int64_t n = 0; n < c->layers; ++n)
        if (hil_config_attends(c, n)) heads += hil_config_kv_heads(c, n);
    if (c->attentions) heads *= c->attentions;
    return 2 * (uint64_t)(s->context * heads * hil_config_key_dim(c)) * hil_dtype_size(s->dtype);
}

/* Makes all but the vocabulary, the positions and the size of a head `times` as wide. */
static void widen(hil_config *c, int64_t times)
{
    int64_t *const sizes[] = {
        &c->hidden,          &c->intermediate,   &c->heads,          &c->kv_heads,
        &c->varied.kv_heads, &c->mixture.width,  &c->mixture.shared, &c->mixture.latent,
        &c->latent.q_rank,   &c->latent.kv_rank, &c->delta.heads,    &c->delta.key_heads,
        &c->mamba.heads,     &c->local_kv_heads, &c->local_heads,    &c->indexer.heads};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) *sizes[i] *= times;
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
        double part = expert ? (double)m->chosen / (double)(m->experts + m->identities) : 1;
        count += part * (double)hil_param_elements(p);
    }
    return (int64_t)count;
}

/* Layers of the model to rehearse: fewer than it has if the machine is only described, their tiles
   are many, and none reads what an earlier one computed. */
static int64_t layers_of(const show *s)
{
    int64_t layers = s->source.config.layers, units = 0;
    bool thins = s->trial->cluster && !takes_layout(s) && !s->options->plan &&
                 !s->source.adapter.root && (int64_t)s->model->count == layers + 2 &&
                 !s->source.config.varied.reusing;
    for (size_t i = 0; i < hil_store_count(s->model->store) && thins; ++i) {
        int64_t elements = hil_param_elements(hil_store_at(s->model->store, i));
        units += 1 + elements / (int64_t)(s->options->tile_size / hil_dtype_size(s->dtype) + 1);
    }
    if (!thins || units <= UNITS_MOST) return layers;
    int64_t fewer = (int64_t)((double)layers * UNITS_MOST / (double)units);
    if (fewer < LAYERS_LEAST) fewer = LAYERS_LEAST;
    return fewer < layers ? fewer : layers;
}

/* Builds the model and counts its parameters; keeps fewer of its layers where that is enough:
   [Note: representative layers] in outline.h. */
static hil_status build_model(show *s)
{
    HIL_TRY(hil_source_build(&s->source, &s->model));
    s->layers = s->source.config.layers;
    s->parameters = count_parameters(s->model);
    s->active = count_active(s);
    int64_t fewer = layers_of(s);
    if (fewer == s->layers) return HIL_OK;
    hil_model_destroy(s->model);
    s->model = NULL;
    HIL_TRY(HIL_ALLOC(s->layers, &s->stands));
    hil_layers_thin(&s->source.config, fewer, s->stands);
    return hil_source_build(&s->source, &s->model);
}

/* Empties the file before planning, so that no older timeline is taken for that of a refused plan.
 */
static hil_status begin_trace(const char *path)
{
    hil_timeline *timeline = NULL;
    if (path) HIL_TRY(hil_timeline_open(&timeline, path, 0));
    hil_timeline_close(timeline);
    return HIL_OK;
}

static hil_status open_model(show *s)
{
    const hil_train_options *o = s->options;
    HIL_TRY(begin_trace(o->trace));
    if (!o->model) return hil_fail(HIL_ERR_USAGE, "a plan needs a model");
    HIL_TRY(hil_training_check(o));
    HIL_TRY(hil_fp8_parse(o->dtype, &s->dtype, &s->fp8));
    HIL_TRY(hil_rule_find(o->optimizer, &s->rule));
    HIL_TRY(hil_source_open(&s->source, o->model));
    hil_source_note_text(&s->source, s->observer);
    if (s->trial->layers) hil_layers_repeat(&s->source.config, s->trial->layers);
    if (s->trial->width) widen(&s->source.config, s->trial->width);
    HIL_TRY(set_lengths(s));
    HIL_TRY(hil_source_adapt(&s->source, &o->adapter));
    const hil_loss_request loss = hil_training_loss(o);
    HIL_TRY(hil_source_loss(&s->source, &loss, &s->preference));
    if (s->preference.precomputed && o->reference)
        HIL_TRY(hil_source_check_reference(&s->source, o->reference));
    HIL_TRY(build_model(s));
    HIL_TRY(hil_freeze(s->model->store, o->freeze, o->freeze_count));
    HIL_TRY(hil_pairs_check(s->model, &s->preference));
    hil_store_options store = {.compute = s->dtype,
                               .training = !s->context,
                               .tile_size = o->tile_size,
                               .moments = s->context ? 0 : s->rule->moments,
                               .codec = s->rule->codec,
                               .in_parts = s->rule->in_parts,
                               .matrix = s->rule->matrix,
                               .fp8 = s->fp8,
                               .ranks = s->ranks};
    HIL_TRY(hil_quant_parse(o->base_dtype, s->dtype, &store.base));
    return hil_store_arrange(s->model->store, &store);
}

/* Positions of a sample of text; 0: the run would take none. */
static hil_status plan_samples(const show *s, int64_t *positions)
{
    hil_ids prompt = {0};
    hil_status status = hil_training_prompt(s->options, &s->source, &prompt, positions);
    hil_ids_free(&prompt);
    return status;
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
    int64_t cache = s->context;
    if (!cache) HIL_TRY(plan_samples(s, &cache));
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
        .cache = cache,
        .micro_batch = s->micro_batch,
        .preference = s->preference,
        .allowance = {.memory = o->memory, .sharers = on_machine, .room_sharers = sharers},
        .threads = threads,
        .zero = o->zero,
        .prefetch = o->prefetch,
        .recompute = o->recompute,
        .file = o->plan,
        .trace = o->trace,
        .probe_cache = o->probe_cache,
        .stop = o->stop,
        .any = s->trial->any,
        .hypothetical = true,
        .gpu = s->gpu,
        .cluster = cluster,
        .stands = s->stands};
    return hil_plan_make(&request, s->observer, &s->planned);
}

/* The inputs of the ZeRO-Infinity paper's formulas for this run. */
static hil_dense describe(const show *s)
{
    const hil_config *c = &s->source.config;
    double elements = (double)s->parameters, size = (double)hil_dtype_size(s->dtype);
    double states = 0, updated = 0, gradients = 0, weights = 0;
    bool quantized = false;
    for (size_t u = 0; u < s->planned.outline.units; ++u) {
        const hil_outline_unit *unit = &s->planned.unit[u];
        double all = 0;
        double times = (double)hil_outline_times(unit->count) * s->ranks;
        for (int i = 0; i < HIL_UNIT_STATES; ++i) all += (double)unit->bytes[i] * times;
        states += all;
        if (hil_outline_kind(unit) == HIL_UNIT_TRAINED) updated += all;
        gradients += (double)unit->bytes[HIL_GRADIENT] * times;
        weights += (double)unit->bytes[HIL_WEIGHT] * times;
        quantized = quantized || unit->quant != HIL_QUANT_NONE;
    }
    return (hil_dense){.layers = (double)s->layers,
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

/* The object that train --plan reads, with the table of memory and the names of speeds that are
   assumed. */
static hil_status write_json(const show *s, const hil_plan_report *r, json_t **out)
{
    HIL_TRY(hil_plan_write(&s->planned.outline, &s->planned.plan, &s->planned.machine.speeds, out));
    json_t *object = *out;
    json_object_set_new(object, "machine", json_string(s->planned.machine.name));
    if (s->layers != s->source.config.layers)
        json_object_set_new(object, "layers_rehearsed", json_integer(s->source.config.layers));
    json_t *assumed = hil_plan_assumed(&s->planned.machine, &s->options->memory);
    if (s->gpu) json_array_insert_new(assumed, 0, json_string(s->gpu->name));
    json_object_set_new(object, "assumed_speeds", assumed);
    json_object_set_new(object, "memory", hil_plan_report_rows(r));
    return HIL_OK;
}

static void name_run(const show *s, hil_plan_report *r)
{
    r->model_type = s->source.config.arch->name;
    r->optimizer = s->rule->name;
    r->parameters = s->parameters;
    r->batch = s->options->batch;
    r->length = s->seq;
    if (s->gpu) r->gpu = s->gpu->name;
}

static hil_status fill_report(const show *s, hil_plan_report *r, json_t **object)
{
    hil_plan_view view = {.outline = &s->planned.outline,
                          .plan = &s->planned.plan,
                          .machine = &s->planned.machine,
                          .dense = s->context ? (hil_dense){0} : describe(s),
                          .dtype = s->dtype,
                          .tokens = s->planned.tokens,
                          .cache = cache_bytes(s)};
    hil_plan_report_fill(&view, r);
    name_run(s, r);
    r->dtype = s->fp8 ? "fp8" : hil_dtype_name(s->dtype);
    r->context = s->context;
    if (s->device) r->gpu_overhead = s->device->outside;
    return write_json(s, r, object);
}

/* Plans ZeRO-Infinity's layout: model states of 20 bytes, fp16. */
static hil_status plan_layout(const show *s, hil_plan_report *r, json_t **object)
{
    const hil_config *c = &s->source.config;
    if (s->options->trace)
        return hil_fail(HIL_ERR_USAGE, "--trace: a plan with \"layout\" has no timeline");
    if (c->mixture.experts || s->source.adapter.root || s->rule != &hil_rules[HIL_ADAMW])
        return hil_fail(HIL_ERR_USAGE,
                        "%s: \"layout\" is for dense models, all of whose parameters "
                        "are trained by AdamW",
                        s->trial->cluster->name);
    hil_dense model = {.layers = (double)c->layers,
                       .hidden = (double)c->hidden,
                       .heads = (double)c->heads,
                       .batch = (double)s->options->batch / (double)s->ranks,
                       .seq = (double)s->seq,
                       .interval = 1,
                       .parameters = (double)s->parameters,
                       .state_bytes = HIL_LAYOUT_STATES,
                       .weight_bytes = HIL_LAYOUT_WEIGHT,
                       .optimizer_bytes = HIL_LAYOUT_OPTIMIZER,
                       .activation_bytes = HIL_LAYOUT_WEIGHT};
    hil_allowance allowance = {.memory = s->options->memory,
                               .sharers = (int)s->trial->cluster->gpus,
                               .room = s->device->available,
                               .hypothetical = true};
    hil_drive drives[HIL_DRIVES];
    hil_budget have;
    hil_layout layout;
    HIL_TRY(hil_budget_find(&allowance, &have, drives));
    HIL_TRY(hil_layout_choose(s->trial->cluster, &model, &have, &layout));
    HIL_TRY(hil_layout_report(&layout, &model, r, object));
    name_run(s, r);
    r->ranks = s->ranks;
    return HIL_OK;
}

/* Fills the report of a run that does not fit from the last failure's message. */
static void fill_refusal(const show *s, hil_plan_report *r, json_t **object)
{
    const hil_budget *b = &s->planned.budget;
    *r = (hil_plan_report){.budget = {"budget", b->device, b->host + s->planned.tokens, b->disk}};
    snprintf(r->missing, sizeof r->missing, "%s", hil_status_message());
    json_t *budget = json_pack("{s:I, s:I, s:I}", "device", (json_int_t)r->budget.device, "host",
                               (json_int_t)r->budget.host, "disk", (json_int_t)r->budget.disk);
    *object = json_pack("{s:b, s:s, s:o}", "fits", 0, "missing", r->missing, "budget", budget);
}

/* Opens the device. A GPU that this machine lacks is simulated by the device `threads`. */
static hil_status open_device(show *s, const char *gpu)
{
    hil_device_choice played = {.name = "threads:each"};
    if (s->trial->cluster && hil_cluster_on_cpu(s->trial->cluster)) return HIL_OK;
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
                          const hil_observer *observer, hil_plan_report **out, json_t **object)
{
    show s = {.options = trial->run, .observer = observer, .trial = trial};
    hil_plan_report *report = NULL;
    hil_status status;
    *out = NULL;
    *object = NULL;
    s.ranks = own->ranks > 1 ? own->ranks : 1;
    if (trial->cluster) s.ranks = (int)(trial->cluster->nodes * trial->cluster->gpus);
    s.context = own->context;
    HIL_TRY_DONE(HIL_ALLOC(1, &report));
    HIL_TRY_DONE(open_model(&s));
    HIL_TRY_DONE(open_device(&s, own->gpu));
    if (s.fp8) HIL_TRY_DONE(hil_devices_check_fp8(s.device));
    status = takes_layout(&s) ? plan_layout(&s, report, object) : make_plan(&s);
    if (status == HIL_OK && !takes_layout(&s)) status = fill_report(&s, report, object);
    if (status == HIL_ERR_BUDGET) {
        fill_refusal(&s, report, object);
        status = HIL_OK;
    }
    HIL_TRY_DONE(status);
    report->scale.layers = s.layers;
    report->scale.hidden = s.source.config.hidden;
    report->scale.active = s.active;
    *out = report;
    report = NULL;
done:
    hil_plan_close(report);
    hil_planned_free(&s.planned);
    hil_devices_close(s.device);
    hil_model_destroy(s.model);
    hil_source_close(&s.source);
    hil_free(s.stands);
    return status;
}

hil_status hil_plan_open(hil_plan_report **out, const hil_train_options *train,
                         const hil_plan_options *options, const hil_observer *observer)
{
    hil_train_options run;
    hil_plan_options own;
    hil_trial trial = {.run = &run};
    json_t *object;
    *out = NULL;
    HIL_TRY(HIL_SIZED_TAKE(hil_train, &run, train));
    HIL_TRY(HIL_SIZED_TAKE(hil_plan, &own, options));
    if (own.largest && !own.cluster)
        return hil_fail(HIL_ERR_USAGE, "--largest needs --cluster FILE");
    HIL_TRY(own.cluster ? hil_trial_scale(&run, &own, observer, out, &object)
                        : hil_trial_plan(&trial, &own, observer, out, &object));
    (*out)->json = json_dumps(object, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    json_decref(object);
    if ((*out)->json) return HIL_OK;
    hil_plan_close(*out);
    *out = NULL;
    return hil_fail(HIL_ERR_MEMORY, "no memory for the plan");
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
        if (!own.json) hil_trial_print_refused(r, out);
        status = hil_fail(HIL_ERR_BUDGET, "%s", r->missing);
    }
    hil_plan_close(r);
    return status;
}
