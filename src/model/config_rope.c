/* config_rope.c - rotary embedding in config.json: as transformers 4 and 5 write it. */
#include "model/config_read.h"

#include <math.h>
#include <string.h>

/* Reads the numbers of one rope object; absent ones come from the top level. */
static hil_status read_rope_kind(const hil_config_reader *r, const json_t *rope, const char *key)
{
    hil_config *c = r->config;
    hil_config_reader inner = {rope, r->what, c};
    const char *type = "default";
    double part = 1;
    HIL_TRY(hil_json_string(rope, "type", r->what, &type));
    HIL_TRY(hil_json_string(rope, "rope_type", r->what, &type));
    HIL_TRY(hil_json_real(rope, "partial_rotary_factor", r->what, &part));
    if (part != 1)
        return hil_config_refuse(r, "partial_rotary_factor", "other than 1 is not supported");
    HIL_TRY(hil_config_real(&inner, "rope_theta", 1e-6, 1e30, &c->rope.theta));
    if (strcmp(type, "default") == 0) return HIL_OK;
    bool llama3 = strcmp(type, "llama3") == 0;
    if (!llama3 && strcmp(type, "linear") != 0)
        return hil_fail(HIL_ERR_INPUT,
                        "%s: \"%s\" has type \"%.40s\"; supported are default, linear and llama3 "
                        "(docs/models.md)",
                        r->what, key, type);
    c->rope.kind = llama3 ? HIL_ROPE_LLAMA3 : HIL_ROPE_LINEAR;
    c->rope.factor = NAN;
    HIL_TRY(hil_config_real(&inner, "factor", 1e-6, 1e9, &c->rope.factor));
    if (!llama3) return HIL_OK;
    c->rope.low_freq = c->rope.high_freq = NAN;
    HIL_TRY(hil_config_real(&inner, "low_freq_factor", 1e-6, 1e9, &c->rope.low_freq));
    HIL_TRY(hil_config_real(&inner, "high_freq_factor", 1e-6, 1e9, &c->rope.high_freq));
    if (c->rope.high_freq <= c->rope.low_freq)
        return hil_config_refuse(r, "high_freq_factor", "must be above \"low_freq_factor\"");
    c->rope.original_positions = c->max_positions;
    HIL_TRY(hil_config_size(&inner, "original_max_position_embeddings", NULL,
                            HIL_CONFIG_POSITIONS_MAX, &c->rope.original_positions));
    return hil_config_size(r, "original_max_position_embeddings", NULL, HIL_CONFIG_POSITIONS_MAX,
                           &c->rope.original_positions);
}

hil_status hil_config_rope(const hil_config_reader *r)
{
    const char *key = "rope_scaling";
    json_t *rope = json_object_get(r->object, key), *value;
    const char *name;
    double part = 1;
    HIL_TRY(hil_config_real(r, "rope_theta", 1e-6, 1e30, &r->config->rope.theta));
    HIL_TRY(hil_json_real(r->object, "partial_rotary_factor", r->what, &part));
    if (part != 1)
        return hil_config_refuse(r, "partial_rotary_factor", "other than 1 is not supported");
    if (!rope || json_is_null(rope) || (json_is_object(rope) && json_object_size(rope) == 0)) {
        key = "rope_parameters";
        rope = json_object_get(r->object, key);
    }
    if (!rope || json_is_null(rope)) return HIL_OK;
    if (!json_is_object(rope)) return hil_config_refuse(r, key, "must be an object");
    json_object_foreach(rope, name, value) if (json_is_object(value)) return hil_config_refuse(
        r, key, "per layer type is not supported");
    return read_rope_kind(r, rope, key);
}
