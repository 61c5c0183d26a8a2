/* plan_print.c - tables and sentences about a plan. */
#include "plan/plan_print.h"

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
    return hil_text_print(out, "%-32s %12s %12s %12s\n", name, size(text[0], bytes[HIL_DEVICE]),
                          size(text[1], bytes[HIL_HOST]), size(text[2], bytes[HIL_DISK]));
}

static uint64_t take_off(uint64_t bytes, uint64_t part)
{
    return bytes > part ? bytes - part : 0;
}

/* Device memory besides states, window and tensors: sums of squares, states that are updated. */
static uint64_t updating_bytes(const hil_plan_view *v, uint64_t states)
{
    uint64_t need[HIL_TIERS];
    hil_plan_needs(v->plan, v->outline, need);
    return take_off(need[HIL_DEVICE],
                    states + hil_align_up(v->plan->window) + hil_align_up(v->plan->work));
}

static bool activations_on_disk(const hil_plan *p)
{
    for (size_t i = 0; i < p->segments; ++i)
        if (p->segment[i].tier == HIL_DISK || p->segment[i].tapes == HIL_DISK) return true;
    return false;
}

/* What fills a tier beside the states and all that the plan has a number for: on the device weights
   and sums in use, on the host staging buffers, on disk what was offloaded. */
static hil_status print_rest(const hil_plan_view *v, const uint64_t states[HIL_TIERS],
                             hil_text *out)
{
    const hil_plan *p = v->plan;
    uint64_t device = take_off(p->peak[HIL_DEVICE], states[HIL_DEVICE] + p->work);
    uint64_t host = take_off(p->peak[HIL_HOST], states[HIL_HOST] + p->parked + p->spilled);
    uint64_t disk = take_off(p->peak[HIL_DISK], states[HIL_DISK]);
    uint64_t updating = p->apart ? updating_bytes(v, states[HIL_DEVICE]) : 0;
    bool sums = p->spill == HIL_DISK, activations = activations_on_disk(p);
    if (updating > device) updating = device;
    HIL_TRY(row(out, "weights and gradients in use", (uint64_t[]){device - updating, 0, 0}));
    HIL_TRY(row(out, "states being updated", (uint64_t[]){updating, 0, 0}));
    HIL_TRY(row(out, "activations and work buffers",
                (uint64_t[]){p->work, p->parked, sums ? 0 : disk}));
    HIL_TRY(row(out, "fp32 gradient sums (offloaded)",
                (uint64_t[]){0, p->spilled, sums && !activations ? disk : 0}));
    if (sums && activations)
        HIL_TRY(row(out, "gradient sums and activations", (uint64_t[]){0, 0, disk}));
    HIL_TRY(row(out, "tokens of the batch", (uint64_t[]){0, v->tokens, 0}));
    return row(out, "staging buffers", (uint64_t[]){0, take_off(host, v->tokens), 0});
}

static hil_status print_places(const hil_plan_view *v, hil_text *out)
{
    const char *const names[HIL_UNIT_STATES] = {
        "weights", v->dtype == HIL_BF16 ? "master weights (low 16 bits)" : "master weights (fp32)",
        "first moments", "second moments", "gradients"};
    const hil_plan *p = v->plan;
    uint64_t bytes[HIL_UNIT_STATES][HIL_TIERS], states[HIL_TIERS] = {0};
    hil_plan_occupied(p, v->outline, bytes);
    HIL_TRY(hil_text_print(out, "%-32s %12s %12s %12s\n", "", tiers[0], tiers[1], tiers[2]));
    for (int s = 0; s < HIL_UNIT_STATES; ++s) {
        HIL_TRY(row(out, names[s], bytes[s]));
        for (int t = 0; t < HIL_TIERS; ++t) states[t] += bytes[s][t];
    }
    HIL_TRY(print_rest(v, states, out));
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

static hil_status print_activations(const hil_plan *p, hil_text *out)
{
    int64_t waiting[HIL_TIERS] = {0};
    pairs n = count_pairs(p);
    for (size_t i = 0; i < p->segments; ++i) ++waiting[p->segment[i].tier];
    HIL_TRY(hil_text_print(out, "activations: of %zu layers", p->segments));
    if (p->group > 1) HIL_TRY(hil_text_print(out, " x %lld micro-batches", (long long)p->group));
    HIL_TRY(hil_text_print(out,
                           ": %lld keep all activations, %lld recompute the cheap ones, %lld "
                           "recompute everything",
                           (long long)n.kept, (long long)n.lean, (long long)n.again));
    for (int t = HIL_HOST; t < HIL_TIERS; ++t)
        if (n.away[t])
            HIL_TRY(hil_text_print(out, "; %lld keep them on %s", (long long)n.away[t], tiers[t]));
    for (int t = HIL_HOST; t < HIL_TIERS; ++t)
        if (waiting[t])
            HIL_TRY(hil_text_print(out, "; outputs of %lld layers are offloaded to %s",
                                   (long long)waiting[t], tiers[t]));
    return hil_text_print(out, "\n");
}

static hil_status print_order(const hil_plan_view *v, hil_text *out)
{
    if (!v->outline->training) return HIL_OK;
    int64_t micros = v->outline->micros, group = v->plan->group;
    HIL_TRY(hil_text_print(out, "micro-batches: %lld, ", (long long)micros));
    if (group > 1 && group < micros)
        HIL_TRY(hil_text_print(out, "%lld at a time", (long long)group));
    if (group >= micros && group > 1) HIL_TRY(hil_text_print(out, "all of them"));
    HIL_TRY(hil_text_print(out, group > 1 ? " through a layer before the next layer\n"
                                          : "one after the other\n"));
    return print_activations(v->plan, out);
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
        "ranks: %d; each holds 1/%d of every state, and all numbers here are for one rank; "
        "--zero %d: a rank's device holds %s\n",
        p->ranks, p->ranks, p->zero,
        p->zero == 1    ? "all weights and all gradient sums"
        : holds_all(v)  ? "all weights"
        : p->by_segment ? "the weights and gradients of one layer"
                        : "the weights and gradients in use");
}

static hil_status print_moves(const hil_plan *p, hil_text *out)
{
    char a[32], b[32], c[32], d[32];
    if (p->ranks > 1)
        HIL_TRY(hil_text_print(out,
                               "between ranks per step: %s of weights gathered, %s of gradients "
                               "reduced\n",
                               hil_text_bytes(a, p->gathered), hil_text_bytes(b, p->reduced)));
    if (!p->to_device && !p->to_host && !p->disk_read && !p->disk_written)
        return hil_text_print(out, "moved per step: nothing\n");
    return hil_text_print(out,
                          "moved per step: %s host to device, %s device to host, %s read from "
                          "disk, %s written to disk\n",
                          hil_text_bytes(a, p->to_device), hil_text_bytes(b, p->to_host),
                          hil_text_bytes(c, p->disk_read), hil_text_bytes(d, p->disk_written));
}

static hil_status print_time(const hil_plan *p, hil_text *out)
{
    char a[32], b[32], c[32], d[32];
    double waits = 0;
    for (int w = 0; w < HIL_WAITS; ++w) waits += p->wait[w];
    double network = p->busy[HIL_LINK_GATHER] + p->busy[HIL_LINK_REDUCE];
    HIL_TRY(hil_text_print(
        out, "a step takes about %s: computing %s, waiting %s (%s for the update)",
        hil_text_seconds(a, p->step_seconds), hil_text_seconds(b, p->compute_seconds),
        hil_text_seconds(c, waits), hil_text_seconds(d, p->wait[HIL_WAIT_UPDATE])));
    if (p->ranks > 1)
        HIL_TRY(hil_text_print(out, "; the network is busy for %s", hil_text_seconds(a, network)));
    return hil_text_print(out, "; limited by: %s\n", hil_plan_limit(p));
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
                              "more --device-memory keeps more activations: %.0f%% of the layers "
                              "recompute them\n",
                              100. * (double)n.again / (double)n.all);
    return hil_text_print(out, "only a faster processor\n");
}

/* GB/s, without an exponent however many. */
static const char *rate(char out[32], double bandwidth)
{
    double number = bandwidth * 1e-9;
    int digits = number < 0.995 ? 3 : number < 9.95 ? 2 : number < 99.5 ? 1 : 0;
    snprintf(out, 32, "%.*f", digits, number);
    return out;
}

static hil_status print_class(hil_text *out, const char *name, double intensity, double peak,
                              double bandwidth)
{
    char half[32], most[32], here[32];
    return hil_text_print(out, "%-24s %12.0f %12s %12s %12s %11.0f%%\n", name, intensity,
                          rate(half, hil_bandwidth_needed(intensity, 0.5, peak)),
                          rate(most, hil_bandwidth_needed(intensity, 0.9, peak)),
                          rate(here, bandwidth), 100 * hil_efficiency(intensity, bandwidth, peak));
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
        "by the formulas of ZeRO-Infinity (%.3g bytes per parameter): model states %s; activations "
        "%s, with checkpointing %s; working memory for one layer's weights and gradients %s, for "
        "its activations %s\n",
        v->dense.state_bytes, hil_text_bytes(a, (uint64_t)memory.states),
        hil_text_bytes(b, (uint64_t)memory.activations),
        hil_text_bytes(c, (uint64_t)memory.checkpoints),
        hil_text_bytes(d, (uint64_t)memory.working_states),
        hil_text_bytes((char[32]){0}, (uint64_t)memory.working_activations)));
    HIL_TRY(hil_text_print(out, "%-24s %12s %12s %12s %12s %12s\n", "bandwidth, GB/s", "flop/byte",
                           "for 50%", "for 90%", "here", "efficiency"));
    HIL_TRY(print_class(out, "weights and gradients", ait.weights, peak,
                        bandwidth_of(v, &table, HIL_WEIGHT)));
    HIL_TRY(print_class(out, "optimizer states", ait.optimizer, peak,
                        bandwidth_of(v, &table, HIL_STATE1)));
    HIL_TRY(print_class(out, "activation checkpoints", ait.checkpoints, peak, waiting));
    return hil_text_print(out, "(at %.4g TFLOP/s %s, if transfers and computing did not overlap)\n",
                          peak * 1e-12, hil_dtype_name(v->dtype));
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
    HIL_TRY(hil_text_print(out, ": weights and optimizer states"));
    for (int t = 0; t < HIL_TIERS; ++t)
        if (on[t]) HIL_TRY(hil_text_print(out, " %s %s", tiers[t], hil_text_bytes(text, on[t])));
    HIL_TRY(hil_text_print(out, "; peak memory"));
    for (int t = 0; t < HIL_TIERS; ++t)
        if (p->peak[t])
            HIL_TRY(hil_text_print(out, " %s %s", tiers[t], hil_text_bytes(text, p->peak[t])));
    if (!v->machine->measured) return HIL_OK;
    return hil_text_print(out, "; a step takes about %s", hil_text_seconds(text, p->step_seconds));
}
