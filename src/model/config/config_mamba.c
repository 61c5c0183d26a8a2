/* config_mamba.c - the keys of state space layers. */
#include "model/arch.h"

#include <string.h>

#define KERNEL_MAX 64

/* A limit of steps; null, and the infinity that transformers writes: none. */
static hil_status read_limit(const hil_config_reader *r, const json_t *value, double *out)
{
    if (json_is_null(value) || json_is_object(value)) return HIL_OK;
    if (!json_is_number(value) || !(json_number_value(value) >= 0))
        return hil_config_refuse(r, "time_step_limit", "must be two numbers that are not negative");
    *out = json_number_value(value);
    return HIL_OK;
}

static hil_status read_limits(const hil_config_reader *r)
{
    hil_mamba_config *s = &r->config->mamba;
    const json_t *list = json_object_get(r->object, "time_step_limit");
    if (!list || json_is_null(list)) return HIL_OK;
    if (json_array_size(list) != 2)
        return hil_config_refuse(r, "time_step_limit", "must be two numbers that are not negative");
    HIL_TRY(read_limit(r, json_array_get(list, 0), &s->least));
    HIL_TRY(read_limit(r, json_array_get(list, 1), &s->most));
    if (json_is_number(json_array_get(list, 1)) && !(s->most > s->least))
        return hil_config_refuse(r, "time_step_limit", "leaves no step");
    return HIL_OK;
}

static hil_status check_sizes(const hil_config_reader *r, const hil_mamba_keys *keys)
{
    const hil_mamba_config *s = &r->config->mamba;
    if (s->heads % s->groups)
        return hil_config_refuse(r, keys->groups, "does not divide the heads of the state space");
    if (s->heads * s->head_dim > HIL_CONFIG_WIDTH_MAX)
        return hil_config_refuse(r, keys->head_dim, "times the number of heads is too large");
    if (s->groups * s->states > HIL_CONFIG_WIDTH_MAX)
        return hil_config_refuse(r, keys->states, "times the number of groups is too large");
    return HIL_OK;
}

/* "auto", or no key: what the heads share. */
static hil_status read_head_dim(const hil_config_reader *r, const char *key, int64_t inner)
{
    hil_mamba_config *s = &r->config->mamba;
    const json_t *value = json_object_get(r->object, key);
    const char *word = json_string_value(value);
    if (inner && ((!value && !s->head_dim) || (word && strcmp(word, "auto") == 0)))
        s->head_dim = inner / s->heads;
    else
        HIL_TRY(hil_config_size(r, key, NULL, HIL_CONFIG_HEADS_MAX, &s->head_dim));
    if (!inner || s->heads * s->head_dim == inner) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT, "%s: \"%s\" is %lld, which %lld heads do not make %lld", r->what,
                    key, (long long)s->head_dim, (long long)s->heads, (long long)inner);
}

/* What all heads have; null: as `expand` says; absent: 1024, as in Falcon-H1. */
static hil_status read_inner(const hil_config_reader *r, const char *key, int64_t *inner)
{
    const json_t *value = json_object_get(r->object, key);
    if (json_is_null(value)) return HIL_OK;
    *inner = 1024;
    return hil_config_size(r, key, NULL, HIL_CONFIG_WIDTH_MAX, inner);
}

hil_status hil_config_reals(const hil_config_reader *r, const char *key, int count, double *out)
{
    const json_t *list = json_object_get(r->object, key);
    if (!list || json_is_null(list)) return HIL_OK;
    bool good = (int)json_array_size(list) == count;
    for (int i = 0; i < count && good; ++i) {
        const json_t *value = json_array_get(list, (size_t)i);
        out[i] = json_is_number(value) ? json_number_value(value) : 0;
        good = out[i] >= 1e-9 && out[i] < 1e9;
    }
    if (good) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT, "%s: \"%s\" must be %d numbers above 0", r->what, key, count);
}

hil_status hil_config_mamba_sizes(const hil_config_reader *r, const hil_mamba_keys *keys)
{
    hil_config *c = r->config;
    hil_mamba_config *s = &c->mamba;
    int64_t inner = 0;
    double factor = 2;
    HIL_TRY(hil_config_size(r, keys->heads, NULL, HIL_CONFIG_HEADS_MAX, &s->heads));
    if (keys->expand) HIL_TRY(hil_config_real(r, keys->expand, 1e-3, 1e3, &factor));
    if (keys->expand) inner = (int64_t)(factor * (double)c->hidden);
    if (keys->inner) HIL_TRY(read_inner(r, keys->inner, &inner));
    HIL_TRY(read_head_dim(r, keys->head_dim, inner));
    HIL_TRY(hil_config_size(r, keys->groups, NULL, HIL_CONFIG_HEADS_MAX, &s->groups));
    HIL_TRY(hil_config_size(r, keys->states, NULL, HIL_CONFIG_HEADS_MAX, &s->states));
    HIL_TRY(hil_config_size(r, keys->kernel, NULL, KERNEL_MAX, &s->kernel));
    HIL_TRY(hil_config_bool(r, keys->kernel_bias, &s->kernel_bias));
    HIL_TRY(hil_config_bool(r, keys->bias, &s->bias));
    s->out_bias = s->bias;
    if (keys->out_bias) {
        s->out_bias = false;
        HIL_TRY(hil_config_bool(r, keys->out_bias, &s->out_bias));
    }
    HIL_TRY(check_sizes(r, keys));
    return read_limits(r);
}

const hil_mamba_keys hil_mamba_usual_keys = {.heads = "mamba_n_heads",
                                             .head_dim = "mamba_d_head",
                                             .expand = "mamba_expand",
                                             .groups = "mamba_n_groups",
                                             .states = "mamba_d_state",
                                             .kernel = "mamba_d_conv",
                                             .kernel_bias = "mamba_conv_bias",
                                             .bias = "mamba_proj_bias"};
