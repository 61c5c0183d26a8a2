/* plan_print.c - tables and sentences about a plan. */
#include "train/plan_print.h"

static const char *const tiers[HIL_TIERS] = {"device", "host", "disk"};

static const char *size(char out[32], uint64_t bytes)
{
    if (bytes) return hil_text_bytes(out, bytes);
    out[0] = '-';
    out[1] = 0;
    return out;
}

static hil_status row(hil_text *out, const char *name, const uint64_t bytes[HIL_TIERS])
{
    char text[HIL_TIERS][32];
    if (!bytes[HIL_DEVICE] && !bytes[HIL_HOST] && !bytes[HIL_DISK]) return HIL_OK;
    return hil_text_print(out, "%-24s %12s %12s %12s\n", name, size(text[0], bytes[HIL_DEVICE]),
                          size(text[1], bytes[HIL_HOST]), size(text[2], bytes[HIL_DISK]));
}

/* Chunks in flight: what the host needs besides everything that has a name. */
static uint64_t slots_of(const hil_plan_view *v, const hil_plan_table *table)
{
    uint64_t need[HIL_TIERS], named = v->plan->ring + v->plan->parked + v->plan->spilled;
    hil_plan_needs(v->plan, v->outline, need);
    for (int s = 0; s < HIL_UNIT_STATES; ++s) named += table->bytes[s][HIL_HOST];
    return need[HIL_HOST] > named ? need[HIL_HOST] - named : 0;
}

static hil_status print_places(const hil_plan_view *v, hil_text *out)
{
    static const char *const names[HIL_UNIT_STATES] = {
        "weights", "rest of the masters", "first moments", "second moments", "gradients"};
    const hil_plan *p = v->plan;
    hil_plan_table table;
    hil_plan_count(v->outline, p, &table);
    HIL_TRY(hil_text_print(out, "%-24s %12s %12s %12s\n", "", tiers[0], tiers[1], tiers[2]));
    for (int s = 0; s < HIL_UNIT_STATES; ++s) HIL_TRY(row(out, names[s], table.bytes[s]));
    HIL_TRY(row(out, "window (come and go)", (uint64_t[]){p->window, 0, 0}));
    HIL_TRY(row(out, "tensors", (uint64_t[]){p->work, p->parked, 0}));
    HIL_TRY(row(out, "sums that left", (uint64_t[]){0, p->spilled, 0}));
    HIL_TRY(row(out, "staging", (uint64_t[]){0, slots_of(v, &table) + p->ring, 0}));
    HIL_TRY(row(out, "peak", p->peak));
    return row(out, "budget", (uint64_t[]){p->device_budget, p->host_budget, p->disk_budget});
}

/* Pairs of a segment and a micro-batch. */
typedef struct pairs {
    int64_t kept, lean, again, all;
    int64_t away[HIL_TIERS]; /* kept, and where it waits */
} pairs;

static pairs count_pairs(const hil_plan *p)
{
    pairs n = {.all = p->group * (int64_t)p->segments};
    for (size_t i = 0; i < p->segments; ++i) {
        const hil_segment_place *place = &p->segment[i];
        int64_t keep = place->keep < p->group ? place->keep : p->group, rest = p->group - keep;
        int64_t lean = place->lean < rest ? place->lean : rest;
        n.kept += keep;
        n.lean += lean;
        n.away[place->tapes] += keep + lean;
    }
    n.again = n.all - n.kept - n.lean;
    return n;
}

static hil_status print_order(const hil_plan_view *v, hil_text *out)
{
    const hil_plan *p = v->plan;
    int64_t waiting[HIL_TIERS] = {0};
    if (!v->outline->training) return HIL_OK;
    pairs n = count_pairs(p);
    for (size_t i = 0; i < p->segments; ++i) ++waiting[p->segment[i].tier];
    HIL_TRY(hil_text_print(out, "micro-batches: %lld, %s\n", (long long)v->outline->micros,
                           p->group > 1 ? "all pass a segment before the next (segment-major)"
                                        : "one after the other"));
    HIL_TRY(hil_text_print(out, "activations: %lld of %lld kept for backward", (long long)n.kept,
                           (long long)n.all));
    if (n.lean) HIL_TRY(hil_text_print(out, ", %lld without what is cheap", (long long)n.lean));
    for (int t = HIL_HOST; t < HIL_TIERS; ++t)
        if (n.away[t]) HIL_TRY(hil_text_print(out, ", %lld on %s", (long long)n.away[t], tiers[t]));
    HIL_TRY(hil_text_print(out, ", %lld computed again", (long long)n.again));
    for (int t = HIL_HOST; t < HIL_TIERS; ++t)
        if (waiting[t])
            HIL_TRY(hil_text_print(out, "; what leaves %lld of %zu segments waits on %s",
                                   (long long)waiting[t], p->segments, tiers[t]));
    return hil_text_print(out, "\n");
}

/* All weights that the window can hold whole. */
static bool holds_all(const hil_plan_view *v)
{
    uint64_t window[HIL_WINDOWS];
    hil_plan_windows(v->outline, false, window);
    return v->plan->window >= window[HIL_WINDOW_WHOLE];
}

static hil_status print_ranks(const hil_plan_view *v, hil_text *out)
{
    const hil_plan *p = v->plan;
    if (p->ranks == 1) return HIL_OK;
    return hil_text_print(
        out,
        "ranks: %d, each with 1/%d of every state and all numbers here for one of them; --zero %d: "
        "a window of %s\n",
        p->ranks, p->ranks, p->zero,
        p->zero == 1    ? "all weights and all sums of gradients"
        : holds_all(v)  ? "all weights"
        : p->by_segment ? "all that a segment may use"
                        : "what is used at once, in the same order on every rank");
}

static hil_status print_moves(const hil_plan *p, hil_text *out)
{
    char a[32], b[32], c[32], d[32];
    if (p->ranks > 1)
        HIL_TRY(hil_text_print(out, "per step: %s of weights gathered, %s of gradients reduced\n",
                               hil_text_bytes(a, p->gathered), hil_text_bytes(b, p->reduced)));
    if (!p->to_device && !p->to_host && !p->disk_read && !p->disk_written)
        return hil_text_print(out, "per step: nothing moves%s\n",
                              p->ranks > 1 ? " between tiers" : "");
    return hil_text_print(
        out, "per step: %s to the device, %s to the host, %s read from disk, %s written\n",
        hil_text_bytes(a, p->to_device), hil_text_bytes(b, p->to_host),
        hil_text_bytes(c, p->disk_read), hil_text_bytes(d, p->disk_written));
}

/* "1.25 s", "13.9 ms" or "451 us". */
static const char *duration(char out[32], double seconds)
{
    if (seconds >= 1)
        snprintf(out, 32, "%.3g s", seconds);
    else if (seconds >= 1e-3)
        snprintf(out, 32, "%.3g ms", seconds * 1e3);
    else
        snprintf(out, 32, "%.0f us", seconds * 1e6);
    return out;
}

static hil_status print_time(const hil_plan *p, hil_text *out)
{
    char a[32], b[32], c[32], d[32];
    double waits = 0;
    for (int w = 0; w < HIL_WAITS; ++w) waits += p->wait[w];
    double network = p->busy[HIL_LINK_GATHER] + p->busy[HIL_LINK_REDUCE];
    HIL_TRY(hil_text_print(out, "step: %s, of which computing %s, waiting %s (for the update %s)",
                           duration(a, p->step_seconds), duration(b, p->compute_seconds),
                           duration(c, waits), duration(d, p->wait[HIL_WAIT_UPDATE])));
    if (p->ranks > 1)
        HIL_TRY(hil_text_print(out, "; the network is busy for %s", duration(a, network)));
    return hil_text_print(out, "; the limit is %s%s\n",
                          *hil_plan_limit(p) == 'c' || *hil_plan_limit(p) == 'm' ? "" : "the ",
                          hil_plan_limit(p));
}

static uint64_t off_device(const hil_plan_table *table, int state)
{
    return table->bytes[state][HIL_HOST] + table->bytes[state][HIL_DISK];
}

/* What would make a step faster, most useful first. */
static hil_status print_advice(const hil_plan_view *v, hil_text *out)
{
    const hil_plan *p = v->plan;
    const char *limit = hil_plan_limit(p);
    hil_plan_table table;
    char text[32];
    uint64_t disk = 0;
    pairs n = count_pairs(p);
    hil_plan_count(v->outline, p, &table);
    for (int s = 0; s < HIL_UNIT_STATES; ++s) disk += table.bytes[s][HIL_DISK];
    HIL_TRY(hil_text_print(out, "faster: "));
    if (*limit == 'd')
        return hil_text_print(
            out,
            "a larger --batch hides the disk behind more computing; more "
            "--host-memory keeps up to %s off it; another --disk adds its bandwidth\n",
            hil_text_bytes(text, disk));
    if (*limit == 'h')
        return hil_text_print(out,
                              "%s more of --device-memory keep all weights there; a larger --batch "
                              "uses each of them longer\n",
                              hil_text_bytes(text, off_device(&table, HIL_WEIGHT)));
    if (*limit == 'n')
        return hil_text_print(out,
                              "a larger --batch uses each gathered weight longer; %sa faster "
                              "network\n",
                              holds_all(v) ? "" : "more --device-memory gathers each once; ");
    if (*limit == 'u')
        return hil_text_print(out, "a larger --batch hides the update behind more computing; "
                                   "--optimizer lion or adamw8bit touches fewer bytes\n");
    if (*limit == 'm')
        return hil_text_print(out, "more --device-memory: transfers wait for room\n");
    if (n.again && v->outline->training)
        return hil_text_print(out,
                              "more --device-memory keeps more activations: %.0f%% of them are "
                              "computed again\n",
                              100. * (double)n.again / (double)n.all);
    return hil_text_print(out, "only a faster processor: computing is the limit\n");
}

static hil_status print_class(hil_text *out, const char *name, double intensity, double peak,
                              double bandwidth)
{
    return hil_text_print(out, "%-24s %12.0f %12.3g %12.3g %12.3g %11.0f%%\n", name, intensity,
                          hil_bandwidth_needed(intensity, 0.5, peak) * 1e-9,
                          hil_bandwidth_needed(intensity, 0.9, peak) * 1e-9, bandwidth * 1e-9,
                          100 * hil_efficiency(intensity, bandwidth, peak));
}

/* The slowest link that a class of states on its tiers passes. */
static double bandwidth_of(const hil_plan_view *v, const hil_plan_table *table, int state)
{
    const hil_speeds *s = &v->machine->speeds;
    if (table->bytes[state][HIL_DISK])
        return s->disk_mixed < s->to_device ? s->disk_mixed : s->to_device;
    return table->bytes[state][HIL_HOST] ? s->to_device : s->memory;
}

hil_status hil_plan_print_analysis(const hil_plan_view *v, hil_text *out)
{
    hil_dense_memory memory;
    hil_intensity ait;
    hil_plan_table table;
    char a[32], b[32], c[32], d[32];
    double peak = v->machine->speeds.gemm[v->dtype], waiting = v->machine->speeds.memory;
    hil_dense_count(&v->dense, &memory);
    hil_dense_intensity(&v->dense, &ait);
    hil_plan_count(v->outline, v->plan, &table);
    for (size_t i = 0; i < v->plan->segments; ++i) {
        if (v->plan->segment[i].tier == HIL_HOST) waiting = v->machine->speeds.to_device;
        if (v->plan->segment[i].tier != HIL_DISK) continue;
        waiting = v->machine->speeds.disk_mixed;
        break;
    }
    HIL_TRY(hil_text_print(
        out,
        "by the formulas of ZeRO-Infinity (%g bytes per parameter, recomputation included): "
        "%s of states, %s of activations or %s of checkpoints, at work %s of states and %s of "
        "activations\n",
        v->dense.state_bytes, hil_text_bytes(a, (uint64_t)memory.states),
        hil_text_bytes(b, (uint64_t)memory.activations),
        hil_text_bytes(c, (uint64_t)memory.checkpoints),
        hil_text_bytes(d, (uint64_t)memory.working_states),
        hil_text_bytes((char[32]){0}, (uint64_t)memory.working_activations)));
    HIL_TRY(hil_text_print(out, "%-24s %12s %12s %12s %12s %12s\n", "peak and bandwidth, GB/s",
                           "flop/byte", "for 50%", "for 90%", "here", "efficiency"));
    HIL_TRY(print_class(out, "weights and gradients", ait.weights, peak,
                        bandwidth_of(v, &table, HIL_WEIGHT)));
    HIL_TRY(print_class(out, "optimizer states", ait.optimizer, peak,
                        bandwidth_of(v, &table, HIL_STATE1)));
    HIL_TRY(print_class(out, "activation checkpoints", ait.checkpoints, peak, waiting));
    return hil_text_print(out, "(peak %.4g GFLOP/s %s; without overlap)\n", peak * 1e-9,
                          hil_dtype_name(v->dtype));
}

hil_status hil_plan_print_all(const hil_plan_view *v, hil_text *out)
{
    HIL_TRY(print_places(v, out));
    HIL_TRY(hil_text_print(out, "\n"));
    HIL_TRY(print_ranks(v, out));
    HIL_TRY(print_order(v, out));
    HIL_TRY(print_moves(v->plan, out));
    HIL_TRY(print_time(v->plan, out));
    HIL_TRY(print_advice(v, out));
    HIL_TRY(hil_text_print(out, "\n"));
    return hil_plan_print_analysis(v, out);
}

hil_status hil_plan_print_short(const hil_plan_view *v, hil_text *out)
{
    const hil_plan *p = v->plan;
    hil_plan_table table;
    uint64_t on[HIL_TIERS] = {0};
    char text[32];
    hil_plan_count(v->outline, p, &table);
    for (int s = 0; s < HIL_UNIT_STATES; ++s)
        for (int t = 0; t < HIL_TIERS; ++t) on[t] += table.bytes[s][t];
    HIL_TRY(hil_text_print(out, "plan"));
    if (p->ranks > 1) HIL_TRY(hil_text_print(out, " for each of %d ranks", p->ranks));
    HIL_TRY(hil_text_print(out, ": states on"));
    for (int t = 0; t < HIL_TIERS; ++t)
        if (on[t]) HIL_TRY(hil_text_print(out, " %s %s", tiers[t], hil_text_bytes(text, on[t])));
    HIL_TRY(hil_text_print(out, "; peaks"));
    for (int t = 0; t < HIL_TIERS; ++t)
        if (p->peak[t])
            HIL_TRY(hil_text_print(out, " %s %s", tiers[t], hil_text_bytes(text, p->peak[t])));
    if (!v->machine->measured) return HIL_OK;
    return hil_text_print(out, "; a step takes about %s, the limit is %s",
                          duration(text, p->step_seconds), hil_plan_limit(p));
}
