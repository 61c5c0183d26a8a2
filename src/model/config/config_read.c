/* config_read.c - reads the keys of config.json that architectures share. */
#include "model/arch.h"

#include <math.h>
#include <string.h>

#define PARAMETERS_MAX 0x1p50

hil_status hil_config_refuse(const hil_config_reader *r, const char *key, const char *why)
{
    return hil_fail(HIL_ERR_INPUT, "%s: \"%s\" %s", r->what, key, why);
}

static bool has(const hil_config_reader *r, const char *key)
{
    const json_t *value = json_object_get(r->object, key);
    return value && !json_is_null(value);
}

hil_status hil_config_size(const hil_config_reader *r, const char *key, const char *other,
                           int64_t most, int64_t *out)
{
    if (other && !json_object_get(r->object, key) && json_object_get(r->object, other)) key = other;
    HIL_TRY(hil_json_int(r->object, key, r->what, out));
    if (*out == 0 && !has(r, key))
        return hil_fail(HIL_ERR_INPUT, "%s: \"%s\" is missing", r->what, key);
    if (*out < 1 || *out > most)
        return hil_fail(HIL_ERR_INPUT, "%s: \"%s\" is %lld; it must be from 1 to %lld", r->what,
                        key, (long long)*out, (long long)most);
    return HIL_OK;
}

hil_status hil_config_real(const hil_config_reader *r, const char *key, double least, double most,
                           double *out)
{
    HIL_TRY(hil_json_real(r->object, key, r->what, out));
    if (isnan(*out)) return hil_config_refuse(r, key, "is missing");
    if (!(*out >= least && *out < most))
        return hil_fail(HIL_ERR_INPUT, "%s: \"%s\" is %g; it must be at least %g and below %g",
                        r->what, key, *out, least, most);
    return HIL_OK;
}

static hil_status rename_keys(const hil_config_reader *r, const char *const names[][2],
                              json_t *object)
{
    for (size_t i = 0; names[i][0]; ++i) {
        json_t *value = json_object_get(object, names[i][0]);
        json_t *other = json_object_get(object, names[i][1]);
        if (value && other && !json_equal(value, other))
            return hil_config_refuse(r, names[i][0], "is there under another name, too");
        if (value && json_object_set(object, names[i][1], value) != 0)
            return hil_fail(HIL_ERR_MEMORY, "%s: out of memory", r->what);
    }
    return HIL_OK;
}

hil_status hil_config_rename(const hil_config_reader *r, const char *const names[][2], json_t **out)
{
    *out = json_copy((json_t *)(uintptr_t)r->object);
    if (!*out) return hil_fail(HIL_ERR_MEMORY, "%s: out of memory", r->what);
    hil_status status = rename_keys(r, names, *out);
    if (status != HIL_OK) json_decref(*out);
    return status;
}

hil_status hil_config_bool(const hil_config_reader *r, const char *key, bool *out)
{
    return hil_json_bool(r->object, key, r->what, out);
}

hil_status hil_config_refuse_flag(const hil_config_reader *r, const char *key)
{
    bool on = false;
    HIL_TRY(hil_config_bool(r, key, &on));
    return on ? hil_config_refuse(r, key, "is true, which is not supported") : HIL_OK;
}

hil_status hil_config_refuse_number(const hil_config_reader *r, const char *key)
{
    double number = 0;
    HIL_TRY(hil_json_real(r->object, key, r->what, &number));
    return number == 0 ? HIL_OK : hil_config_refuse(r, key, "other than 0 is not supported");
}

static hil_status read_heads(const hil_config_reader *r, bool must_divide)
{
    hil_config *c = r->config;
    HIL_TRY(hil_config_size(r, "num_attention_heads", NULL, HIL_CONFIG_HEADS_MAX, &c->heads));
    if (json_is_null(json_object_get(r->object, "num_key_value_heads"))) c->kv_heads = 0;
    if (c->kv_heads == 0) c->kv_heads = c->heads;
    HIL_TRY(hil_config_size(r, "num_key_value_heads", NULL, HIL_CONFIG_HEADS_MAX, &c->kv_heads));
    if (c->heads % c->kv_heads != 0)
        return hil_fail(HIL_ERR_INPUT,
                        "%s: \"num_key_value_heads\" (%lld) does not divide "
                        "\"num_attention_heads\" (%lld)",
                        r->what, (long long)c->kv_heads, (long long)c->heads);
    bool given = has(r, "head_dim");
    if (json_is_null(json_object_get(r->object, "head_dim"))) c->head_dim = 0;
    if ((must_divide || (!given && c->head_dim == 0)) && c->hidden % c->heads != 0)
        return hil_fail(HIL_ERR_INPUT,
                        "%s: %lld attention heads do not divide the hidden size of %lld", r->what,
                        (long long)c->heads, (long long)c->hidden);
    if (c->head_dim == 0) c->head_dim = c->hidden / c->heads;
    if (given) HIL_TRY(hil_config_size(r, "head_dim", NULL, HIL_CONFIG_HEADS_MAX, &c->head_dim));
    if (c->head_dim % 2 != 0)
        return hil_fail(HIL_ERR_INPUT,
                        "%s: heads of %lld are odd; rotary embedding needs an even \"head_dim\"",
                        r->what, (long long)c->head_dim);
    if (c->heads * c->head_dim > HIL_CONFIG_WIDTH_MAX)
        return hil_config_refuse(r, "head_dim", "times the number of heads is too large");
    return HIL_OK;
}

hil_status hil_config_check_sizes(const hil_config_reader *r, int64_t positions)
{
    const hil_config *c = r->config;
    const hil_mixture_config *m = &c->mixture;
    const hil_delta_config *d = &c->delta;
    int64_t heads = c->heads > c->local_heads ? c->heads : c->local_heads;
    double layer = 3.0 * (double)c->intermediate + 4.0 * (double)heads * (double)c->head_dim +
                   3.0 * ((double)m->experts * (double)m->width + (double)m->shared);
    layer += (double)d->heads * (2.0 * (double)d->key_dim + 3.0 * (double)d->value_dim);
    layer += (double)c->indexer.heads * (double)c->indexer.head_dim;
    layer += 3.0 * (double)c->mamba.heads * (double)c->mamba.head_dim;
    double total = (double)c->hidden * (layer * (double)c->layers + (double)c->vocab);
    total += (double)c->hidden * (double)positions;
    if (total > PARAMETERS_MAX)
        return hil_fail(HIL_ERR_INPUT, "%s: these sizes make a model of %.1e parameters", r->what,
                        total);
    return HIL_OK;
}

hil_status hil_config_sizes(const hil_config_reader *r, bool must_divide)
{
    hil_config *c = r->config;
    HIL_TRY(hil_config_size(r, "hidden_size", NULL, HIL_CONFIG_WIDTH_MAX, &c->hidden));
    HIL_TRY(hil_config_size(r, "num_hidden_layers", NULL, HIL_LAYERS_MAX, &c->layers));
    HIL_TRY(hil_config_size(r, "max_position_embeddings", NULL, HIL_CONFIG_POSITIONS_MAX,
                            &c->max_positions));
    HIL_TRY(read_heads(r, must_divide));
    HIL_TRY(
        hil_config_size(r, "intermediate_size", NULL, 4 * HIL_CONFIG_WIDTH_MAX, &c->intermediate));
    return HIL_OK;
}

hil_status hil_config_sizes_under(const hil_config_reader *r, const hil_config_size_keys *keys)
{
    hil_config *c = r->config;
    HIL_TRY(hil_config_size(r, keys->hidden[0], keys->hidden[1], HIL_CONFIG_WIDTH_MAX, &c->hidden));
    HIL_TRY(hil_config_size(r, keys->layers[0], keys->layers[1], HIL_LAYERS_MAX, &c->layers));
    HIL_TRY(hil_config_size(r, keys->heads[0], keys->heads[1], HIL_CONFIG_HEADS_MAX, &c->heads));
    if (keys->positions[0])
        HIL_TRY(hil_config_size(r, keys->positions[0], keys->positions[1], HIL_CONFIG_POSITIONS_MAX,
                                &c->max_positions));
    if (!c->intermediate) c->intermediate = 4 * c->hidden;
    if (keys->intermediate[0])
        HIL_TRY(hil_config_size(r, keys->intermediate[0], keys->intermediate[1],
                                4 * HIL_CONFIG_WIDTH_MAX, &c->intermediate));
    if (c->hidden % c->heads != 0)
        return hil_fail(HIL_ERR_INPUT, "%s: \"%s\" does not divide \"%s\"", r->what, keys->heads[0],
                        keys->hidden[0]);
    c->kv_heads = c->heads;
    c->head_dim = c->hidden / c->heads;
    return hil_config_check_sizes(r, c->max_positions);
}

hil_status hil_config_numbers(const hil_config_reader *r, const char *eps)
{
    hil_config *c = r->config;
    HIL_TRY(hil_config_real(r, eps, 1e-30, 1, &c->norm_eps));
    HIL_TRY(hil_config_real(r, "attention_dropout", 0, 1, &c->dropout_attention));
    return hil_config_bool(r, "tie_word_embeddings", &c->tied);
}

hil_status hil_config_dropouts(const hil_config_reader *r)
{
    HIL_TRY(hil_config_real(r, "embd_pdrop", 0, 1, &r->config->dropout_embed));
    return hil_config_real(r, "resid_pdrop", 0, 1, &r->config->dropout_residual);
}

hil_status hil_config_attention_bias(const hil_config_reader *r)
{
    HIL_TRY(hil_config_bool(r, "attention_bias", &r->config->attention_bias));
    r->config->output_bias = r->config->attention_bias;
    return HIL_OK;
}

hil_status hil_config_activation(const hil_config_reader *r, const char *key, unsigned kinds)
{
    static const struct {
        const char *name;
        hil_activation activation;
    } known[] = {
        {"gelu_new", HIL_GELU_TANH},
        {"gelu_pytorch_tanh", HIL_GELU_TANH},
        {"gelu_python_tanh", HIL_GELU_TANH},
        {"gelu_fast", HIL_GELU_TANH},
        {"gelu_accurate", HIL_GELU_TANH},
        {"gelu", HIL_GELU},
        {"gelu_python", HIL_GELU},
        {"silu", HIL_SILU},
        {"swish", HIL_SILU},
        {"relu", HIL_RELU},
        {"relu2", HIL_RELU_SQUARED},
        {"xielu", HIL_XIELU},
    };
    const char *name = NULL;
    HIL_TRY(hil_json_string(r->object, key, r->what, &name));
    if (!name) return HIL_OK;
    for (size_t i = 0; i < sizeof known / sizeof *known; ++i)
        if (strcmp(name, known[i].name) == 0 && kinds >> known[i].activation & 1) {
            r->config->activation = known[i].activation;
            return HIL_OK;
        }
    const char *only = kinds == 1u << HIL_SILU         ? "silu is supported"
                       : kinds >> HIL_RELU_SQUARED & 1 ? "relu2 is supported"
                       : kinds >> HIL_XIELU & 1        ? "xielu is supported"
                       : kinds >> HIL_RELU & 1
                           ? "relu, gelu, gelu_new, gelu_fast and gelu_pytorch_tanh are supported"
                       : kinds >> HIL_SILU & 1
                           ? "silu, gelu, gelu_new, gelu_fast and gelu_pytorch_tanh are supported"
                           : "gelu, gelu_new, gelu_fast and gelu_pytorch_tanh are supported";
    return hil_fail(HIL_ERR_INPUT, "%s: \"%s\" is \"%.40s\"; for %s only %s", r->what, key, name,
                    r->config->arch->name, only);
}

hil_status hil_config_sliding_window(const hil_config_reader *r, bool use)
{
    hil_config *c = r->config;
    const json_t *given = json_object_get(r->object, "sliding_window");
    if (!use || json_is_null(given)) c->window = 0;
    if (!use || (!c->window && !json_is_integer(given))) return HIL_OK;
    return hil_config_size(r, "sliding_window", NULL, INT64_MAX, &c->window);
}

static void set_slides(hil_config *c, int64_t layer)
{
    c->slides[layer / 64] |= (uint64_t)1 << (layer % 64);
}

void hil_config_slide_from(hil_config *c, int64_t first)
{
    for (int64_t i = first > 0 ? first : 0; c->window && i < c->layers; ++i) set_slides(c, i);
}

void hil_config_slide_between(hil_config *c, int64_t period)
{
    for (int64_t i = 0; c->window && i < c->layers; ++i)
        if ((i + 1) % period) set_slides(c, i);
}

/* One entry of layer_types. */
static hil_status set_type(const hil_config_reader *r, int64_t layer, const char *type)
{
    hil_config *c = r->config;
    const char *other = c->delta.key_heads || c->mamba.heads ? "linear_attention"
                        : c->conv.kernel                     ? "conv"
                        : c->chunk                           ? "chunked_attention"
                                                             : "sliding_attention";
    bool slides = !strcmp(type, "sliding_attention"), special = !slides && !strcmp(type, other);
    if (c->chunk && !strcmp(type, "chunked_attention")) {
        c->chunks[layer / 64] |= (uint64_t)1 << (layer % 64);
        return HIL_OK;
    }
    bool full = !strcmp(type, "full_attention") || !strcmp(type, "attention");
    uint64_t *layers = c->mamba.heads       ? c->mamba.layers
                       : c->delta.key_heads ? c->delta.layers
                                            : c->conv.layers;
    if (c->mamba.heads && !strcmp(type, "mamba")) special = true; /* in older files */
    if (!slides && !full && !special)
        return hil_fail(
            HIL_ERR_INPUT,
            "%s: \"layer_types\" has \"%.40s\"; for %s only full_attention%s and %s are "
            "supported",
            r->what, type, c->arch->name,
            c->window && strcmp(other, "sliding_attention") != 0 ? ", sliding_attention" : "",
            other);
    if (slides && c->window == 0)
        return hil_config_refuse(r, "layer_types",
                                 "has sliding_attention, but no window is switched on");
    if (slides) set_slides(c, layer);
    if (special) layers[layer / 64] |= (uint64_t)1 << (layer % 64);
    return HIL_OK;
}

hil_status hil_config_layer_types(const hil_config_reader *r)
{
    hil_config *c = r->config;
    const json_t *types = json_object_get(r->object, "layer_types");
    if (!types || json_is_null(types)) return HIL_OK;
    memset(c->slides, 0, sizeof c->slides);
    memset(c->chunks, 0, sizeof c->chunks);
    memset(c->delta.layers, 0, sizeof c->delta.layers);
    memset(c->conv.layers, 0, sizeof c->conv.layers);
    memset(c->mamba.layers, 0, sizeof c->mamba.layers);
    if (!json_is_array(types)) return hil_config_refuse(r, "layer_types", "must be a list");
    if ((int64_t)json_array_size(types) != c->layers)
        return hil_fail(HIL_ERR_INPUT, "%s: \"layer_types\" has %zu entries for %lld layers",
                        r->what, json_array_size(types), (long long)c->layers);
    for (int64_t i = 0; i < c->layers; ++i) {
        const char *type = json_string_value(json_array_get(types, (size_t)i));
        HIL_TRY(set_type(r, i, type ? type : ""));
    }
    return HIL_OK;
}
