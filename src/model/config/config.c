/* config.c - parses config.json: finds its architecture, and reads what all of them have. */
#include "model/arch.h"
#include "model/config/config_text.h"

#include "io/file.h"

#include <stdio.h>
#include <string.h>

#define VOCAB_MAX ((int64_t)1 << 24)

static bool bit(const uint64_t *words, int64_t layer)
{
    return words[layer / 64] >> (layer % 64) & 1;
}

int64_t hil_config_key_dim(const hil_config *config)
{
    return config->latent.still + config->head_dim;
}

int64_t hil_config_value_dim(const hil_config *config)
{
    if (config->latent.value) return config->latent.value;
    return config->value_dim ? config->value_dim : config->head_dim;
}

int64_t hil_config_heads(const hil_config *config, int64_t layer)
{
    assert(layer >= 0 && layer < config->layers);
    bool local = config->local_heads && bit(config->slides, layer);
    return local ? config->local_heads : config->heads;
}

int64_t hil_config_kv_heads(const hil_config *config, int64_t layer)
{
    assert(layer >= 0 && layer < config->layers);
    bool local = config->local_kv_heads && bit(config->slides, layer);
    return local ? config->local_kv_heads : config->kv_heads;
}

int64_t hil_config_longest(const hil_config *config)
{
    int64_t chosen = config->indexer.chosen;
    return chosen && chosen < config->max_positions ? chosen : config->max_positions;
}

const char *hil_config_longest_why(const hil_config *config)
{
    if (hil_config_longest(config) == config->max_positions) return "";
    return ": beyond \"index_topk\" positions an indexer would choose the keys of each query, "
           "which is missing here";
}

bool hil_config_turns(const hil_config *config, int64_t layer)
{
    assert(layer >= 0 && layer < config->layers);
    return !bit(config->still, layer);
}

bool hil_config_linear(const hil_config *config, int64_t layer)
{
    assert(layer >= 0 && layer < config->layers);
    return bit(config->delta.layers, layer);
}

bool hil_config_convolves(const hil_config *config, int64_t layer)
{
    assert(layer >= 0 && layer < config->layers);
    return bit(config->conv.layers, layer);
}

bool hil_config_mamba(const hil_config *config, int64_t layer)
{
    assert(layer >= 0 && layer < config->layers);
    return bit(config->mamba.layers, layer);
}

bool hil_config_feeds(const hil_config *config, int64_t layer)
{
    assert(layer >= 0 && layer < config->layers);
    return !config->lone || bit(config->feeds, layer);
}

bool hil_config_attends(const hil_config *config, int64_t layer)
{
    bool other = hil_config_linear(config, layer) || hil_config_convolves(config, layer);
    bool space = hil_config_mamba(config, layer) && !config->mamba.beside;
    return hil_config_mixes(config, layer) && !other && !space;
}

bool hil_config_mixes(const hil_config *config, int64_t layer)
{
    assert(layer >= 0 && layer < config->layers);
    return !config->lone || !bit(config->feeds, layer);
}

int64_t hil_config_window(const hil_config *config, int64_t layer)
{
    assert(layer >= 0 && layer < config->layers);
    return bit(config->slides, layer) ? config->window : 0;
}

int64_t hil_config_chunk(const hil_config *config, int64_t layer)
{
    assert(layer >= 0 && layer < config->layers);
    return bit(config->chunks, layer) ? config->chunk : 0;
}

/* Refuses what would be computed wrongly without a word: unknown quantized weights, layers that
   differ, encoders, cross attention. */
static hil_status refuse_unsupported(const hil_config_reader *r)
{
    const json_t *differ = json_object_get(r->object, "per_layer_config");
    bool none =
        !differ || json_is_null(differ) || (json_is_object(differ) && !json_object_size(differ));
    if (!none && !r->config->arch->varied)
        return hil_config_refuse(r, "per_layer_config",
                                 "is set: layers that differ are not supported");
    HIL_TRY(hil_config_quant(r));
    HIL_TRY(hil_config_refuse_flag(r, "is_encoder_decoder"));
    return hil_config_refuse_flag(r, "add_cross_attention");
}

/* -1 for an id outside the vocabulary: small models often keep a large model's ids. */
static int64_t valid_id(const hil_config_reader *r, int64_t id)
{
    return id >= 0 && id < r->config->vocab ? id : -1;
}

static hil_status read_id(const hil_config_reader *r, const char *key, int64_t *out)
{
    if (json_is_null(json_object_get(r->object, key))) *out = -1;
    HIL_TRY(hil_json_int(r->object, key, r->what, out));
    *out = valid_id(r, *out);
    return HIL_OK;
}

/* Reads one id, a list of ids, or null. */
static hil_status read_eos(const hil_config_reader *r, const json_t *value)
{
    hil_config *c = r->config;
    size_t used = 0, n = json_is_array(value) ? json_array_size(value) : 1;
    for (int i = 0; i < HIL_EOS_MAX; ++i) c->eos_all[i] = -1;
    if (json_is_null(value)) return HIL_OK;
    for (size_t i = 0; i < n; ++i) {
        const json_t *item = json_is_array(value) ? json_array_get(value, i) : value;
        if (!json_is_integer(item))
            return hil_config_refuse(r, "eos_token_id", "must be an id or a list of ids");
        int64_t id = valid_id(r, json_integer_value(item));
        if (id < 0) continue;
        if (used == HIL_EOS_MAX) return hil_config_refuse(r, "eos_token_id", "is too long a list");
        c->eos_all[used++] = id;
    }
    return HIL_OK;
}

static hil_status read_ids(const hil_config_reader *r)
{
    hil_config *c = r->config;
    HIL_TRY(read_id(r, "bos_token_id", &c->bos));
    HIL_TRY(read_id(r, "pad_token_id", &c->pad));
    const json_t *value = json_object_get(r->object, "eos_token_id");
    int64_t usual = valid_id(r, c->eos);
    HIL_TRY(read_eos(r, value ? value : json_null()));
    if (!value) c->eos_all[0] = usual;
    c->eos = c->eos_all[0];
    return HIL_OK;
}

static hil_status read_dtype(const hil_config_reader *r)
{
    const char *name = "float32";
    HIL_TRY(hil_json_string(r->object, "torch_dtype", r->what, &name));
    HIL_TRY(hil_json_string(r->object, "dtype", r->what, &name));
    r->config->dtype = strcmp(name, "bfloat16") == 0  ? HIL_BF16
                       : strcmp(name, "float16") == 0 ? HIL_F16
                                                      : HIL_F32;
    return HIL_OK;
}

/* What newer models have and hilbert lacks, by a key that tells; "": nothing that is known. */
static const char *find_missing(const json_t *object)
{
    static const char *const keys[][2] = {
        {"linear_num_key_heads",
         ": it has layers with linear attention of a kind that is missing here"},
        {"linear_attn_config",
         ": it has layers with linear attention of a kind that is missing here"},
        {"mamba_d_state", ": it has state space layers (Mamba), which are missing here"},
        {"mamba_n_heads", ": it has state space layers (Mamba), which are missing here"},
        {"input_jitter_noise",
         ": its router draws experts at random while it trains, which is missing here"},
        {"index_topk", ": its attention chooses keys by an indexer, which is missing here"},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; ++i)
        if (json_object_get(object, keys[i][0])) return keys[i][1];
    return "";
}

static hil_status find_arch(const hil_config_reader *r, const hil_arch **out)
{
    const char *type = NULL;
    char supported[768]; /* messages have 1024 bytes */
    hil_arch_list(supported, sizeof supported);
    HIL_TRY(hil_json_string(r->object, "model_type", r->what, &type));
    if (!type)
        return hil_fail(HIL_ERR_INPUT,
                        "%s: \"model_type\" is missing; supported are %s (docs/models.md)", r->what,
                        supported);
    *out = hil_arch_find(type);
    if (*out) return HIL_OK;
    const char *text = NULL;
    const json_t *part = json_object_get(r->object, "text_config");
    if (json_is_object(part)) HIL_TRY(hil_json_string(part, "model_type", r->what, &text));
    return hil_fail(HIL_ERR_INPUT,
                    "%s: model_type \"%.60s\"%s%.60s%s is not supported%s; supported are %s "
                    "(docs/models.md)",
                    r->what, type, text ? ", whose text model is \"" : "", text ? text : "",
                    text ? "\"," : "", find_missing(text ? part : r->object), supported);
}

static hil_status read_config(const hil_config_reader *r)
{
    hil_config *c = r->config;
    const hil_arch *arch = NULL;
    if (!json_is_object(r->object))
        return hil_fail(HIL_ERR_INPUT, "%s: not a JSON object", r->what);
    HIL_TRY(find_arch(r, &arch));
    *c = *arch->defaults;
    c->arch = arch;
    if (c->init_std == 0) c->init_std = 0.02;
    if (c->norm_eps == 0) c->norm_eps = 1e-6;
    if (c->rope.theta == 0) c->rope.theta = 10000;
    if (c->local_rope.theta == 0) c->local_rope.theta = 10000;
    if (c->rope.factor == 0) c->rope.factor = 1;
    c->local_rope.factor = 1;
    HIL_TRY(refuse_unsupported(r));
    HIL_TRY(hil_config_size(r, "vocab_size", NULL, VOCAB_MAX, &c->vocab));
    HIL_TRY(hil_config_real(r, "initializer_range", 0, 100, &c->init_std));
    HIL_TRY(arch->read(r));
    HIL_TRY(hil_config_check_sizes(r, 0));
    HIL_TRY(read_ids(r));
    return read_dtype(r);
}

hil_status hil_config_parse(hil_config *out, const char *json, size_t size, const char *what)
{
    json_t *object;
    *out = (hil_config){0};
    HIL_TRY(hil_json_parse(json, size, what, &object));
    hil_config_text text;
    hil_status status = hil_config_text_find(object, &text);
    if (status == HIL_OK) {
        hil_config_reader r = {text.object ? text.object : object, what, out};
        status = read_config(&r);
        out->packing = text.packing;
        if (text.packed) out->mixture.packed = true, out->mixture.transposed = false;
        memcpy(out->whole, text.whole, sizeof out->whole);
        memcpy(out->left_out, text.left_out, sizeof out->left_out);
        json_decref(text.object);
    }
    json_decref(object);
    return status;
}

/* Takes the ids that end a text from generation_config.json, if that has any. */
static hil_status read_generation(hil_config *config, const char *path, hil_bytes *content)
{
    json_t *object = NULL;
    if (!hil_file_exists(path)) return HIL_OK;
    HIL_TRY(hil_bytes_read(content, path));
    hil_status status = hil_json_parse(content->data, content->size, path, &object);
    const json_t *eos = json_object_get(object, "eos_token_id");
    if (status == HIL_OK && eos && !json_is_null(eos)) {
        hil_config_reader r = {object, path, config};
        status = read_eos(&r, eos);
    }
    json_decref(object);
    return status;
}

/* Python's JSON has Infinity, as in the limits of steps; a number of as many characters that is as
   good as that takes its place. */
static void replace_infinity(hil_bytes *json)
{
    static const char word[] = "Infinity", number[] = "1e38    ";
    bool quoted = false;
    for (size_t i = 0; i < json->size; ++i) {
        char *at = json->data + i;
        if (quoted && *at == '\\')
            ++i;
        else if (*at == '"')
            quoted = !quoted;
        else if (!quoted && json->size - i >= 8 && memcmp(at, word, 8) == 0)
            memcpy(at, number, 8);
    }
}

hil_status hil_config_read(hil_config *out, const char *path, hil_bytes *config,
                           hil_bytes *generation)
{
    char file[HIL_PATH_MAX], beside[HIL_PATH_MAX];
    HIL_TRY(hil_path_join(file, path, "."));
    if (hil_file_exists(file)) {
        HIL_TRY(hil_path_join(file, path, "config.json"));
        HIL_TRY(hil_path_join(beside, path, "checkpoints/latest"));
        if (!hil_file_exists(file) && hil_file_exists(beside))
            return hil_fail(HIL_ERR_INPUT,
                            "%s: no config.json is there: not a model, or one that was not written "
                            "whole (continue its run with --resume, or make a model of its newest "
                            "checkpoint: hilbert export %s MODEL)",
                            path, path);
        if (!hil_file_exists(file))
            return hil_fail(HIL_ERR_INPUT,
                            "%s: no config.json is there: not a model, or one that was not written "
                            "whole (export it again with --overwrite, or continue its run with "
                            "--resume)",
                            path);
        HIL_TRY(hil_path_join(beside, path, "generation_config.json"));
    } else {
        const char *slash = strrchr(path, '/');
        file[strlen(path)] = 0;
        snprintf(beside, sizeof beside, "%.*s", slash ? (int)(slash - path) : 1,
                 slash ? path : ".");
        strncat(beside, "/generation_config.json", sizeof beside - strlen(beside) - 1);
    }
    HIL_TRY(hil_bytes_read(config, file));
    replace_infinity(config);
    HIL_TRY(hil_config_parse(out, config->data, config->size, file));
    bool expanded = out->mixture.packed || out->packing.method;
    if (out->whole[0] || expanded) HIL_TRY(hil_config_text_write(config));
    return read_generation(out, beside, generation);
}

hil_status hil_config_open(hil_config *out, const char *path)
{
    hil_bytes config = {0}, generation = {0};
    hil_status status = hil_config_read(out, path, &config, &generation);
    hil_bytes_free(&config);
    hil_bytes_free(&generation);
    return status;
}
