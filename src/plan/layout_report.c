/* layout_report.c - the report of ZeRO-Infinity's layout. */
#include "plan/layout.h"

#include "base/text.h"
#include "plan/outline.h"
#include "plan/plan_report.h"

#include <stdio.h>

static void add(hil_plan_report *r, const char *name, hil_tier tier, double bytes)
{
    hil_plan_row row = {.name = name};
    *(tier == HIL_DEVICE ? &row.device
      : tier == HIL_HOST ? &row.host
                         : &row.disk) = (uint64_t)bytes;
    r->row[r->rows++] = row;
}

static hil_plan_row sum(const char *name, const double bytes[HIL_TIERS])
{
    return (hil_plan_row){name, (uint64_t)bytes[HIL_DEVICE], (uint64_t)bytes[HIL_HOST],
                          (uint64_t)bytes[HIL_DISK]};
}

static void fill_places(const hil_layout *l, hil_plan_report *r)
{
    add(r, "weights (fp16)", l->weights, l->bytes.weights);
    add(r, "gradients (fp16)", l->optimizer, l->bytes.gradients);
    add(r, "optimizer states (fp32)", l->optimizer, l->bytes.optimizer);
    add(r, "activation checkpoints", l->checkpoints, l->bytes.checkpoints);
    add(r, "working memory", HIL_DEVICE, l->bytes.work);
    r->peak = sum("peak", l->need);
    r->budget = sum("budget", l->have);
}

static void fill_missing(const hil_layout *l, hil_plan_report *r)
{
    static const char *const of[HIL_TIERS] = {"GPU memory", "RAM", "drives"};
    char need[32], have[32];
    for (int t = 0; t < HIL_TIERS && r->fits; ++t) {
        if (l->need[t] <= l->have[t]) continue;
        r->fits = false;
        snprintf(
            r->missing, sizeof r->missing,
            "ZeRO-Infinity's layout needs %s of %s on each rank, which has %s, and no placement "
            "that the description allows fits (docs/scale.md)",
            hil_text_bytes(need, (uint64_t)l->need[t]), of[t],
            hil_text_bytes(have, (uint64_t)l->have[t]));
    }
}

static void fill_step(const hil_layout *l, hil_plan_report *r)
{
    hil_plan plan = {.step_seconds = l->step, .compute_seconds = l->computing};
    hil_plan_take_account(&plan, &l->account);
    hil_plan_report_step(&plan, r);
    snprintf(r->advice, sizeof r->advice, "hilbert's own layout: leave \"layout\" out");
}

/* The numbers of the paper's memory table and of its arithmetic intensities. */
static json_t *write_analysis(const hil_dense *m)
{
    hil_dense_memory memory;
    hil_intensity ait;
    hil_dense_count(m, &memory);
    hil_dense_intensity(m, &ait);
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "states", memory.states,
                     "activations", memory.activations, "checkpoints", memory.checkpoints,
                     "working_states", memory.working_states, "working_activations",
                     memory.working_activations, "flop_per_byte_weights", ait.weights,
                     "flop_per_byte_optimizer", ait.optimizer, "flop_per_byte_checkpoints",
                     ait.checkpoints);
}

hil_status hil_layout_report(const hil_layout *l, const hil_dense *m, hil_plan_report *r,
                             json_t **object)
{
    *r = (hil_plan_report){.fits = true, .dtype = "fp16"};
    fill_places(l, r);
    fill_missing(l, r);
    fill_step(l, r);
    json_t *places = json_pack("{s:s, s:s, s:s}", "weights", hil_cluster_tier_name(l->weights),
                               "optimizer", hil_cluster_tier_name(l->optimizer), "activations",
                               hil_cluster_tier_name(l->checkpoints));
    *object = json_pack("{s:b, s:s, s:f, s:f, s:s, s:o, s:o, s:o}", "fits", (int)r->fits, "missing",
                        r->missing, "step_seconds", l->step, "compute_seconds", l->computing,
                        "limit", r->limit, "layout", places, "memory", hil_plan_report_rows(r),
                        "analysis", write_analysis(m));
    return *object ? HIL_OK : hil_fail(HIL_ERR_MEMORY, "no memory for the plan");
}
