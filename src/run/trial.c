/* trial.c - several plans for a cluster: as it is, with parts doubled, and with other numbers of
 * layers. */
#include "run/trial.h"

#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RAM_PERCENT 90   /* of a node's RAM may be used */
#define HELPS 0.99       /* of a step's time: a change that helps leaves less */
#define LAYERS_PART 64   /* the largest number of layers is found to 1/64 */
#define LAYERS_MOST 1024 /* that are tried: planning for more takes minutes */

/* A run's options for a cluster: budgets that are not set are what a node has. */
typedef struct fitted {
    hil_train_options run;
    hil_disk_budget disk;
} fitted;

static void fit(fitted *out, const hil_train_options *run, const hil_cluster *c)
{
    out->run = *run;
    hil_memory_options *memory = &out->run.memory;
    if (!memory->host) memory->host = c->ram / 100 * RAM_PERCENT;
    if (memory->disk_count || !c->drives) return;
    out->disk = (hil_disk_budget){"drives", (uint64_t)c->drives * c->drive_bytes};
    memory->disks = &out->disk;
    memory->disk_count = 1;
}

static hil_status plan(const hil_train_options *run, const hil_cluster *cluster, int64_t layers,
                       const hil_plan_options *own, hil_plan_report **out)
{
    fitted f;
    fit(&f, run, cluster);
    hil_trial trial = {&f.run, cluster, layers};
    return hil_trial_plan(&trial, own, NULL, out);
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

static hil_status try_changes(const hil_train_options *run, const hil_plan_options *own,
                              const hil_cluster *cluster, hil_plan_scale *out)
{
    _Static_assert((int)HIL_PLAN_CHANGES == (int)HIL_CLUSTER_PARTS, "one change for each part");
    for (int part = 0; part < HIL_CLUSTER_PARTS; ++part) {
        hil_cluster changed;
        hil_plan_report *r;
        hil_cluster_double(cluster, (hil_cluster_part)part, &changed);
        HIL_TRY(plan(run, &changed, 0, own, &r));
        out->change[part].name = hil_cluster_part_name((hil_cluster_part)part);
        out->change[part].step_seconds = r->fits ? r->step_seconds : NAN;
        hil_plan_close(r);
    }
    return HIL_OK;
}

static hil_status fits(const hil_train_options *run, const hil_plan_options *own,
                       const hil_cluster *cluster, int64_t layers, hil_plan_scale *out, bool *yes)
{
    hil_plan_report *r;
    HIL_TRY(plan(run, cluster, layers, own, &r));
    *yes = r->fits;
    if (*yes) {
        out->largest_layers = layers;
        out->largest_parameters = r->parameters;
    }
    hil_plan_close(r);
    return HIL_OK;
}

/* Doubles the number of layers until the model does not fit, then halves the interval. */
static hil_status find_largest(const hil_train_options *run, const hil_plan_options *own,
                               const hil_cluster *cluster, hil_plan_scale *out)
{
    int64_t low = 0, high = out->layers;
    bool yes = true;
    while (yes && high <= LAYERS_MOST) {
        HIL_TRY(fits(run, own, cluster, high, out, &yes));
        if (yes) low = high;
        if (yes) high *= 2;
    }
    if (yes) return HIL_OK; /* more may fit */
    while (high - low > 1 && (high - low) * LAYERS_PART > high) {
        int64_t middle = low + (high - low) / 2;
        HIL_TRY(fits(run, own, cluster, middle, out, &yes));
        if (yes)
            low = middle;
        else
            high = middle;
    }
    return HIL_OK;
}

/* Adds the numbers of the cluster to the plan's object. */
static hil_status add_json(hil_plan_report *r)
{
    const hil_plan_scale *s = &r->scale;
    json_t *root, *changes = json_array();
    HIL_TRY(hil_json_parse(r->json, strlen(r->json), "plan", &root));
    for (int i = 0; i < HIL_PLAN_CHANGES && s->change[i].name; ++i)
        json_array_append_new(changes, json_pack("{s:s, s:o}", "twice the", s->change[i].name,
                                                 "step_seconds",
                                                 isnan(s->change[i].step_seconds)
                                                     ? json_null()
                                                     : json_real(s->change[i].step_seconds)));
    json_t *cluster = json_pack("{s:s, s:I, s:I, s:s, s:f, s:f, s:o}", "name", s->name, "nodes",
                                (json_int_t)s->nodes, "gpus", (json_int_t)s->gpus, "gpu", s->gpu,
                                "tokens_per_second", s->tokens_per_second, "tflops_per_gpu",
                                s->flops * 1e-12, "changes", changes);
    if (cluster && s->largest_layers) {
        json_object_set_new(cluster, "largest_layers", json_integer(s->largest_layers));
        json_object_set_new(cluster, "largest_parameters", json_integer(s->largest_parameters));
    }
    char *text = NULL;
    if (cluster && json_object_set_new(root, "cluster", cluster) == 0)
        text = json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    json_decref(root);
    if (!text) return hil_fail(HIL_ERR_MEMORY, "no memory for the plan");
    free(r->json);
    r->json = text;
    return HIL_OK;
}

static hil_status fill(const hil_train_options *run, const hil_plan_options *own,
                       const hil_cluster *cluster, hil_plan_report *r)
{
    fill_speed(run, cluster, r);
    if (r->fits) HIL_TRY(try_changes(run, own, cluster, &r->scale));
    if (own->largest) HIL_TRY(find_largest(run, own, cluster, &r->scale));
    return add_json(r);
}

hil_status hil_trial_scale(const hil_train_options *run, const hil_plan_options *own,
                           const hil_observer *observer, hil_plan_report **out)
{
    hil_cluster cluster;
    fitted f;
    if (own->ranks > 1 || own->gpu || own->context)
        return hil_fail(HIL_ERR_USAGE, "--cluster says how many ranks there are, and which GPU: "
                                       "leave out --ranks, --gpu and --context");
    HIL_TRY(hil_cluster_read(&cluster, own->cluster));
    fit(&f, run, &cluster);
    hil_trial trial = {&f.run, &cluster, 0};
    HIL_TRY(hil_trial_plan(&trial, own, observer, out));
    hil_status status = fill(run, own, &cluster, *out);
    if (status == HIL_OK) return HIL_OK;
    hil_plan_close(*out);
    *out = NULL;
    return status;
}

void hil_trial_print_largest(const hil_plan_scale *s, FILE *out)
{
    char text[32];
    if (!s->largest_layers) return;
    fprintf(out, "largest model of such layers: %s%lld layers, %s parameters\n",
            2 * s->largest_layers > LAYERS_MOST ? "at least " : "", (long long)s->largest_layers,
            hil_text_count(text, (uint64_t)s->largest_parameters));
}

void hil_trial_print(const hil_plan_report *r, FILE *out)
{
    const hil_plan_scale *s = &r->scale;
    char text[32];
    double best = HELPS * r->step_seconds;
    const char *name = NULL;
    fprintf(out, "cluster: %s, %lld node%s with %lld x %s\n", s->name, (long long)s->nodes,
            s->nodes == 1 ? "" : "s", (long long)s->gpus, s->gpu);
    fprintf(out, "speed: %s tokens/s, %.1f TFLOP/s on each GPU (%d x active parameters x tokens)\n",
            hil_text_count(text, (uint64_t)s->tokens_per_second), s->flops * 1e-12, s->operations);
    fputs("a step with twice the", out);
    for (int i = 0; i < HIL_PLAN_CHANGES; ++i) {
        double seconds = s->change[i].step_seconds;
        fprintf(out, "%s %s: %s", i ? "," : "", s->change[i].name,
                isnan(seconds) ? "does not fit" : hil_text_seconds(text, seconds));
        if (seconds < best) name = s->change[i].name;
        best = fmin(best, seconds);
    }
    fprintf(out, "; most helps: %s\n", name ? name : "nothing");
    hil_trial_print_largest(s, out);
}
