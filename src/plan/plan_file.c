/* plan_file.c - hil_plan <-> JSON. Input is treated as hostile. */
#include "plan/plan_file.h"

#include "io/align.h"
#include "io/file.h"
#include "machine/probe.h"

#include <string.h>

#define BYTES_MAX ((int64_t)1 << 60)
#define CHUNK_UNIT 4096
#define CHUNK_MAX ((int64_t)1 << 30)
#define SLOTS_MAX 64

static const char *const tiers[HIL_TIERS] = {"device", "host", "disk"};
static const char *const states[HIL_UNIT_STATES] = {"weight", "rest", "moment1", "moment2",
                                                    "gradient"};
static const char *const links[HIL_LINK_COMPUTE] = {
    "fetch", "stash", "in", "back", "out", "read", "update", "write", "gather", "reduce", "save"};

static json_t *bytes(uint64_t number)
{
    return json_integer((json_int_t)number);
}

static json_t *per_tier(const uint64_t number[HIL_TIERS])
{
    json_t *object = json_object();
    for (int t = 0; t < HIL_TIERS; ++t) json_object_set_new(object, tiers[t], bytes(number[t]));
    return object;
}

static json_t *times(const double *seconds, const char *const *names, int count)
{
    json_t *object = json_object();
    for (int i = 0; i < count; ++i) json_object_set_new(object, names[i], json_real(seconds[i]));
    return object;
}

static void write_units(json_t *array, const hil_outline *outline, const hil_plan *plan)
{
    for (size_t u = 0; u < outline->units; ++u) {
        const hil_outline_unit *unit = &outline->unit[u];
        json_t *object = json_object();
        json_object_set_new(object, "name", json_string(unit->name));
        json_object_set_new(object, "elements", json_integer(unit->elements));
        for (int s = 0; s < HIL_UNIT_STATES; ++s)
            if (hil_outline_bytes(unit, s))
                json_object_set_new(object, states[s], json_string(tiers[plan->unit[u].tier[s]]));
        json_array_append_new(array, object);
    }
}

static void write_segments(json_t *array, const hil_outline *outline, const hil_plan *plan)
{
    for (size_t i = 0; i < outline->segments; ++i) {
        json_t *object = json_object();
        json_object_set_new(object, "name", json_string(outline->segment[i].name));
        json_object_set_new(object, "keep", json_integer(plan->segment[i].keep));
        json_object_set_new(object, "lean", json_integer(plan->segment[i].lean));
        json_object_set_new(object, "thin", json_boolean(plan->segment[i].thin));
        json_object_set_new(object, "activations", json_string(tiers[plan->segment[i].tier]));
        json_object_set_new(object, "tapes", json_string(tiers[plan->segment[i].tapes]));
        json_array_append_new(array, object);
    }
}

static void write_decided(json_t *o, const hil_plan *p)
{
    const uint64_t budget[HIL_TIERS] = {p->device_budget, p->host_budget, p->disk_budget};
    json_object_set_new(o, "budget", per_tier(budget));
    json_object_set_new(o, "ranks", json_integer(p->ranks));
    json_object_set_new(o, "zero", json_integer(p->zero));
    json_object_set_new(o, "by_segment", json_boolean(p->by_segment));
    json_object_set_new(o, "by_tile", json_boolean(p->by_tile));
    json_object_set_new(o, "prefetch", json_boolean(p->prefetch));
    json_object_set_new(o, "group", json_integer(p->group));
    if (p->keeps_sums) json_object_set_new(o, "keeps_sums", json_true());
    json_object_set_new(o, "window", bytes(p->window));
    json_object_set_new(o, "work", bytes(p->work));
    if (p->expanded) json_object_set_new(o, "expanded", bytes(p->expanded));
    json_object_set_new(o, "ring", bytes(p->ring));
    json_object_set_new(o, "offloaded", bytes(p->offloaded));
    json_object_set_new(o, "spilled", bytes(p->spilled));
    json_object_set_new(o, "chunk", json_integer(p->chunk));
    json_object_set_new(o, "slots", json_integer(p->slots));
    if (p->device_slots) {
        json_object_set_new(o, "device_slots", json_integer(p->device_slots));
        json_object_set_new(o, "device_share", json_real(p->device_share));
    }
    if (p->late_moments) json_object_set_new(o, "late_moments", json_true());
    json_object_set_new(o, "spill", json_string(tiers[p->spill]));
}

json_t *hil_plan_predicted(const hil_plan *p)
{
    json_t *o = json_object(), *moved = json_object();
    json_object_set_new(moved, "disk_read", bytes(p->disk_read));
    json_object_set_new(moved, "disk_written", bytes(p->disk_written));
    json_object_set_new(moved, "to_device", bytes(p->to_device));
    json_object_set_new(moved, "to_host", bytes(p->to_host));
    json_object_set_new(moved, "gathered", bytes(p->gathered));
    json_object_set_new(moved, "reduced", bytes(p->reduced));
    json_object_set_new(o, "fits", json_true());
    json_object_set_new(o, "peak", per_tier(p->peak));
    json_object_set_new(o, "bytes_per_step", moved);
    json_object_set_new(o, "step_seconds", json_real(p->step_seconds));
    json_object_set_new(o, "compute_seconds", json_real(p->compute_seconds));
    json_object_set_new(o, "update_seconds", json_real(p->update_seconds));
    json_object_set_new(o, "exposed_update_seconds", json_real(p->wait[HIL_WAIT_UPDATE]));
    json_object_set_new(o, "limit", json_string(hil_plan_limit(p)));
    json_object_set_new(o, "wait_seconds", times(p->wait, hil_links_wait_name, HIL_WAITS));
    json_object_set_new(o, "busy_seconds", times(p->busy, links, HIL_LINK_COMPUTE));
    return o;
}

hil_status hil_plan_write_decided(const hil_outline *outline, const hil_plan *plan, json_t **out)
{
    json_t *units = json_array(), *segments = json_array();
    *out = json_object();
    write_decided(*out, plan);
    write_units(units, outline, plan);
    write_segments(segments, outline, plan);
    json_object_set_new(*out, "units", units);
    json_object_set_new(*out, "segments", segments);
    /* If an allocation failed, an element is missing: jansson refuses to append NULL. */
    if (json_array_size(units) == outline->units && json_array_size(segments) == outline->segments)
        return HIL_OK;
    json_decref(*out);
    *out = NULL;
    return hil_fail(HIL_ERR_MEMORY, "no memory for a plan of %zu units", outline->units);
}

hil_status hil_plan_write(const hil_outline *outline, const hil_plan *plan,
                          const hil_speeds *speeds, json_t **out)
{
    json_t *decided;
    *out = NULL;
    HIL_TRY(hil_plan_write_decided(outline, plan, &decided));
    *out = hil_plan_predicted(plan);
    json_object_update(*out, decided);
    json_decref(decided);
    if (speeds) json_object_set_new(*out, "speeds", hil_speeds_write(speeds));
    if (*out) return HIL_OK;
    return hil_fail(HIL_ERR_MEMORY, "no memory for a plan of %zu units", outline->units);
}

static hil_status wrong(const char *what, const char *key, const char *expected)
{
    return hil_fail(HIL_ERR_INPUT, "%s: \"%s\" must be %s", what, key, expected);
}

/* Reads a required integer from 0 to `most`. */
static hil_status read_number(const json_t *object, const char *key, const char *what, int64_t most,
                              int64_t *out)
{
    *out = -1;
    HIL_TRY(hil_json_int(object, key, what, out));
    if (*out < 0 || *out > most)
        return hil_fail(HIL_ERR_INPUT, "%s: \"%s\" must be a whole number from 0 to %lld", what,
                        key, (long long)most);
    return HIL_OK;
}

static hil_status read_tier(const json_t *object, const char *key, const char *what,
                            unsigned char *out)
{
    const char *word = NULL;
    HIL_TRY(hil_json_string(object, key, what, &word));
    for (int t = 0; t < HIL_TIERS && word; ++t)
        if (strcmp(word, tiers[t]) == 0) {
            *out = (unsigned char)t;
            return HIL_OK;
        }
    return wrong(what, key, "\"device\", \"host\" or \"disk\"");
}

/* Reads ranks and ZeRO stage; a file without them is for one rank. */
static hil_status read_ranks(const json_t *root, const char *what, hil_plan *p)
{
    int64_t ranks = 1, zero = 3;
    HIL_TRY(hil_json_int(root, "ranks", what, &ranks));
    if (ranks != p->ranks)
        return hil_fail(HIL_ERR_INPUT, "%s: this plan is for %lld rank%s, but there %s %d", what,
                        (long long)ranks, ranks == 1 ? "" : "s", p->ranks == 1 ? "is" : "are",
                        p->ranks);
    HIL_TRY(hil_json_int(root, "zero", what, &zero));
    if (zero < 1 || zero > 3) return wrong(what, "zero", "1, 2 or 3");
    p->zero = (int)zero;
    HIL_TRY(hil_json_bool(root, "by_segment", what, &p->by_segment));
    return hil_json_bool(root, "by_tile", what, &p->by_tile);
}

/* Reads the share of updates on the device; 0 if the file has none. */
static hil_status read_device_updates(const json_t *root, const char *what, hil_plan *p)
{
    const json_t *share = json_object_get(root, "device_share");
    int64_t device_slots = 0;
    HIL_TRY(hil_json_int(root, "device_slots", what, &device_slots));
    if (device_slots < 0 || device_slots > SLOTS_MAX) return wrong(what, "device_slots", "0 to 64");
    p->device_slots = (int)device_slots;
    p->device_share = json_number_value(share);
    if (share && (!json_is_number(share) || p->device_share < 0 || p->device_share > 1))
        return wrong(what, "device_share", "a number from 0 to 1");
    return HIL_OK;
}

static hil_status read_sizes(const json_t *root, const char *what, hil_plan *p)
{
    int64_t group, window, expanded = 0, ring, chunk, slots, budget[HIL_TIERS] = {0};
    HIL_TRY(read_number(root, "group", what, (int64_t)1 << 40, &group));
    if (group < 1) return wrong(what, "group", "1 or more");
    HIL_TRY(read_number(root, "window", what, BYTES_MAX, &window));
    if (json_object_get(root, "expanded"))
        HIL_TRY(read_number(root, "expanded", what, BYTES_MAX, &expanded));
    HIL_TRY(read_number(root, "ring", what, BYTES_MAX, &ring));
    HIL_TRY(read_number(root, "chunk", what, CHUNK_MAX, &chunk));
    if (chunk < CHUNK_UNIT || chunk % CHUNK_UNIT) return wrong(what, "chunk", "a multiple of 4096");
    HIL_TRY(read_number(root, "slots", what, SLOTS_MAX, &slots));
    if (slots < 1) return wrong(what, "slots", "1 or more");
    HIL_TRY(read_tier(root, "spill", what, &p->spill));
    if (p->spill == HIL_DEVICE) return wrong(what, "spill", "\"host\" or \"disk\"");
    HIL_TRY(hil_json_bool(root, "prefetch", what, &p->prefetch));
    HIL_TRY(hil_json_bool(root, "keeps_sums", what, &p->keeps_sums));
    HIL_TRY(hil_json_bool(root, "late_moments", what, &p->late_moments));
    const json_t *given = json_object_get(root, "budget");
    if (given && !json_is_object(given)) return wrong(what, "budget", "an object");
    for (int t = 0; t < HIL_TIERS && given; ++t)
        HIL_TRY(read_number(given, tiers[t], what, BYTES_MAX, &budget[t]));
    p->group = group;
    p->window = (size_t)window;
    p->expanded = (size_t)expanded / HIL_IO_ALIGN * HIL_IO_ALIGN;
    p->ring = (size_t)ring;
    p->chunk = chunk;
    p->slots = (int)slots;
    p->device_budget = (size_t)budget[HIL_DEVICE];
    p->host_budget = (size_t)budget[HIL_HOST];
    p->disk_budget = (uint64_t)budget[HIL_DISK];
    return HIL_OK;
}

/* The index of a unit by name; tries index i first. */
static size_t find_unit(const hil_outline *outline, const char *name, size_t i)
{
    if (i < outline->units && strcmp(outline->unit[i].name, name) == 0) return i;
    for (size_t u = 0; u < outline->units; ++u)
        if (strcmp(outline->unit[u].name, name) == 0) return u;
    return outline->units;
}

static hil_status read_unit(const json_t *object, const hil_outline *outline, const char *what,
                            size_t i, hil_plan *plan)
{
    const char *name = NULL;
    if (!json_is_object(object)) return wrong(what, "units", "an array of objects");
    HIL_TRY(hil_json_string(object, "name", what, &name));
    if (!name) return hil_fail(HIL_ERR_INPUT, "%s: unit %zu has no name", what, i);
    size_t u = find_unit(outline, name, i);
    if (u == outline->units)
        return hil_fail(HIL_ERR_INPUT,
                        "%s: the model has no unit \"%.120s\"; this plan is for "
                        "another model, dtype or --tile-size",
                        what, name);
    const hil_outline_unit *unit = &outline->unit[u];
    int64_t elements = unit->elements;
    HIL_TRY(hil_json_int(object, "elements", what, &elements));
    if (elements != unit->elements)
        return hil_fail(HIL_ERR_INPUT, "%s: unit \"%s\" has %lld elements, in the model %lld", what,
                        name, (long long)elements, (long long)unit->elements);
    if (plan->unit[u].tier[HIL_WEIGHT] != HIL_TIERS)
        return hil_fail(HIL_ERR_INPUT, "%s: unit \"%s\" is there twice", what, name);
    for (int s = 0; s < HIL_UNIT_STATES; ++s) {
        plan->unit[u].tier[s] = HIL_DEVICE;
        if (!hil_outline_bytes(unit, s)) continue;
        if (read_tier(object, states[s], what, &plan->unit[u].tier[s]) != HIL_OK)
            return hil_fail(HIL_ERR_INPUT,
                            "%s: \"%s\" of unit \"%s\" must be \"device\", \"host\" or \"disk\"",
                            what, states[s], name);
    }
    return HIL_OK;
}

static hil_status read_units(const json_t *array, const hil_outline *outline, const char *what,
                             hil_plan *plan)
{
    if (!json_is_array(array)) return wrong(what, "units", "an array");
    for (size_t u = 0; u < outline->units; ++u) plan->unit[u].tier[HIL_WEIGHT] = HIL_TIERS;
    size_t count = json_array_size(array);
    for (size_t i = 0; i < count && i <= outline->units; ++i)
        HIL_TRY(read_unit(json_array_get(array, i), outline, what, i, plan));
    for (size_t u = 0; u < outline->units; ++u)
        if (plan->unit[u].tier[HIL_WEIGHT] == HIL_TIERS)
            return hil_fail(HIL_ERR_INPUT, "%s: unit \"%s\" of the model is missing", what,
                            outline->unit[u].name);
    return HIL_OK;
}

static hil_status read_segments(const json_t *array, const hil_outline *outline, const char *what,
                                hil_plan *plan)
{
    if (!json_is_array(array) || json_array_size(array) != outline->segments)
        return hil_fail(HIL_ERR_INPUT, "%s: \"segments\" must be an array of the model's %zu", what,
                        outline->segments);
    for (size_t i = 0; i < outline->segments; ++i) {
        const json_t *object = json_array_get(array, i);
        const char *name = NULL;
        if (!json_is_object(object)) return wrong(what, "segments", "an array of objects");
        HIL_TRY(hil_json_string(object, "name", what, &name));
        if (!name || strcmp(name, outline->segment[i].name) != 0)
            return hil_fail(HIL_ERR_INPUT, "%s: segment %zu must be \"%s\", not \"%.120s\"", what,
                            i, outline->segment[i].name, name ? name : "");
        hil_segment_place *segment = &plan->segment[i];
        HIL_TRY(read_number(object, "keep", what, plan->group, &segment->keep));
        if (json_object_get(object, "lean"))
            HIL_TRY(read_number(object, "lean", what, plan->group, &segment->lean));
        HIL_TRY(hil_json_bool(object, "thin", what, &segment->thin));
        HIL_TRY(read_tier(object, "activations", what, &segment->tier));
        if (json_object_get(object, "tapes"))
            HIL_TRY(read_tier(object, "tapes", what, &segment->tapes));
    }
    return HIL_OK;
}

hil_status hil_plan_parse(hil_plan *plan, const hil_outline *outline, const char *text, size_t size,
                          const char *what)
{
    json_t *root = NULL;
    hil_status status = HIL_OK;
    HIL_TRY_DONE(hil_plan_create(plan, outline));
    HIL_TRY_DONE(hil_json_parse(text, size, what, &root));
    if (!json_is_object(root))
        HIL_TRY_DONE(hil_fail(HIL_ERR_INPUT, "%s: a plan is a JSON object", what));
    if (json_is_false(json_object_get(root, "fits")))
        HIL_TRY_DONE(
            hil_fail(HIL_ERR_INPUT, "%s: this plan says itself that it does not fit", what));
    HIL_TRY_DONE(read_ranks(root, what, plan));
    HIL_TRY_DONE(read_sizes(root, what, plan));
    HIL_TRY_DONE(read_device_updates(root, what, plan));
    HIL_TRY_DONE(read_units(json_object_get(root, "units"), outline, what, plan));
    HIL_TRY_DONE(read_segments(json_object_get(root, "segments"), outline, what, plan));
done:
    json_decref(root);
    if (status != HIL_OK) hil_plan_free(plan);
    return status;
}

hil_status hil_plan_read(hil_plan *plan, const hil_outline *outline, const char *path)
{
    hil_bytes content;
    HIL_TRY(hil_bytes_read(&content, path));
    hil_status status = hil_plan_parse(plan, outline, content.data, content.size, path);
    hil_bytes_free(&content);
    return status;
}
