/* plan_show.c - hilbert plan: the plan that train would follow, shown. */
#include "hilbert/plan.h"

#include "base/alloc.h"
#include "base/sized.h"
#include "machine/devices.h"
#include "train/freeze.h"
#include "plan/plan.h"
#include "plan/plan_file.h"
#include "plan/plan_print.h"
#include "run/train.h"

#include <stdlib.h>
#include <string.h>

typedef struct show {
    const hil_train_options *options;
    const hil_observer *observer;
    hil_source source;
    hil_model *model;
    hil_device *device; /* NULL: the CPU */
    const hil_gpu *gpu; /* that it stands for; NULL: it is what it is */
    hil_dtype dtype;
    const hil_rule *rule;
    int ranks;
    int64_t seq, share, micro_batch; /* share: sequences of each rank */
    hil_planned planned;
} show;

static hil_status open_model(show *s)
{
    const hil_train_options *o = s->options;
    if (!o->model) return hil_fail(HIL_ERR_USAGE, "a plan needs a model");
    HIL_TRY(hil_training_check(o));
    HIL_TRY(hil_dtype_parse(o->dtype, &s->dtype));
    HIL_TRY(hil_rule_find(o->optimizer, &s->rule));
    HIL_TRY(hil_source_open(&s->source, o->model));
    HIL_TRY(hil_source_seq(&s->source, o->seq, &s->seq));
    HIL_TRY(hil_ranks_share(s->ranks, o->batch, &s->share));
    HIL_TRY(hil_model_build(&s->model, &s->source.config));
    HIL_TRY(hil_freeze(s->model->store, o->freeze, o->freeze_count));
    hil_store_options store = {.compute = s->dtype,
                               .training = true,
                               .tile_size = o->tile_size,
                               .moments = s->rule->moments,
                               .codec = s->rule->codec,
                               .ranks = s->ranks};
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
    int sharers = s->gpu ? 1 : hil_devices_crowd(&o->device, s->ranks);
    hil_plan_request request = {
        .model = s->model,
        .device = s->device,
        .wired = s->device && s->ranks > 1 && sharers == 1,
        .compute = s->dtype,
        .training = true,
        .sequences = s->share,
        .length = s->seq,
        .micro_batch = s->micro_batch,
        .allowance = {.memory = o->memory, .sharers = s->ranks, .room_sharers = sharers},
        .threads = threads,
        .zero = o->zero,
        .prefetch = o->prefetch,
        .recompute = o->recompute,
        .file = o->plan,
        .probe_cache = o->probe_cache,
        .stop = o->stop,
        .hypothetical = true,
        .gpu = s->gpu};
    return hil_plan_make(&request, s->observer, &s->planned);
}

/* The paper's model with the numbers of this one. */
static hil_dense describe(const show *s)
{
    const hil_config *c = &s->source.config;
    double elements = 0, states = 0, gradients = 0;
    for (size_t u = 0; u < s->planned.outline.units; ++u) {
        const hil_outline_unit *unit = &s->planned.unit[u];
        elements += (double)unit->elements;
        gradients += (double)unit->bytes[HIL_GRADIENT] * s->ranks;
        for (int i = 0; i < HIL_UNIT_STATES; ++i) states += (double)unit->bytes[i] * s->ranks;
    }
    double size = (double)hil_dtype_size(s->dtype);
    return (hil_dense){.layers = (double)c->layers,
                       .hidden = (double)c->hidden,
                       .heads = (double)c->heads,
                       .batch = (double)s->share,
                       .seq = (double)s->seq,
                       .interval = 1,
                       .parameters = elements,
                       .state_bytes = states / elements,
                       .weight_bytes = size,
                       /* Everything is read, and all but the gradient written. */
                       .optimizer_bytes = (states - gradients / 2) / elements,
                       .activation_bytes = size};
}

/* Which speeds were measured, and which are assumed. */
static void print_speeds(const show *s, FILE *out)
{
    const hil_machine *machine = &s->planned.machine;
    if (s->gpu)
        fprintf(out, "speeds: assumed for %s, host %s (%s)\n", s->gpu->name,
                machine->measured ? "as measured here" : "assumed as well", machine->name);
    else if (machine->measured)
        fprintf(out, "speeds: as measured here (%s)\n", machine->name);
    else
        fprintf(out, "speeds: assumed, of %s\n", machine->name);
    for (size_t i = 0; i < s->options->memory.disk_count; ++i) {
        const hil_drive_speed *speed = &machine->drive[i];
        const char *path = s->options->memory.disks[i].path;
        fprintf(out, "disk %s: %.2f GB/s read, %.2f GB/s written, ", path, speed->read * 1e-9,
                speed->write * 1e-9);
        if (machine->drive_known[i])
            fprintf(out, "as measured here\n");
        else
            fprintf(out, "assumed (hilbert probe --disk %s measures it)\n", path);
    }
}

static hil_status print_text(const show *s, FILE *out)
{
    hil_text text = {0};
    char parameters[32];
    int64_t count = 0;
    for (size_t i = 0; i < hil_store_count(s->model->store); ++i)
        count += hil_param_elements(hil_store_at(s->model->store, i));
    hil_plan_view view = {.outline = &s->planned.outline,
                          .plan = &s->planned.plan,
                          .machine = &s->planned.machine,
                          .dense = describe(s),
                          .dtype = s->dtype,
                          .tokens = s->planned.tokens};
    hil_status status = HIL_OK;
    HIL_TRY_DONE(hil_plan_print_all(&view, &text));
    fprintf(out, "%s with %s parameters in %s, %s; a step of %lld x %lld tokens\n",
            hil_arch_name(s->source.config.arch), hil_text_count(parameters, (uint64_t)count),
            s->options->dtype, s->rule->name, (long long)s->options->batch, (long long)s->seq);
    print_speeds(s, out);
    fprintf(out, "\n%s", text.data);
    if (s->device && s->device->outside)
        fprintf(out,
                "outside the budget, CUDA and its libraries take about %s of the GPU's memory\n",
                hil_text_bytes(parameters, s->device->outside));
done:
    hil_text_free(&text);
    return status;
}

static hil_status print_object(json_t *object, FILE *out)
{
    char *text = object ? json_dumps(object, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(object);
    if (!text) return hil_fail(HIL_ERR_MEMORY, "no memory for the plan");
    fprintf(out, "%s\n", text);
    free(text);
    return HIL_OK;
}

static hil_status print_json(const show *s, FILE *out)
{
    json_t *object;
    HIL_TRY(
        hil_plan_write(&s->planned.outline, &s->planned.plan, &s->planned.machine.speeds, &object));
    json_object_set_new(object, "machine", json_string(s->planned.machine.name));
    json_t *assumed = json_array(); /* speeds that nobody measured */
    if (s->gpu) json_array_append_new(assumed, json_string(s->gpu->name));
    if (!s->planned.machine.measured) json_array_append_new(assumed, json_string("host"));
    for (size_t i = 0; i < s->options->memory.disk_count; ++i)
        if (!s->planned.machine.drive_known[i])
            json_array_append_new(assumed, json_string(s->options->memory.disks[i].path));
    json_object_set_new(object, "assumed_speeds", assumed);
    return print_object(object, out);
}

/* What there is to say about a run that does not fit. */
static hil_status print_refusal(const show *s, FILE *out)
{
    char line[1024];
    snprintf(line, sizeof line, "%s", hil_status_message());
    const hil_budget *b = &s->planned.budget;
    json_t *object = json_object(), *budget = json_object();
    json_object_set_new(object, "fits", json_false());
    json_object_set_new(object, "missing", json_string(line));
    json_object_set_new(budget, "device", json_integer((json_int_t)b->device));
    json_object_set_new(budget, "host", json_integer((json_int_t)(b->host + s->planned.tokens)));
    json_object_set_new(budget, "disk", json_integer((json_int_t)b->disk));
    json_object_set_new(object, "budget", budget);
    HIL_TRY(print_object(object, out));
    return hil_fail(HIL_ERR_BUDGET, "%s", line);
}

/* What computes: a GPU that is not here is played by a device of threads. */
static hil_status open_device(show *s, const char *gpu)
{
    hil_device_choice played = {.name = "threads:each"};
    if (!gpu) return hil_devices_open(&s->options->device, NULL, s->observer, &s->device);
    HIL_TRY(hil_gpu_find(gpu, &s->gpu));
    HIL_TRY(hil_devices_open(&played, NULL, s->observer, &s->device));
    hil_gpu_describe(s->gpu, s->device);
    return HIL_OK;
}

void hil_plan_defaults_sized(hil_plan_options *options, size_t size)
{
    const hil_plan_options defaults = {.ranks = 1};
    hil_sized_fill(options, size, &defaults, sizeof defaults);
}

hil_status hil_plan_show(const hil_train_options *options, const hil_plan_options *form,
                         const hil_observer *observer, FILE *out)
{
    hil_train_options train;
    hil_plan_options own;
    show s = {.options = &train, .observer = observer};
    hil_status status = HIL_OK;
    HIL_TRY_DONE(HIL_SIZED_TAKE(hil_train, &train, options));
    HIL_TRY_DONE(HIL_SIZED_TAKE(hil_plan, &own, form));
    s.ranks = own.ranks > 1 ? own.ranks : 1;
    HIL_TRY_DONE(open_model(&s));
    HIL_TRY_DONE(open_device(&s, own.gpu));
    status = make_plan(&s);
    if (status == HIL_ERR_BUDGET && own.json) status = print_refusal(&s, out);
    HIL_TRY_DONE(status);
    HIL_TRY_DONE(own.json ? print_json(&s, out) : print_text(&s, out));
done:
    hil_planned_free(&s.planned);
    hil_devices_close(s.device);
    hil_model_destroy(s.model);
    hil_source_close(&s.source);
    return status;
}
