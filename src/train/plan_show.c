/* plan_show.c - hilbert plan: the plan that train would follow, shown. */
#include "base/alloc.h"
#include "train/devices.h"
#include "train/freeze.h"
#include "train/plan.h"
#include "train/plan_file.h"
#include "train/plan_print.h"
#include "train/train.h"

#include <stdlib.h>
#include <string.h>

typedef struct show {
    const hil_train_options *options;
    const hil_observer *observer;
    hil_source source;
    hil_model *model;
    hil_device *device; /* NULL: the CPU */
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
    bool gpu = hil_devices_gpu(s->device);
    s->micro_batch = o->micro_batch;
    if (!s->micro_batch) s->micro_batch = hil_source_micro_batch(&s->source, s->seq, s->share, gpu);
    int threads = o->threads;
    if (!threads && s->ranks > 1) threads = hil_pool_cpus() / s->ranks;
    if (!threads && s->ranks > 1) threads = 1;
    int sharers = hil_devices_crowd(&o->device, s->ranks);
    hil_plan_request request = {.model = s->model,
                                .device = s->device,
                                .wired = s->device && s->ranks > 1 && sharers == 1,
                                .compute = s->dtype,
                                .training = true,
                                .sequences = s->share,
                                .length = s->seq,
                                .micro_batch = s->micro_batch,
                                .allowance = {o->device_memory, o->host_memory, o->disks,
                                              o->disk_count, s->ranks, 0, sharers},
                                .io = o->io,
                                .threads = threads,
                                .zero = o->zero,
                                .prefetch = o->prefetch,
                                .recompute = o->recompute,
                                .file = o->plan,
                                .probe_cache = o->probe_cache,
                                .measure = true};
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
                          .dtype = s->dtype};
    hil_status status = HIL_OK;
    HIL_TRY_DONE(hil_plan_print_all(&view, &text));
    fprintf(out, "%s with %s parameters in %s, %s; a step of %lld x %lld tokens\n%s\n\n%s",
            hil_arch_name(s->source.config.arch), hil_text_count(parameters, (uint64_t)count),
            s->options->dtype, s->rule->name, (long long)s->options->batch, (long long)s->seq,
            s->planned.machine.name, text.data);
    if (s->device && s->device->outside)
        fprintf(out,
                "beside the budget %s of the device's memory are taken: CUDA and its libraries\n",
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
    json_object_set_new(budget, "host", json_integer((json_int_t)b->host));
    json_object_set_new(budget, "disk", json_integer((json_int_t)b->disk));
    json_object_set_new(object, "budget", budget);
    HIL_TRY(print_object(object, out));
    return hil_fail(HIL_ERR_BUDGET, "%s", line);
}

hil_status hil_plan_show(const hil_train_options *options, const hil_plan_form *form,
                         const hil_observer *observer, FILE *out)
{
    show s = {.options = options, .observer = observer, .ranks = form->ranks > 1 ? form->ranks : 1};
    hil_status status = HIL_OK;
    HIL_TRY_DONE(open_model(&s));
    HIL_TRY_DONE(hil_devices_open(&options->device, NULL, observer, &s.device));
    status = make_plan(&s);
    if (status == HIL_ERR_BUDGET && form->json) status = print_refusal(&s, out);
    HIL_TRY_DONE(status);
    HIL_TRY_DONE(form->json ? print_json(&s, out) : print_text(&s, out));
done:
    hil_planned_free(&s.planned);
    hil_devices_close(s.device);
    hil_model_destroy(s.model);
    hil_source_close(&s.source);
    return status;
}
