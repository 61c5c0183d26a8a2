/* config_rope.c - rotary embedding in config.json: as transformers 4 and 5 write it. */
#include "model/config/config_read.h"

#include <math.h>
#include <string.h>

typedef struct reading {
    hil_config_reader top, inner; /* the file's object and the one of rotary embedding */
    const char *key;              /* of the latter */
    hil_rope_config *rope;
} reading;

static hil_status read_llama3(const reading *r)
{
    hil_rope_config *rope = r->rope;
    rope->low_freq = rope->high_freq = NAN;
    HIL_TRY(hil_config_real(&r->inner, "low_freq_factor", 1e-6, 1e9, &rope->low_freq));
    HIL_TRY(hil_config_real(&r->inner, "high_freq_factor", 1e-6, 1e9, &rope->high_freq));
    if (rope->high_freq < rope->low_freq)
        return hil_config_refuse(&r->inner, "high_freq_factor", "is below \"low_freq_factor\"");
    return HIL_OK;
}

static double magnitude(double scale, double factor)
{
    return scale <= 1 ? 1 : 0.1 * factor * log(scale) + 1;
}

static hil_status read_yarn(const reading *r)
{
    hil_rope_config *rope = r->rope;
    double mscale = 0, all = 0;
    rope->beta_fast = 32;
    rope->beta_slow = 1;
    rope->truncate = true;
    HIL_TRY(hil_config_real(&r->inner, "beta_fast", 1e-6, 1e9, &rope->beta_fast));
    HIL_TRY(hil_config_real(&r->inner, "beta_slow", 1e-6, 1e9, &rope->beta_slow));
    HIL_TRY(hil_config_bool(&r->inner, "truncate", &rope->truncate));
    HIL_TRY(hil_config_real(&r->inner, "mscale", 0, 1e9, &mscale));
    HIL_TRY(hil_config_real(&r->inner, "mscale_all_dim", 0, 1e9, &all));
    rope->attention_factor = mscale > 0 && all > 0
                                 ? magnitude(rope->factor, mscale) / magnitude(rope->factor, all)
                                 : magnitude(rope->factor, 1);
    rope->score_factor = all > 0 ? pow(magnitude(rope->factor, all), 2) : 0;
    return hil_config_real(&r->inner, "attention_factor", 1e-6, 1e9, &rope->attention_factor);
}

static hil_status read_factors(const reading *r, const char *key, float *out)
{
    const json_t *list = json_object_get(r->inner.object, key);
    size_t count = json_array_size(list);
    if (!json_is_array(list) || count < 1 || count > HIL_ROPE_FACTORS ||
        (r->rope->factors && (size_t)r->rope->factors != count))
        return hil_config_refuse(&r->inner, key, "must be a list of a number for each frequency");
    for (size_t i = 0; i < count; ++i) {
        double factor = json_number_value(json_array_get(list, i));
        if (!(factor >= 1e-6 && factor < 1e9))
            return hil_config_refuse(&r->inner, key, "has an entry that is not above 0");
        out[i] = (float)factor;
    }
    r->rope->factors = (int)count;
    return HIL_OK;
}

static hil_status read_long(const reading *r)
{
    hil_rope_config *rope = r->rope;
    HIL_TRY(read_factors(r, "short_factor", rope->short_factor));
    HIL_TRY(read_factors(r, "long_factor", rope->long_factor));
    double original = (double)rope->original_positions;
    rope->attention_factor = rope->factor <= 1 ? 1 : sqrt(1 + log(rope->factor) / log(original));
    return hil_config_real(&r->inner, "attention_factor", 1e-6, 1e9, &rope->attention_factor);
}

/* The length the model was trained with before it was extended; a value beside the object wins. */
static hil_status read_original(const reading *r)
{
    static const char key[] = "original_max_position_embeddings";
    int64_t *out = &r->rope->original_positions;
    *out = r->top.config->max_positions;
    HIL_TRY(hil_config_size(&r->inner, key, NULL, HIL_CONFIG_POSITIONS_MAX, out));
    return hil_config_size(&r->top, key, NULL, HIL_CONFIG_POSITIONS_MAX, out);
}

static hil_status read_factor(const reading *r)
{
    hil_rope_config *rope = r->rope;
    bool extends = rope->kind == HIL_ROPE_YARN || rope->kind == HIL_ROPE_LONG;
    rope->factor = NAN;
    if (extends)
        rope->factor = (double)r->top.config->max_positions / (double)rope->original_positions;
    return hil_config_real(&r->inner, "factor", 1e-6, 1e9, &rope->factor);
}

static hil_status read_kind(const reading *r)
{
    static const struct {
        const char *name;
        hil_rope_kind kind;
    } known[] = {
        {"default", HIL_ROPE_DEFAULT},
        {"dynamic", HIL_ROPE_DEFAULT}, /* differs beyond
                                          max_position_embeddings
                                          only */
        {"linear", HIL_ROPE_LINEAR},
        {"llama3", HIL_ROPE_LLAMA3},
        {"yarn", HIL_ROPE_YARN},
        {"longrope", HIL_ROPE_LONG},
        {"su", HIL_ROPE_LONG},
        {"proportional", HIL_ROPE_PROPORTIONAL},
    };
    const char *type = "default";
    HIL_TRY(hil_json_string(r->inner.object, "type", r->top.what, &type));
    HIL_TRY(hil_json_string(r->inner.object, "rope_type", r->top.what, &type));
    for (size_t i = 0; i < sizeof known / sizeof *known; ++i)
        if (strcmp(type, known[i].name) == 0) {
            r->rope->kind = known[i].kind;
            r->rope->dynamic = strcmp(type, "dynamic") == 0;
            return HIL_OK;
        }
    return hil_fail(HIL_ERR_INPUT,
                    "%s: \"%s\" has type \"%.40s\"; supported are default, linear, dynamic, "
                    "llama3, yarn, longrope and proportional (docs/models.md)",
                    r->top.what, r->key, type);
}

/* The part of a head that turns. */
static hil_status read_part(const hil_config_reader *r, hil_rope_config *rope)
{
    double part = rope->partial > 0 ? rope->partial : 1;
    HIL_TRY(hil_config_real(r, "partial_rotary_factor", 1e-9, 1.0001, &part));
    if (!(rope->partial > 0) && part != 1)
        return hil_config_refuse(r, "partial_rotary_factor", "other than 1 is not supported");
    if (rope->partial > 0) rope->partial = part;
    return HIL_OK;
}

/* Reads the numbers of one rope object; absent ones come from the top level. */
static hil_status read_object(const reading *r)
{
    HIL_TRY(read_part(&r->inner, r->rope));
    HIL_TRY(hil_config_real(&r->inner, "rope_theta", 1e-6, 1e30, &r->rope->theta));
    HIL_TRY(read_kind(r));
    if (r->rope->kind == HIL_ROPE_DEFAULT) return HIL_OK;
    r->rope->factor = 1;
    if (r->rope->kind == HIL_ROPE_PROPORTIONAL)
        return hil_config_real(&r->inner, "factor", 1e-6, 1e9, &r->rope->factor);
    if (r->rope->kind != HIL_ROPE_LINEAR) HIL_TRY(read_original(r));
    HIL_TRY(read_factor(r));
    switch (r->rope->kind) {
    case HIL_ROPE_LLAMA3:
        return read_llama3(r);
    case HIL_ROPE_YARN:
        return read_yarn(r);
    case HIL_ROPE_LONG:
        return read_long(r);
    default:
        return HIL_OK;
    }
}

static bool is_set(const json_t *value)
{
    return value && !json_is_null(value) && !(json_is_object(value) && !json_object_size(value));
}

hil_status hil_config_check_rope(const hil_config_reader *r, const hil_rope_config *rope)
{
    int64_t dims = hil_config_rope_dims(r->config, rope);
    if (dims < 2 || dims % 2)
        return hil_config_refuse(r, "partial_rotary_factor", "leaves no even number of a head");
    if (rope->kind == HIL_ROPE_LONG && dims / 2 != rope->factors)
        return hil_config_refuse(r, "short_factor", "has not one number for each frequency");
    return HIL_OK;
}

int64_t hil_config_rope_dims(const hil_config *config, const hil_rope_config *rope)
{
    bool part = rope->partial > 0 && rope->kind != HIL_ROPE_PROPORTIONAL;
    return part ? (int64_t)((double)config->head_dim * rope->partial) : config->head_dim;
}

static hil_status read_named(const hil_config_reader *r, const char *key, const json_t *object,
                             hil_rope_config *rope)
{
    reading one = {.top = *r, .inner = *r, .key = key, .rope = rope};
    if (!json_is_object(object)) return hil_config_refuse(r, key, "must be an object");
    one.inner.object = object;
    HIL_TRY(read_object(&one));
    return hil_config_check_rope(r, rope);
}

hil_status hil_config_rope(const hil_config_reader *r)
{
    const char *key = "rope_scaling", *name;
    json_t *rope = json_object_get(r->object, key), *value;
    HIL_TRY(hil_config_real(r, "rope_theta", 1e-6, 1e30, &r->config->rope.theta));
    HIL_TRY(read_part(r, &r->config->rope));
    if (!is_set(rope)) {
        key = "rope_parameters";
        rope = json_object_get(r->object, key);
    }
    if (!rope || json_is_null(rope)) return hil_config_check_rope(r, &r->config->rope);
    json_object_foreach(rope, name, value) if (json_is_object(value)) return hil_config_refuse(
        r, key, "per layer type is not supported");
    return read_named(r, key, rope, &r->config->rope);
}

bool hil_config_has_rope(const hil_config_reader *r)
{
    return json_is_object(json_object_get(r->object, "rope_parameters")) ||
           is_set(json_object_get(r->object, "rope_scaling"));
}

hil_status hil_config_rope_real(const hil_config_reader *r, const char *key, double *out)
{
    static const char *const objects[] = {"rope_parameters", "rope_scaling"};
    for (size_t i = 0; i < sizeof objects / sizeof *objects; ++i) {
        const json_t *rope = json_object_get(r->object, objects[i]);
        const hil_config_reader inner = {rope, r->what, r->config};
        if (json_is_object(rope)) HIL_TRY(hil_config_real(&inner, key, 0, 1e9, out));
    }
    return HIL_OK;
}

hil_status hil_config_rope_by_type(const hil_config_reader *r)
{
    hil_config *c = r->config;
    const json_t *all = json_object_get(r->object, "rope_parameters"), *one;
    const json_t *scaling = json_object_get(r->object, "rope_scaling");
    c->has_local = true;
    HIL_TRY(hil_config_real(r, "rope_theta", 1e-6, 1e30, &c->rope.theta));
    HIL_TRY(hil_config_real(r, "rope_local_base_freq", 1e-6, 1e30, &c->local_rope.theta));
    if (is_set(scaling)) HIL_TRY(read_named(r, "rope_scaling", scaling, &c->rope));
    if (!is_set(all)) return HIL_OK;
    if ((one = json_object_get(all, "full_attention")) && is_set(one))
        HIL_TRY(read_named(r, "full_attention", one, &c->rope));
    if ((one = json_object_get(all, "sliding_attention")) && is_set(one))
        HIL_TRY(read_named(r, "sliding_attention", one, &c->local_rope));
    return HIL_OK;
}

static bool has_kind(const hil_config *c, bool slides)
{
    bool found = false;
    for (int64_t n = 0; n < c->layers; ++n) found |= (hil_config_window(c, n) > 0) == slides;
    return found;
}

hil_status hil_config_rope_nested(const hil_config_reader *r, double part)
{
    static const char *const kinds[] = {"full_attention", "sliding_attention"};
    static const char part_key[] = "partial_rotary_factor";
    hil_config *c = r->config;
    hil_rope_config *const ropes[] = {&c->rope, &c->local_rope};
    const json_t *all = json_object_get(r->object, "rope_parameters");
    c->has_local = true;
    if (is_set(json_object_get(r->object, "rope_scaling")))
        return hil_config_refuse(r, "rope_scaling", "is not known here: use \"rope_parameters\"");
    for (int i = 0; i < 2 && all && !json_is_null(all); ++i) {
        const json_t *one = json_object_get(all, kinds[i]);
        if (!has_kind(c, i == 1)) continue;
        if (!json_is_object(one))
            return hil_config_refuse(r, "rope_parameters", "lacks an object of a kind of layers");
        if (is_set(json_object_get(r->object, part_key)) && !json_object_get(one, part_key))
            return hil_config_refuse(r, part_key, "belongs into \"rope_parameters\"");
        ropes[i]->theta = NAN;
        ropes[i]->partial = part;
        HIL_TRY(read_named(r, kinds[i], one, ropes[i]));
    }
    for (int i = 0; i < 2; ++i)
        if (has_kind(c, i == 1)) HIL_TRY(hil_config_check_rope(r, ropes[i]));
    double theta = c->rope.theta;
    HIL_TRY(hil_config_real(r, "rope_theta", 1e-6, 1e30, &theta));
    if (theta == c->rope.theta) return HIL_OK;
    return hil_config_refuse(r, "rope_theta", "is not that of layers with full attention");
}
