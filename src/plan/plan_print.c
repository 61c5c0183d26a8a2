/* plan_print.c - tables and sentences about a plan. */
#include "plan/plan_print.h"

static const char *size(char out[32], uint64_t bytes)
{
    if (bytes) return hil_text_bytes(out, bytes);
    out[0] = '-';
    out[1] = 0;
    return out;
}

static hil_status print_row(hil_text *out, const hil_plan_row *row)
{
    char device[32], host[32], disk[32];
    if (!row->device && !row->host && !row->disk) return HIL_OK;
    return hil_text_print(out, "%-32s %12s %12s %12s\n", row->name, size(device, row->device),
                          size(host, row->host), size(disk, row->disk));
}

static hil_status print_places(const hil_plan_report *r, hil_text *out)
{
    HIL_TRY(hil_text_print(out, "%-32s %12s %12s %12s\n", "", "device", "host", "disk"));
    for (size_t i = 0; i < r->rows; ++i) HIL_TRY(print_row(out, &r->row[i]));
    HIL_TRY(print_row(out, &r->peak));
    return print_row(out, &r->budget);
}

static hil_status print_ranks(const hil_plan_report *r, hil_text *out)
{
    if (r->ranks == 1 || !r->zero) return HIL_OK;
    return hil_text_print(
        out,
        "ranks: %d; each holds 1/%d of every state, and all numbers here are for one rank; "
        "--zero %d: a rank's device holds %s\n",
        r->ranks, r->ranks, r->zero, r->holds);
}

static hil_status print_away(hil_text *out, const char *format, int64_t count, const char *tier)
{
    return count ? hil_text_print(out, format, (long long)count, tier) : HIL_OK;
}

static hil_status print_activations(const hil_plan_report *r, hil_text *out)
{
    const hil_plan_activations *n = &r->activations;
    const char *kept = "; %lld keep them on %s";
    const char *outputs = "; outputs of %lld segments are offloaded to %s";
    HIL_TRY(hil_text_print(out, "activations: of %lld segments (embedding, layers, head)",
                           (long long)n->layers));
    if (r->group > 1) HIL_TRY(hil_text_print(out, " x %lld micro-batches", (long long)r->group));
    HIL_TRY(hil_text_print(out,
                           ": %lld keep all activations, %lld recompute the cheap ones, %lld "
                           "recompute everything",
                           (long long)n->kept, (long long)n->lean, (long long)n->recomputed));
    HIL_TRY(print_away(out, kept, n->on_host, "host"));
    HIL_TRY(print_away(out, kept, n->on_disk, "disk"));
    HIL_TRY(print_away(out, outputs, n->outputs_host, "host"));
    HIL_TRY(print_away(out, outputs, n->outputs_disk, "disk"));
    return hil_text_print(out, "\n");
}

static hil_status print_order(const hil_plan_report *r, hil_text *out)
{
    int64_t micros = r->micro_batches, group = r->group;
    if (!group) return HIL_OK;
    HIL_TRY(hil_text_print(out, "micro-batches: %lld, ", (long long)micros));
    if (group > 1 && group < micros)
        HIL_TRY(hil_text_print(out, "%lld at a time", (long long)group));
    if (group >= micros && group > 1) HIL_TRY(hil_text_print(out, "all of them"));
    HIL_TRY(hil_text_print(out, group > 1 ? " through a layer before the next layer\n"
                                          : "one after the other\n"));
    return print_activations(r, out);
}

static hil_status print_moves(const hil_plan_report *r, hil_text *out)
{
    char a[32], b[32], c[32], d[32];
    if (r->ranks > 1)
        HIL_TRY(hil_text_print(
            out, "between ranks per step: %s of weights gathered, %s of gradients reduced\n",
            hil_text_bytes(a, r->gathered_bytes), hil_text_bytes(b, r->reduced_bytes)));
    if (!r->to_device_bytes && !r->to_host_bytes && !r->disk_read_bytes && !r->disk_written_bytes)
        return hil_text_print(out, "moved per step: nothing\n");
    return hil_text_print(
        out,
        "moved per step: %s host to device, %s device to host, %s read from disk, %s written to "
        "disk\n",
        hil_text_bytes(a, r->to_device_bytes), hil_text_bytes(b, r->to_host_bytes),
        hil_text_bytes(c, r->disk_read_bytes), hil_text_bytes(d, r->disk_written_bytes));
}

static hil_status print_time(const hil_plan_report *r, hil_text *out)
{
    char a[32], b[32], c[32], d[32];
    const hil_wait_seconds *w = &r->wait_seconds;
    double waits = w->weights + w->update + w->activations + w->gradients + w->memory;
    HIL_TRY(hil_text_print(
        out, "a step takes about %s: computing %s, waiting %s (%s for the update)",
        hil_text_seconds(a, r->step_seconds), hil_text_seconds(b, r->compute_seconds),
        hil_text_seconds(c, waits), hil_text_seconds(d, w->update)));
    if (r->ranks > 1)
        HIL_TRY(hil_text_print(out, "; the network is busy for %s",
                               hil_text_seconds(a, r->network_seconds)));
    return hil_text_print(out, "; limited by: %s\n", r->limit);
}

/* GB/s, never with an exponent. */
static const char *rate(char out[32], double bandwidth)
{
    double number = bandwidth * 1e-9;
    int digits = number < 0.995 ? 3 : number < 9.95 ? 2 : number < 99.5 ? 1 : 0;
    snprintf(out, 32, "%.*f", digits, number);
    return out;
}

static hil_status print_analysis(const hil_plan_analysis *a, hil_text *out)
{
    char text[5][32];
    HIL_TRY(hil_text_print(
        out,
        "by the formulas of ZeRO-Infinity (%.3g bytes per parameter): model states %s; activations "
        "%s, with checkpointing %s; working memory for one layer's weights and gradients %s, for "
        "its activations %s\n",
        a->bytes_per_parameter, hil_text_bytes(text[0], (uint64_t)a->states),
        hil_text_bytes(text[1], (uint64_t)a->activations),
        hil_text_bytes(text[2], (uint64_t)a->checkpoints),
        hil_text_bytes(text[3], (uint64_t)a->working_states),
        hil_text_bytes(text[4], (uint64_t)a->working_activations)));
    HIL_TRY(hil_text_print(out, "%-24s %12s %12s %12s %12s %12s\n", "bandwidth, GB/s", "flop/byte",
                           "for 50%", "for 90%", "here", "efficiency"));
    for (int i = 0; i < HIL_PLAN_LINKS; ++i) {
        const hil_plan_link *link = &a->link[i];
        HIL_TRY(hil_text_print(out, "%-24s %12.0f %12s %12s %12s %11.0f%%\n", link->name,
                               link->flops_per_byte, rate(text[0], link->for_half),
                               rate(text[1], link->for_most), rate(text[2], link->here),
                               100 * link->efficiency));
    }
    return hil_text_print(out, "(at %.4g TFLOP/s %s, if transfers and computing did not overlap)\n",
                          a->peak * 1e-12, a->dtype);
}

hil_status hil_plan_print_all(const hil_plan_report *r, hil_text *out)
{
    HIL_TRY(print_places(r, out));
    HIL_TRY(hil_text_print(out, "\n"));
    HIL_TRY(print_ranks(r, out));
    HIL_TRY(print_order(r, out));
    HIL_TRY(print_moves(r, out));
    HIL_TRY(print_time(r, out));
    HIL_TRY(hil_text_print(out, "faster: %s\n", r->advice));
    if (r->context || !(r->analysis.peak > 0)) return HIL_OK; /* the formulas are about training */
    HIL_TRY(hil_text_print(out, "\n"));
    return print_analysis(&r->analysis, out);
}

static hil_status print_tier(hil_text *out, const char *name, uint64_t bytes)
{
    char text[32];
    return bytes ? hil_text_print(out, " %s %s", name, hil_text_bytes(text, bytes)) : HIL_OK;
}

static hil_status print_tiers(hil_text *out, const hil_plan_row *row)
{
    HIL_TRY(print_tier(out, "device", row->device));
    HIL_TRY(print_tier(out, "host", row->host));
    return print_tier(out, "disk", row->disk);
}

hil_status hil_plan_print_short(const hil_plan_report *r, hil_text *out)
{
    char text[32];
    HIL_TRY(hil_text_print(out, "plan"));
    if (r->ranks > 1) HIL_TRY(hil_text_print(out, " for each of %d ranks", r->ranks));
    HIL_TRY(hil_text_print(out, ": weights and optimizer states"));
    HIL_TRY(print_tiers(out, &r->states));
    HIL_TRY(hil_text_print(out, "; peak memory"));
    HIL_TRY(print_tiers(out, &r->peak));
    if (!r->machine.measured) return HIL_OK;
    return hil_text_print(out, "; a step takes about %s", hil_text_seconds(text, r->step_seconds));
}
