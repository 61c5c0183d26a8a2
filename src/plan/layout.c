/* layout.c - bytes of ZeRO-Infinity's layout on each tier, and the choice of tiers. */
#include "plan/layout.h"

#include <math.h>

/* Ranks that divide what is not replicated. */
static double divided(const hil_cluster *c, bool replicated)
{
    return replicated ? 1 : (double)(c->nodes * c->gpus) / (double)c->layout.model_parallel;
}

static void count(const hil_cluster *c, const hil_dense *m, hil_layout *out)
{
    const hil_cluster_layout *l = &c->layout;
    double slice = m->parameters / (double)l->model_parallel;
    double weights = slice / divided(c, l->replicated != HIL_REPLICATED_NONE);
    double states = slice / divided(c, l->replicated == HIL_REPLICATED_ALL);
    hil_dense_memory memory;
    hil_dense_count(m, &memory);
    out->bytes =
        (hil_layout_bytes){.weights = HIL_LAYOUT_WEIGHT * weights,
                           .gradients = HIL_LAYOUT_GRADIENT * states,
                           .optimizer = HIL_LAYOUT_OPTIMIZER * states,
                           .checkpoints = memory.checkpoints,
                           .work = memory.working_states / (double)(l->model_parallel * l->tiles) +
                                   memory.working_activations};
    for (int t = 0; t < HIL_TIERS; ++t) out->need[t] = 0;
    out->need[HIL_DEVICE] = out->bytes.work;
    out->need[out->weights] += out->bytes.weights;
    out->need[out->optimizer] += out->bytes.gradients + out->bytes.optimizer;
    out->need[out->checkpoints] += out->bytes.checkpoints;
    out->fits = true;
    for (int t = 0; t < HIL_TIERS; ++t) out->fits = out->fits && out->need[t] <= out->have[t];
}

/* Bytes that are missing on all tiers together. */
static double shortfall(const hil_layout *l)
{
    double sum = 0;
    for (int t = 0; t < HIL_TIERS; ++t) sum += fmax(0, l->need[t] - l->have[t]);
    return sum;
}

static bool is_better(const hil_layout *a, const hil_layout *b)
{
    double more = shortfall(a), most = shortfall(b);
    return more < most || (more <= most && a->step < b->step);
}

/* Whether the description allows the tier for a class. */
static bool is_allowed(int asked, int tier)
{
    return asked == HIL_CLUSTER_ANY || asked == tier;
}

hil_status hil_layout_choose(const hil_cluster *c, const hil_dense *m, const hil_budget *have,
                             hil_layout *out)
{
    const hil_cluster_layout *l = &c->layout;
    bool any = false;
    for (int w = 0; w < HIL_TIERS; ++w)
        for (int o = w; o < HIL_TIERS; ++o)
            for (int a = HIL_DEVICE; a <= HIL_HOST; ++a) {
                hil_layout trial = {
                    .weights = (hil_tier)w,
                    .optimizer = (hil_tier)o,
                    .checkpoints = (hil_tier)a,
                    .have = {(double)have->device, (double)have->host, (double)have->disk}};
                if (!is_allowed(l->weights, w) || !is_allowed(l->optimizer, o) ||
                    !is_allowed(l->activations, a))
                    continue;
                count(c, m, &trial);
                HIL_TRY(hil_layout_rehearse(c, m, &trial));
                if (!any || is_better(&trial, out)) *out = trial;
                any = true;
            }
    return any ? HIL_OK
               : hil_fail(HIL_ERR_INPUT,
                          "%s: layout.optimizer is on a faster tier than "
                          "layout.weights: place it on the same one or below",
                          c->name);
}
