/* trial.c - several plans for a cluster: as it is, with parts doubled, and with other numbers of
   layers. */
#include "run/trial.h"

#include "model/config/config.h"
#include "plan/budget.h"

#include <math.h>
#include <string.h>

#define RAM_PERCENT 90  /* of a node's RAM may be used */
#define HOST_PERCENT 10 /* of it is the host's, where the CPU computes */
#define HELPS 0.99      /* of a step's time: a change that helps leaves less */
#define LAYERS_PART 64  /* the largest number of layers is found to 1/64 */
#define LAYERS_MANY 512 /* with more of them, wider layers are tried instead */
#define WIDTH_MOST 4096 /* times the width of the model */

/* A run's options for a cluster: budgets that are not set are what a node has. */
typedef struct fitted {
    hil_train_options run;
    hil_disk_budget disk[HIL_DISKS_MAX];
} fitted;

/* Where the CPU computes, the tiers of device and host divide the RAM. */
static void divide_ram(hil_memory_options *memory, const hil_cluster *c)
{
    uint64_t all = c->ram / 100 * RAM_PERCENT, ranks = (uint64_t)c->gpus;
    if (memory->device >= HIL_PERCENT(1))
        memory->device = all / 100 * (memory->device - HIL_PERCENT(0)) / ranks;
    if (!memory->device && !memory->host) memory->host = c->ram / 100 * HOST_PERCENT;
    if (!memory->device) memory->device = all > memory->host ? (all - memory->host) / ranks : 1;
    if (!memory->host)
        memory->host = all / ranks > memory->device ? all - memory->device * ranks : 1;
}

/* A percentage of memory grows with it. */
static uint64_t twice(uint64_t bytes)
{
    return bytes < HIL_PERCENT(0) / 2 ? 2 * bytes : bytes;
}

/* Folders without a size have what is free in them. */
static hil_status double_disks(fitted *out)
{
    hil_memory_options *memory = &out->run.memory;
    const hil_allowance all = {.memory = {.disks = memory->disks, .disk_count = memory->disk_count},
                               .hypothetical = true};
    hil_drive drives[HIL_DRIVES];
    hil_budget have;
    HIL_TRY(hil_budget_find(&all, &have, drives));
    for (size_t i = 0; i < memory->disk_count; ++i)
        out->disk[i] = (hil_disk_budget){drives[i].path, twice(drives[i].bytes)};
    memory->disks = out->disk;
    return HIL_OK;
}

/* Doubles the budgets that are set for `part`, as a cluster does with what it has of it. */
static hil_status double_budgets(fitted *out, const hil_cluster *c, hil_cluster_part part)
{
    hil_memory_options *memory = &out->run.memory;
    bool ram = part == HIL_CLUSTER_RAM;
    if (ram) memory->host = twice(memory->host);
    if (part == HIL_CLUSTER_GPU_MEMORY || (ram && hil_cluster_on_cpu(c)))
        memory->device = twice(memory->device);
    return part == HIL_CLUSTER_DRIVES ? double_disks(out) : HIL_OK;
}

/* doubled: the part of `c` that is, or HIL_CLUSTER_PARTS. */
static hil_status fit(fitted *out, const hil_train_options *run, const hil_cluster *c,
                      hil_cluster_part doubled)
{
    out->run = *run;
    hil_memory_options *memory = &out->run.memory;
    HIL_TRY(double_budgets(out, c, doubled));
    if (hil_cluster_on_cpu(c)) divide_ram(memory, c);
    if (!memory->host) memory->host = c->ram / 100 * RAM_PERCENT;
    if (memory->disk_count || !c->drives) return HIL_OK;
    out->disk[0] = (hil_disk_budget){"drives", (uint64_t)c->drives * c->drive_bytes};
    memory->disks = out->disk;
    memory->disk_count = 1;
    return HIL_OK;
}

/* What is planned for one cluster after another. */
typedef struct asked {
    const hil_train_options *run;
    const hil_plan_options *own;
    const hil_observer *observer;
    hil_cluster_part doubled; /* of the cluster, or HIL_CLUSTER_PARTS */
} asked;

/* Layers of a model, and how many times as wide they are as those that were asked for. */
typedef struct shape {
    int64_t layers, width;
} shape;

static hil_status plan(const asked *a, hil_trial trial, hil_plan_report **out, json_t **object)
{
    fitted f;
    HIL_TRY(fit(&f, a->run, trial.cluster, a->doubled));
    trial.run = &f.run;
    return hil_trial_plan(&trial, a->own, a->observer, out, object);
}

static void fill_speed(const hil_train_options *run, const hil_cluster *c, hil_plan_report *r)
{
    hil_plan_scale *s = &r->scale;
    double ranks = (double)(c->nodes * c->gpus), tokens = (double)(r->batch * r->length);
    snprintf(s->name, sizeof s->name, "%s", c->name);
    snprintf(s->gpu, sizeof s->gpu, "%s", c->gpu_name);
    s->nodes = c->nodes;
    s->gpus = c->gpus;
    s->operations = run->adapter.source ? 4 : 6; /* a frozen weight has no gradient */
    if (!(r->step_seconds > 0)) return;
    s->tokens_per_second = tokens / r->step_seconds;
    s->flops = s->operations * (double)s->active * s->tokens_per_second / ranks;
}

/* Whether the cluster has such a part at all. */
static bool has_part(const hil_cluster *c, hil_cluster_part part)
{
    bool gpu = !hil_cluster_on_cpu(c);
    if (part == HIL_CLUSTER_NETWORK) return c->nodes * c->gpus > 1;
    if (part == HIL_CLUSTER_DRIVES) return c->drives > 0;
    return gpu || (part != HIL_CLUSTER_GPU_MEMORY && part != HIL_CLUSTER_BUS);
}

static hil_status try_changes(const asked *a, const hil_cluster *cluster, hil_plan_scale *out)
{
    _Static_assert((int)HIL_PLAN_CHANGES == (int)HIL_CLUSTER_PARTS, "one change for each part");
    hil_plan_change *change = out->change;
    for (int part = 0; part < HIL_CLUSTER_PARTS; ++part) {
        if (!has_part(cluster, (hil_cluster_part)part)) continue;
        hil_cluster changed;
        hil_plan_report *r;
        json_t *object;
        asked other = {a->run, a->own, a->observer, (hil_cluster_part)part};
        hil_cluster_double(cluster, other.doubled, &changed);
        HIL_TRY(plan(&other, (hil_trial){.cluster = &changed}, &r, &object));
        change->name = hil_cluster_part_name((hil_cluster_part)part);
        change->step_seconds = r->fits ? r->step_seconds : NAN;
        ++change;
        json_decref(object);
        hil_plan_close(r);
    }
    return HIL_OK;
}

static hil_status fits(const asked *a, const hil_cluster *cluster, shape at, hil_plan_scale *out,
                       bool *yes)
{
    hil_trial trial = {.cluster = cluster, .layers = at.layers, .width = at.width, .any = true};
    hil_plan_report *r;
    json_t *object;
    HIL_TRY(plan(a, trial, &r, &object));
    *yes = r->fits;
    if (*yes) {
        out->largest_layers = r->scale.layers;
        out->largest_hidden = r->scale.hidden;
        out->largest_parameters = r->parameters;
    }
    json_decref(object);
    hil_plan_close(r);
    return HIL_OK;
}

/* About twice the parameters: twice the layers; where these are many, half of them, twice as wide.
 */
static shape next_shape(shape at)
{
    if (2 * at.layers <= LAYERS_MANY) return (shape){2 * at.layers, at.width};
    return (shape){(at.layers + 1) / 2, 2 * at.width};
}

/* Doubles the model until it does not fit; then finds how many layers of the last width do. */
static hil_status find_largest(const asked *a, const hil_cluster *cluster, hil_plan_scale *out)
{
    shape best = {0, 1}, at = {out->layers, 1};
    bool yes;
    out->largest_hidden = out->hidden;
    HIL_TRY(fits(a, cluster, at, out, &yes));
    while (yes && at.width < WIDTH_MOST) {
        best = at;
        at = next_shape(at);
        HIL_TRY(fits(a, cluster, at, out, &yes));
    }
    int64_t low = best.layers, high = low ? 2 * low : out->layers;
    yes = at.width > best.width; /* then twice the layers of the last width were not tried */
    while (yes && high <= HIL_LAYERS_MAX) {
        HIL_TRY(fits(a, cluster, (shape){high, best.width}, out, &yes));
        if (yes) low = high;
        if (yes) high *= 2;
    }
    if (high > HIL_LAYERS_MAX) high = HIL_LAYERS_MAX + 1;
    while (high - low > 1 && (high - low) * LAYERS_PART > high) {
        int64_t middle = low + (high - low) / 2;
        HIL_TRY(fits(a, cluster, (shape){middle, best.width}, out, &yes));
        *(yes ? &low : &high) = middle;
    }
    return HIL_OK;
}

/* The part that brings most when doubled: a step's time, or any plan at all. NULL: none does. */
static const char *most_helps(const hil_plan_report *r)
{
    const hil_plan_change *change = r->scale.change;
    double best = r->fits ? HELPS * r->step_seconds : INFINITY;
    const char *name = NULL;
    for (int i = 0; i < HIL_PLAN_CHANGES && change[i].name; ++i) {
        if (!(change[i].step_seconds < best)) continue;
        best = change[i].step_seconds;
        name = change[i].name;
    }
    return name;
}

/* Adds the numbers of the cluster to the plan's object. */
static hil_status add_json(const hil_plan_report *r, json_t *object)
{
    const hil_plan_scale *s = &r->scale;
    json_t *changes = json_array();
    for (int i = 0; i < HIL_PLAN_CHANGES && s->change[i].name; ++i)
        json_array_append_new(changes, json_pack("{s:s, s:o}", "twice the", s->change[i].name,
                                                 "step_seconds",
                                                 isnan(s->change[i].step_seconds)
                                                     ? json_null()
                                                     : json_real(s->change[i].step_seconds)));
    json_t *cluster = json_pack("{s:s, s:I, s:I, s:s, s:f, s:f, s:o, s:s?}", "name", s->name,
                                "nodes", (json_int_t)s->nodes, "gpus", (json_int_t)s->gpus, "gpu",
                                s->gpu, "tokens_per_second", s->tokens_per_second, "tflops_per_gpu",
                                s->flops * 1e-12, "changes", changes, "most_helps", most_helps(r));
    if (cluster && s->largest_hidden) {
        json_object_set_new(cluster, "largest_layers", json_integer(s->largest_layers));
        json_object_set_new(cluster, "largest_hidden", json_integer(s->largest_hidden));
        json_object_set_new(cluster, "largest_parameters", json_integer(s->largest_parameters));
    }
    if (cluster && json_object_set_new(object, "cluster", cluster) == 0) return HIL_OK;
    return hil_fail(HIL_ERR_MEMORY, "no memory for the plan");
}

/* Only the first plan has notes and a timeline, not those that are compared with it. */
static hil_status fill(const asked *a, const hil_cluster *cluster, hil_plan_report *r,
                       json_t *object)
{
    hil_observer quiet = a->observer ? *a->observer : (hil_observer){0};
    quiet.note = NULL;
    hil_train_options run = *a->run;
    run.trace = NULL;
    const asked other = {&run, a->own, &quiet, HIL_CLUSTER_PARTS};
    fill_speed(a->run, cluster, r);
    /* ZeRO-Infinity's layout is for comparison only. */
    if (!cluster->layout.given) HIL_TRY(try_changes(&other, cluster, &r->scale));
    if (a->own->largest) HIL_TRY(find_largest(&other, cluster, &r->scale));
    return add_json(r, object);
}

/* "this": this machine, with speeds that are measured or known; drives are not written to. */
static hil_status find_cluster(const hil_train_options *run, const char *name,
                               const hil_observer *observer, hil_cluster *out)
{
    hil_probe_options probe = {.memory = run->memory,
                               .threads = run->threads,
                               .device = run->device,
                               .cache = run->probe_cache};
    hil_effort effort = {0};
    if (strcmp(name, "this") != 0) return hil_cluster_read(out, name);
    return hil_cluster_here(&probe, &effort, observer, out);
}

hil_status hil_trial_scale(const hil_train_options *run, const hil_plan_options *own,
                           const hil_observer *observer, hil_plan_report **out, json_t **object)
{
    hil_cluster cluster;
    asked a = {run, own, observer, HIL_CLUSTER_PARTS};
    if (own->ranks > 1 || own->gpu || own->context)
        return hil_fail(HIL_ERR_USAGE, "--cluster says how many ranks there are, and which GPU: "
                                       "leave out --ranks, --gpu and --context");
    HIL_TRY(find_cluster(run, own->cluster, observer, &cluster));
    if (run->memory.disk_count && !cluster.drives)
        return hil_fail(HIL_ERR_USAGE, "--disk: %s has no drives", cluster.name);
    HIL_TRY(plan(&a, (hil_trial){.cluster = &cluster}, out, object));
    hil_status status = fill(&a, &cluster, *out, *object);
    if (status == HIL_OK) return HIL_OK;
    json_decref(*object);
    hil_plan_close(*out);
    *out = NULL;
    return status;
}

static void print_largest(const hil_plan_scale *s, FILE *out)
{
    char text[32];
    if (!s->largest_hidden) return;
    fputs("largest model of such layers", out);
    if (!s->largest_layers) {
        fputs(": not even one layer fits\n", out);
        return;
    }
    if (s->largest_hidden > s->hidden)
        fprintf(out, ", %lld x as wide (hidden size %lld, heads and inner sizes likewise)",
                (long long)(s->largest_hidden / s->hidden), (long long)s->largest_hidden);
    fprintf(out, ": %lld layers, %s parameters\n", (long long)s->largest_layers,
            hil_text_count(text, (uint64_t)s->largest_parameters));
}

static void print_changes(const hil_plan_report *r, FILE *out)
{
    const hil_plan_scale *s = &r->scale;
    char text[32];
    const char *name = most_helps(r);
    if (!s->change[0].name) return;
    fputs("a step with twice the", out);
    for (int i = 0; i < HIL_PLAN_CHANGES && s->change[i].name; ++i) {
        double seconds = s->change[i].step_seconds;
        fprintf(out, "%s %s: %s", i ? "," : "", s->change[i].name,
                isnan(seconds) ? "does not fit" : hil_text_seconds(text, seconds));
    }
    fprintf(out, "; most helps: %s\n", name ? name : "nothing");
}

void hil_trial_print_refused(const hil_plan_report *r, FILE *out)
{
    print_changes(r, out);
    print_largest(&r->scale, out);
}

void hil_trial_print(const hil_plan_report *r, FILE *out)
{
    const hil_plan_scale *s = &r->scale;
    char text[32];
    fprintf(out, "cluster: %s, %lld node%s with %lld x %s\n", s->name, (long long)s->nodes,
            s->nodes == 1 ? "" : "s", (long long)s->gpus, s->gpu);
    fprintf(out,
            "speed: %s tokens/s, %.1f TFLOP/s on each rank (%d x active parameters x tokens)\n",
            hil_text_count(text, (uint64_t)s->tokens_per_second), s->flops * 1e-12, s->operations);
    print_changes(r, out);
    print_largest(s, out);
}
