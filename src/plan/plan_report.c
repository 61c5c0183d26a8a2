/* plan_report.c - bytes per tier, transfers and the bottleneck of a step. */
#include "plan/plan_report.h"

#include "base/text.h"

#include <stdio.h>

static void add_row(hil_plan_report *r, const char *name, uint64_t device, uint64_t host,
                    uint64_t disk)
{
    if (device || host || disk) r->row[r->rows++] = (hil_plan_row){name, device, host, disk};
}

static uint64_t take_off(uint64_t bytes, uint64_t part)
{
    return bytes > part ? bytes - part : 0;
}

/* Device memory for the update: sums of squares, and chunks of states that the device updates. */
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

/* The rest of each tier, for which the plan has no number: on the device weights and sums in use,
   on the host staging buffers, on disk offloaded activations. */
static void fill_rest(const hil_plan_view *v, const uint64_t states[HIL_TIERS], hil_plan_report *r)
{
    const hil_plan *p = v->plan;
    uint64_t device = take_off(p->peak[HIL_DEVICE], states[HIL_DEVICE] + p->work);
    uint64_t host = take_off(p->peak[HIL_HOST], states[HIL_HOST] + p->offloaded + p->spilled);
    uint64_t disk = take_off(p->peak[HIL_DISK], states[HIL_DISK]);
    uint64_t updating = p->discrete ? updating_bytes(v, states[HIL_DEVICE]) : 0;
    bool sums = p->spill == HIL_DISK, activations = activations_on_disk(p);
    if (updating > device) updating = device;
    add_row(r, "weights and gradients in use", device - updating, 0, 0);
    add_row(r, "states being updated", updating, 0, 0);
    add_row(r, "keys and values", v->cache, 0, 0);
    add_row(r, "activations and work buffers", take_off(p->work, v->cache), p->offloaded,
            sums ? 0 : disk);
    add_row(r, "fp32 gradient sums (offloaded)", 0, p->spilled, sums && !activations ? disk : 0);
    if (sums && activations) add_row(r, "gradient sums and activations", 0, 0, disk);
    add_row(r, "tokens of the batch", 0, v->tokens, 0);
    add_row(r, "staging buffers", 0, take_off(host, v->tokens), 0);
}

static void add_states(hil_plan_report *r, const char *name, const uint64_t bytes[HIL_TIERS])
{
    add_row(r, name, bytes[HIL_DEVICE], bytes[HIL_HOST], bytes[HIL_DISK]);
}

/* States of what is trained: a row for each, or for an adapter its optimizer's together. */
static void fill_trained(const hil_plan_view *v, const uint64_t bytes[HIL_UNIT_STATES][HIL_TIERS],
                         hil_plan_report *r)
{
    const char *const names[HIL_UNIT_STATES] = {
        "weights", v->dtype == HIL_BF16 ? "master weights (low 16 bits)" : "master weights (fp32)",
        "first moments", "second moments", "gradients"};
    uint64_t optimizer[HIL_TIERS] = {0};
    for (int s = 0; s < HIL_UNIT_STATES && !v->outline->adapter; ++s)
        add_states(r, names[s], bytes[s]);
    if (!v->outline->adapter) return;
    for (int s = HIL_REST; s <= HIL_STATE2; ++s)
        for (int t = 0; t < HIL_TIERS; ++t) optimizer[t] += bytes[s][t];
    add_states(r, "adapter weights", bytes[HIL_WEIGHT]);
    add_states(r, "adapter optimizer states", optimizer);
    add_states(r, "adapter gradients", bytes[HIL_GRADIENT]);
}

static const char *name_quantized(const hil_outline *o)
{
    static const char *const base[] = {"",
                                       "base weights (nf4)",
                                       "base weights (nf4)",
                                       "base weights (int8)",
                                       "base weights (fp8)",
                                       "base weights (bf16)"};
    static const char *const model[] = {
        "", "weights (nf4)", "weights (nf4)", "weights (int8)", "weights (fp8)", "weights (bf16)"};
    hil_quant quant = HIL_QUANT_NONE;
    for (size_t u = 0; u < o->units && quant == HIL_QUANT_NONE; ++u) quant = o->unit[u].quant;
    return o->adapter ? base[quant] : model[quant];
}

static const char *name_frozen(const hil_plan_view *v)
{
    if (!v->outline->training) return "weights";
    if (!v->outline->adapter) return "frozen weights";
    return v->dtype == HIL_BF16  ? "base weights (bf16)"
           : v->dtype == HIL_F16 ? "base weights (fp16)"
                                 : "base weights (fp32)";
}

static void fill_places(const hil_plan_view *v, hil_plan_report *r)
{
    const hil_plan *p = v->plan;
    hil_plan_table table;
    hil_occupied all;
    uint64_t states[HIL_TIERS] = {0};
    hil_plan_occupied(p, v->outline, &all);
    hil_plan_count(v->outline, p, &table);
    add_states(r, name_quantized(v->outline), all.bytes[HIL_UNIT_QUANTIZED][HIL_WEIGHT]);
    add_states(r, name_frozen(v), all.bytes[HIL_UNIT_FROZEN][HIL_WEIGHT]);
    fill_trained(v, all.bytes[HIL_UNIT_TRAINED], r);
    r->states.name = "states";
    for (int s = 0; s < HIL_UNIT_STATES; ++s) {
        for (int k = 0; k < HIL_UNIT_KINDS; ++k)
            for (int t = 0; t < HIL_TIERS; ++t) states[t] += all.bytes[k][s][t];
        r->states.device += table.bytes[s][HIL_DEVICE];
        r->states.host += table.bytes[s][HIL_HOST];
        r->states.disk += table.bytes[s][HIL_DISK];
    }
    fill_rest(v, states, r);
    r->peak = (hil_plan_row){"peak", p->peak[HIL_DEVICE], p->peak[HIL_HOST], p->peak[HIL_DISK]};
    r->budget = (hil_plan_row){"budget", p->device_budget, p->host_budget, p->disk_budget};
}

static void fill_activations(const hil_plan_view *v, hil_plan_activations *out)
{
    const hil_plan *p = v->plan;
    int64_t away[HIL_TIERS] = {0}, waiting[HIL_TIERS] = {0};
    for (size_t i = 0; i < p->segments; ++i) {
        const hil_segment_place *place = &p->segment[i];
        int64_t times = hil_outline_times(v->outline->segment[i].count);
        int64_t keep = place->keep < p->group ? place->keep : p->group, rest = p->group - keep;
        int64_t lean = place->lean < rest ? place->lean : rest;
        out->layers += times;
        out->kept += times * keep;
        out->lean += times * lean;
        away[place->tapes] += times * (keep + lean);
        waiting[place->tier] += times;
    }
    out->all = p->group * out->layers;
    out->recomputed = out->all - out->kept - out->lean;
    out->on_host = away[HIL_HOST];
    out->on_disk = away[HIL_DISK];
    out->outputs_host = waiting[HIL_HOST];
    out->outputs_disk = waiting[HIL_DISK];
}

/* Whether the window holds all weights at once. */
static bool holds_all(const hil_plan_view *v)
{
    uint64_t window[HIL_WINDOWS];
    hil_plan_windows(v->outline, false, window);
    return v->plan->window >= window[HIL_WINDOW_WHOLE];
}

hil_wait_seconds hil_plan_waits(const double wait[HIL_WAITS])
{
    return (hil_wait_seconds){.weights = wait[HIL_WAIT_WEIGHTS],
                              .update = wait[HIL_WAIT_UPDATE],
                              .activations = wait[HIL_WAIT_ACTIVATIONS],
                              .gradients = wait[HIL_WAIT_GRADIENTS],
                              .memory = wait[HIL_WAIT_MEMORY]};
}

void hil_plan_report_step(const hil_plan *p, hil_plan_report *r)
{
    r->to_device_bytes = p->to_device;
    r->to_host_bytes = p->to_host;
    r->disk_read_bytes = p->disk_read;
    r->disk_written_bytes = p->disk_written;
    r->gathered_bytes = p->gathered;
    r->reduced_bytes = p->reduced;
    r->step_seconds = p->step_seconds;
    r->compute_seconds = p->compute_seconds;
    r->network_seconds = p->busy[HIL_LINK_GATHER] + p->busy[HIL_LINK_REDUCE];
    r->wait_seconds = hil_plan_waits(p->wait);
    r->limit = hil_plan_limit(p);
}

static void fill_step(const hil_plan_view *v, hil_plan_report *r)
{
    const hil_plan *p = v->plan;
    r->ranks = p->ranks;
    r->zero = p->zero;
    r->holds = p->zero == 1    ? "all weights and all gradient sums"
               : holds_all(v)  ? "all weights"
               : p->by_segment ? "the weights and gradients of one layer"
                               : "the weights and gradients in use";
    r->micro_batches = v->outline->micros;
    r->group = v->outline->training ? p->group : 0;
    hil_plan_report_step(p, r);
}

/* Says what would make a step faster, the most useful first. */
static void fill_advice(const hil_plan_view *v, hil_plan_report *r)
{
    const hil_plan_activations *n = &r->activations;
    hil_plan_table table;
    char text[32], *out = r->advice;
    size_t size = sizeof r->advice;
    hil_plan_count(v->outline, v->plan, &table);
    const uint64_t *weight = table.bytes[HIL_WEIGHT];
    bool training = v->outline->training;
    if (*r->limit == 'd' && training)
        snprintf(out, size,
                 "a larger --batch hides the disk behind more computing; more --host-memory keeps "
                 "up to %s off it; another --disk adds its bandwidth",
                 hil_text_bytes(text, r->states.disk));
    else if (*r->limit == 'd')
        snprintf(out, size,
                 "more --host-memory keeps up to %s off the disk; another --disk adds its "
                 "bandwidth",
                 hil_text_bytes(text, r->states.disk));
    else if (*r->limit == 'h')
        snprintf(out, size, "%s more of --device-memory keep all weights there%s",
                 hil_text_bytes(text, weight[HIL_HOST] + weight[HIL_DISK]),
                 training ? "; a larger --batch uses each of them longer" : "");
    else if (*r->limit == 'n')
        snprintf(out, size, "a larger --batch uses each gathered weight longer; %sa faster network",
                 holds_all(v) ? "" : "more --device-memory gathers each once; ");
    else if (*r->limit == 'u')
        snprintf(out, size,
                 "a larger --batch hides the update behind more computing; --optimizer lion or "
                 "adamw8bit touches fewer bytes");
    else if (*r->limit == 'm')
        snprintf(out, size, "more --device-memory: transfers wait for room");
    else if (n->recomputed && training)
        snprintf(out, size,
                 "more --device-memory keeps more activations: %.0f%% of the layers recompute them",
                 100. * (double)n->recomputed / (double)n->all);
    else
        snprintf(out, size, "only a faster processor");
}

/* Bandwidth of the slowest link that a class of states crosses from its tiers. */
static double bandwidth_of(const hil_plan_view *v, const hil_plan_table *table, int state)
{
    const hil_speeds *s = &v->machine->speeds;
    if (table->bytes[state][HIL_DISK])
        return s->disk_mixed < s->to_device ? s->disk_mixed : s->to_device;
    return table->bytes[state][HIL_HOST] ? s->to_device : s->memory;
}

static double bandwidth_of_outputs(const hil_plan_view *v, const hil_plan_report *r)
{
    const hil_speeds *s = &v->machine->speeds;
    if (r->activations.outputs_disk) return s->disk_mixed;
    return r->activations.outputs_host ? s->to_device : s->memory;
}

static hil_plan_link link_of(const char *name, double intensity, double peak, double bandwidth)
{
    return (hil_plan_link){.name = name,
                           .flops_per_byte = intensity,
                           .for_half = hil_bandwidth_needed(intensity, 0.5, peak),
                           .for_most = hil_bandwidth_needed(intensity, 0.9, peak),
                           .here = bandwidth,
                           .efficiency = hil_efficiency(intensity, bandwidth, peak)};
}

static void fill_analysis(const hil_plan_view *v, hil_plan_report *r)
{
    hil_dense_memory memory;
    hil_intensity ait;
    hil_plan_table table;
    double peak = v->machine->speeds.gemm[v->dtype];
    hil_dense_count(&v->dense, &memory);
    hil_dense_intensity(&v->dense, &ait);
    hil_plan_count(v->outline, v->plan, &table);
    r->analysis = (hil_plan_analysis){.bytes_per_parameter = v->dense.state_bytes,
                                      .states = memory.states,
                                      .activations = memory.activations,
                                      .checkpoints = memory.checkpoints,
                                      .working_states = memory.working_states,
                                      .working_activations = memory.working_activations,
                                      .link = {link_of("weights and gradients", ait.weights, peak,
                                                       bandwidth_of(v, &table, HIL_WEIGHT)),
                                               link_of("optimizer states", ait.optimizer, peak,
                                                       bandwidth_of(v, &table, HIL_STATE1)),
                                               link_of("activation checkpoints", ait.checkpoints,
                                                       peak, bandwidth_of_outputs(v, r))},
                                      .peak = peak,
                                      .dtype = hil_dtype_name(v->dtype)};
}

void hil_plan_report_fill(const hil_plan_view *view, hil_plan_report *out)
{
    *out = (hil_plan_report){.fits = true, .machine = *view->machine};
    fill_places(view, out);
    fill_activations(view, &out->activations);
    fill_step(view, out);
    fill_advice(view, out);
    if (view->dense.layers > 0) fill_analysis(view, out);
}

json_t *hil_plan_report_rows(const hil_plan_report *r)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < r->rows; ++i) {
        const hil_plan_row *row = &r->row[i];
        json_array_append_new(rows,
                              json_pack("{s:s, s:I, s:I, s:I}", "name", row->name, "device",
                                        (json_int_t)row->device, "host", (json_int_t)row->host,
                                        "disk", (json_int_t)row->disk));
    }
    return rows;
}

json_t *hil_plan_assumed(const hil_machine *machine, const hil_memory_options *memory)
{
    json_t *names = json_array();
    if (!machine->measured) json_array_append_new(names, json_string("host"));
    for (size_t i = 0; i < memory->disk_count; ++i)
        if (!machine->drive_known[i])
            json_array_append_new(names, json_string(memory->disks[i].path));
    return names;
}
