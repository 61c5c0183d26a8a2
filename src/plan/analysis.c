/* analysis.c - ZeRO-Infinity's formulas. */
#include "plan/analysis.h"

static double parameters(const hil_dense *m)
{
    return m->parameters > 0 ? m->parameters : 12 * m->layers * m->hidden * m->hidden;
}

void hil_dense_count(const hil_dense *m, hil_dense_memory *out)
{
    double tokens = m->batch * m->seq;
    /* Elements per layer and token: 8 * hidden, and the scores of every head. */
    double layer = m->activation_bytes * (8 * m->hidden + m->heads * m->seq);
    *out = (hil_dense_memory){
        .parameters = parameters(m),
        .states = m->state_bytes * parameters(m),
        .activations = tokens * layer * m->layers,
        .checkpoints = m->activation_bytes * tokens * m->hidden * m->layers / m->interval,
        .working_states = 2 * m->weight_bytes * 4 * m->hidden * m->hidden,
        .working_activations = tokens * m->interval * layer,
    };
}

double hil_dense_work(const hil_dense *m)
{
    /* Per parameter and token: 2 operations forward, 4 backward, 2 for the recompute. */
    return 2 * 4 * m->batch * m->seq * parameters(m);
}

void hil_dense_intensity(const hil_dense *m, hil_intensity *out)
{
    double work = hil_dense_work(m), count = parameters(m);
    hil_dense_memory memory;
    hil_dense_count(m, &memory);
    *out = (hil_intensity){
        .weights = work / (4 * m->weight_bytes * count),
        .optimizer = work / (2 * m->optimizer_bytes * count),
        .checkpoints = work / (2 * memory.checkpoints),
    };
}

double hil_efficiency(double intensity, double bandwidth, double peak)
{
    return intensity * bandwidth / (intensity * bandwidth + peak);
}

double hil_bandwidth_needed(double intensity, double efficiency, double peak)
{
    return peak * efficiency / ((1 - efficiency) * intensity);
}
