/* config.c - parses config.json: the keys of each architecture, their defaults, what is refused. */
#include "format/config.h"

#include "format/quantized.h"

#include "base/json.h"
#include "io/file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define VOCAB_MAX ((int64_t)1 << 24)
#define WIDTH_MAX ((int64_t)1 << 22)
#define HEADS_MAX ((int64_t)1 << 16)
#define POSITIONS_MAX ((int64_t)INT32_MAX)
#define PARAMETERS_MAX 0x1p50

static const char *const names[] = {"gpt2", "llama", "mistral", "qwen2", "qwen3"};

/* The defaults of transformers 5 for absent keys. kv_heads 0: as many as heads; head_dim 0: hidden
   / heads. */
static const hil_config defaults[] = {
    [HIL_GPT2] = {.activation = HIL_GELU_TANH,
                  .norm_eps = 1e-5,
                  .tied = true,
                  .attention_bias = true,
                  .output_bias = true,
                  .mlp_bias = true,
                  .dropout_embed = 0.1,
                  .dropout_residual = 0.1,
                  .dropout_attention = 0.1,
                  .bos = 50256,
                  .eos = 50256},
    [HIL_LLAMA] = {.max_positions = 2048, .bos = 1, .eos = 2},
    [HIL_MISTRAL] = {.max_positions = 131072, .kv_heads = 8, .window = 4096, .bos = 1, .eos = 2},
    [HIL_QWEN2] = {.max_positions = 32768,
                   .kv_heads = 32,
                   .window = 4096,
                   .attention_bias = true,
                   .bos = -1,
                   .eos = -1},
    [HIL_QWEN3] = {.max_positions = 32768,
                   .kv_heads = 32,
                   .head_dim = 128,
                   .window = 4096,
                   .bos = -1,
                   .eos = -1},
};

typedef struct reading {
    const json_t *object;
    const char *what;
    hil_config *config;
} reading;

const char *hil_config_supported(void)
{
    return "gpt2, llama, mistral, qwen2, qwen3";
}

const char *hil_arch_name(hil_arch arch)
{
    return names[arch];
}

static hil_status refuse(const reading *r, const char *key, const char *why)
{
    return hil_fail(HIL_ERR_INPUT, "%s: \"%s\" %s", r->what, key, why);
}

/* Reads a whole number in [1, most]. An absent key or null keeps *out, and fails if that is 0. */
static hil_status read_size(const reading *r, const char *key, int64_t most, int64_t *out)
{
    HIL_TRY(hil_json_int(r->object, key, r->what, out));
    const json_t *value = json_object_get(r->object, key);
    if (*out == 0 && (!value || json_is_null(value)))
        return hil_fail(HIL_ERR_INPUT, "%s: \"%s\" is missing", r->what, key);
    if (*out < 1 || *out > most)
        return hil_fail(HIL_ERR_INPUT, "%s: \"%s\" is %lld; it must be from 1 to %lld", r->what,
                        key, (long long)*out, (long long)most);
    return HIL_OK;
}

/* gpt2 has keys of its own and accepts the usual ones as well. */
static hil_status read_named(const reading *r, const char *gpt2, const char *usual, int64_t most,
                             int64_t *out)
{
    bool own = r->config->arch == HIL_GPT2 &&
               (json_object_get(r->object, gpt2) || !json_object_get(r->object, usual));
    return read_size(r, own ? gpt2 : usual, most, out);
}

/* Reads a number in [least, most). NaN in *out: no default. */
static hil_status read_real(const reading *r, const json_t *object, const char *key, double least,
                            double most, double *out)
{
    HIL_TRY(hil_json_real(object, key, r->what, out));
    if (isnan(*out)) return refuse(r, key, "is missing");
    if (!(*out >= least && *out < most))
        return hil_fail(HIL_ERR_INPUT, "%s: \"%s\" is %g; it must be at least %g and below %g",
                        r->what, key, *out, least, most);
    return HIL_OK;
}

static hil_status read_heads(const reading *r)
{
    hil_config *c = r->config;
    bool usual = c->arch != HIL_GPT2;
    HIL_TRY(read_named(r, "n_head", "num_attention_heads", HEADS_MAX, &c->heads));
    if (usual && json_is_null(json_object_get(r->object, "num_key_value_heads"))) c->kv_heads = 0;
    if (c->kv_heads == 0) c->kv_heads = c->heads;
    if (usual) HIL_TRY(read_size(r, "num_key_value_heads", HEADS_MAX, &c->kv_heads));
    if (c->heads % c->kv_heads != 0)
        return hil_fail(HIL_ERR_INPUT,
                        "%s: \"num_key_value_heads\" (%lld) does not divide "
                        "\"num_attention_heads\" (%lld)",
                        r->what, (long long)c->kv_heads, (long long)c->heads);
    const json_t *given = usual ? json_object_get(r->object, "head_dim") : NULL;
    if (json_is_null(given)) given = NULL;
    bool must_divide = c->arch == HIL_LLAMA || (!given && c->head_dim == 0);
    if (must_divide && c->hidden % c->heads != 0)
        return hil_fail(HIL_ERR_INPUT,
                        "%s: %lld attention heads do not divide the hidden size of %lld", r->what,
                        (long long)c->heads, (long long)c->hidden);
    if (c->head_dim == 0) c->head_dim = c->hidden / c->heads;
    if (given) HIL_TRY(read_size(r, "head_dim", HEADS_MAX, &c->head_dim));
    if (usual && c->head_dim % 2 != 0)
        return hil_fail(HIL_ERR_INPUT,
                        "%s: heads of %lld are odd; rotary embedding needs an even \"head_dim\"",
                        r->what, (long long)c->head_dim);
    if (c->heads * c->head_dim > WIDTH_MAX)
        return refuse(r, "head_dim", "times the number of heads is too large");
    return HIL_OK;
}

static hil_status read_sizes(const reading *r)
{
    hil_config *c = r->config;
    HIL_TRY(read_size(r, "vocab_size", VOCAB_MAX, &c->vocab));
    HIL_TRY(read_named(r, "n_embd", "hidden_size", WIDTH_MAX, &c->hidden));
    HIL_TRY(read_named(r, "n_layer", "num_hidden_layers", HIL_LAYERS_MAX, &c->layers));
    HIL_TRY(
        read_named(r, "n_positions", "max_position_embeddings", POSITIONS_MAX, &c->max_positions));
    HIL_TRY(read_heads(r));
    if (c->arch == HIL_GPT2) c->intermediate = 4 * c->hidden;
    HIL_TRY(read_size(r, c->arch == HIL_GPT2 ? "n_inner" : "intermediate_size", 4 * WIDTH_MAX,
                      &c->intermediate));
    double layer = 3.0 * (double)c->intermediate + 4.0 * (double)(c->heads * c->head_dim);
    double total = (double)c->hidden * (layer * (double)c->layers + (double)c->vocab);
    if (c->arch == HIL_GPT2) total += (double)c->hidden * (double)c->max_positions;
    if (total > PARAMETERS_MAX)
        return hil_fail(HIL_ERR_INPUT, "%s: these sizes make a model of %.1e parameters", r->what,
                        total);
    return HIL_OK;
}

static hil_status read_numbers(const reading *r)
{
    hil_config *c = r->config;
    bool gpt2 = c->arch == HIL_GPT2;
    const json_t *o = r->object;
    HIL_TRY(read_real(r, o, gpt2 ? "layer_norm_epsilon" : "rms_norm_eps", 1e-30, 1, &c->norm_eps));
    HIL_TRY(read_real(r, o, "initializer_range", 0, 100, &c->init_std));
    HIL_TRY(
        read_real(r, o, gpt2 ? "attn_pdrop" : "attention_dropout", 0, 1, &c->dropout_attention));
    if (gpt2) {
        HIL_TRY(read_real(r, o, "embd_pdrop", 0, 1, &c->dropout_embed));
        HIL_TRY(read_real(r, o, "resid_pdrop", 0, 1, &c->dropout_residual));
        HIL_TRY(hil_json_bool(o, "scale_attn_by_inverse_layer_idx", r->what, &c->scale_by_layer));
    }
    HIL_TRY(hil_json_bool(o, "tie_word_embeddings", r->what, &c->tied));
    if (c->arch == HIL_LLAMA || c->arch == HIL_QWEN3) {
        HIL_TRY(hil_json_bool(o, "attention_bias", r->what, &c->attention_bias));
        c->output_bias = c->attention_bias;
    }
    if (c->arch == HIL_LLAMA) HIL_TRY(hil_json_bool(o, "mlp_bias", r->what, &c->mlp_bias));
    return HIL_OK;
}

static hil_status read_activation(const reading *r)
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
    };
    hil_config *c = r->config;
    bool gpt2 = c->arch == HIL_GPT2;
    const char *key = gpt2 ? "activation_function" : "hidden_act";
    const char *name = gpt2 ? "gelu_new" : "silu";
    HIL_TRY(hil_json_string(r->object, key, r->what, &name));
    for (size_t i = 0; i < sizeof known / sizeof *known; ++i)
        if (strcmp(name, known[i].name) == 0 && gpt2 == (known[i].activation != HIL_SILU)) {
            c->activation = known[i].activation;
            return HIL_OK;
        }
    return hil_fail(HIL_ERR_INPUT, "%s: \"%s\" is \"%.40s\"; for %s only %s", r->what, key, name,
                    names[c->arch],
                    gpt2 ? "gelu, gelu_new, gelu_fast and gelu_pytorch_tanh are supported"
                         : "silu is supported");
}

/* Reads the numbers of one rope object; absent ones come from the top level. */
static hil_status read_rope_kind(const reading *r, const json_t *rope, const char *key)
{
    hil_config *c = r->config;
    const char *type = "default";
    double part = 1;
    HIL_TRY(hil_json_string(rope, "type", r->what, &type));
    HIL_TRY(hil_json_string(rope, "rope_type", r->what, &type));
    HIL_TRY(hil_json_real(rope, "partial_rotary_factor", r->what, &part));
    if (part != 1) return refuse(r, "partial_rotary_factor", "other than 1 is not supported");
    HIL_TRY(read_real(r, rope, "rope_theta", 1e-6, 1e30, &c->rope.theta));
    if (strcmp(type, "default") == 0) return HIL_OK;
    bool llama3 = strcmp(type, "llama3") == 0;
    if (!llama3 && strcmp(type, "linear") != 0)
        return hil_fail(HIL_ERR_INPUT,
                        "%s: \"%s\" has type \"%.40s\"; supported are default, linear and llama3 "
                        "(docs/models.md)",
                        r->what, key, type);
    c->rope.kind = llama3 ? HIL_ROPE_LLAMA3 : HIL_ROPE_LINEAR;
    c->rope.factor = NAN;
    HIL_TRY(read_real(r, rope, "factor", 1e-6, 1e9, &c->rope.factor));
    if (!llama3) return HIL_OK;
    c->rope.low_freq = c->rope.high_freq = NAN;
    HIL_TRY(read_real(r, rope, "low_freq_factor", 1e-6, 1e9, &c->rope.low_freq));
    HIL_TRY(read_real(r, rope, "high_freq_factor", 1e-6, 1e9, &c->rope.high_freq));
    if (c->rope.high_freq <= c->rope.low_freq)
        return refuse(r, "high_freq_factor", "must be above \"low_freq_factor\"");
    c->rope.original_positions = c->max_positions;
    reading inner = {rope, r->what, c};
    HIL_TRY(read_size(&inner, "original_max_position_embeddings", POSITIONS_MAX,
                      &c->rope.original_positions));
    return read_size(r, "original_max_position_embeddings", POSITIONS_MAX,
                     &c->rope.original_positions);
}

static hil_status read_rope(const reading *r)
{
    hil_config *c = r->config;
    const char *key = "rope_scaling";
    json_t *rope = json_object_get(r->object, key), *value;
    const char *name;
    double part = 1;
    c->rope.theta = 10000;
    c->rope.factor = 1;
    if (c->arch == HIL_GPT2) return HIL_OK;
    HIL_TRY(read_real(r, r->object, "rope_theta", 1e-6, 1e30, &c->rope.theta));
    HIL_TRY(hil_json_real(r->object, "partial_rotary_factor", r->what, &part));
    if (part != 1) return refuse(r, "partial_rotary_factor", "other than 1 is not supported");
    if (!rope || json_is_null(rope) || (json_is_object(rope) && json_object_size(rope) == 0)) {
        key = "rope_parameters";
        rope = json_object_get(r->object, key);
    }
    if (!rope || json_is_null(rope)) return HIL_OK;
    if (!json_is_object(rope)) return refuse(r, key, "must be an object");
    json_object_foreach(rope, name, value) if (json_is_object(value)) return refuse(
        r, key, "per layer type is not supported");
    return read_rope_kind(r, rope, key);
}

static hil_status read_layer_types(const reading *r, const json_t *types)
{
    hil_config *c = r->config;
    if (!json_is_array(types)) return refuse(r, "layer_types", "must be a list");
    if ((int64_t)json_array_size(types) != c->layers)
        return hil_fail(HIL_ERR_INPUT, "%s: \"layer_types\" has %zu entries for %lld layers",
                        r->what, json_array_size(types), (long long)c->layers);
    for (int64_t i = 0; i < c->layers; ++i) {
        const char *type = json_string_value(json_array_get(types, (size_t)i));
        bool slides = type && strcmp(type, "sliding_attention") == 0;
        bool full = type && (!strcmp(type, "full_attention") || !strcmp(type, "attention"));
        if (!slides && !full)
            return hil_fail(HIL_ERR_INPUT,
                            "%s: \"layer_types\" has \"%.40s\"; supported are full_attention and "
                            "sliding_attention",
                            r->what, type ? type : "");
        if (slides && c->window == 0)
            return refuse(r, "layer_types", "has sliding_attention, but no window is switched on");
        if (slides) c->slides[i / 64] |= (uint64_t)1 << (i % 64);
    }
    return HIL_OK;
}

static hil_status read_window(const reading *r)
{
    hil_config *c = r->config;
    if (c->arch == HIL_GPT2 || c->arch == HIL_LLAMA) return HIL_OK;
    bool use = c->arch == HIL_MISTRAL;
    int64_t first = use ? 0 : 28;
    if (!use) {
        HIL_TRY(hil_json_bool(r->object, "use_sliding_window", r->what, &use));
        HIL_TRY(hil_json_int(r->object, "max_window_layers", r->what, &first));
    }
    if (!use || json_is_null(json_object_get(r->object, "sliding_window"))) c->window = 0;
    if (c->window) HIL_TRY(read_size(r, "sliding_window", INT64_MAX, &c->window));
    const json_t *types = json_object_get(r->object, "layer_types");
    if (c->arch != HIL_MISTRAL && types && !json_is_null(types)) {
        HIL_TRY(read_layer_types(r, types));
    } else if (c->window) {
        for (int64_t i = first > 0 ? first : 0; i < c->layers; ++i)
            c->slides[i / 64] |= (uint64_t)1 << (i % 64);
    }
    return HIL_OK;
}

int64_t hil_config_window(const hil_config *config, int64_t layer)
{
    assert(layer >= 0 && layer < config->layers);
    return config->slides[layer / 64] >> (layer % 64) & 1 ? config->window : 0;
}

/* Refuses what would be computed wrongly without a word: unknown quantized weights, layers that
   differ, encoders, cross attention, scores that are not scaled. */
static hil_status refuse_unsupported(const reading *r)
{
    const json_t *differ = json_object_get(r->object, "per_layer_config");
    if (differ && !json_is_null(differ) && !(json_is_object(differ) && !json_object_size(differ)))
        return refuse(r, "per_layer_config", "is set: layers that differ are not supported");
    HIL_TRY(hil_quantized_method(json_object_get(r->object, "quantization_config"), r->what,
                                 &r->config->quant));
    bool cross = false, encoder = false, scaled = true;
    HIL_TRY(hil_json_bool(r->object, "is_encoder_decoder", r->what, &encoder));
    HIL_TRY(hil_json_bool(r->object, "add_cross_attention", r->what, &cross));
    if (encoder) return refuse(r, "is_encoder_decoder", "is true, which is not supported");
    if (cross) return refuse(r, "add_cross_attention", "is true, which is not supported");
    if (r->config->arch == HIL_GPT2)
        HIL_TRY(hil_json_bool(r->object, "scale_attn_weights", r->what, &scaled));
    if (!scaled) return refuse(r, "scale_attn_weights", "is false, which is not supported");
    return HIL_OK;
}

/* -1 for an id outside the vocabulary: small models often keep a large model's ids. */
static int64_t valid_id(const reading *r, int64_t id)
{
    return id >= 0 && id < r->config->vocab ? id : -1;
}

static hil_status read_id(const reading *r, const char *key, int64_t *out)
{
    if (json_is_null(json_object_get(r->object, key))) *out = -1;
    HIL_TRY(hil_json_int(r->object, key, r->what, out));
    *out = valid_id(r, *out);
    return HIL_OK;
}

/* Reads one id, a list of ids, or null. */
static hil_status read_eos(const reading *r, const json_t *value)
{
    hil_config *c = r->config;
    size_t used = 0, n = json_is_array(value) ? json_array_size(value) : 1;
    for (int i = 0; i < HIL_EOS_MAX; ++i) c->eos_all[i] = -1;
    if (json_is_null(value)) return HIL_OK;
    for (size_t i = 0; i < n; ++i) {
        const json_t *item = json_is_array(value) ? json_array_get(value, i) : value;
        if (!json_is_integer(item))
            return refuse(r, "eos_token_id", "must be an id or a list of ids");
        int64_t id = valid_id(r, json_integer_value(item));
        if (id < 0) continue;
        if (used == HIL_EOS_MAX) return refuse(r, "eos_token_id", "is too long a list");
        c->eos_all[used++] = id;
    }
    return HIL_OK;
}

static hil_status read_ids(const reading *r)
{
    hil_config *c = r->config;
    c->pad = -1;
    HIL_TRY(read_id(r, "bos_token_id", &c->bos));
    HIL_TRY(read_id(r, "pad_token_id", &c->pad));
    const json_t *value = json_object_get(r->object, "eos_token_id");
    int64_t usual = valid_id(r, c->eos);
    HIL_TRY(read_eos(r, value ? value : json_null()));
    if (!value) c->eos_all[0] = usual;
    c->eos = c->eos_all[0];
    return HIL_OK;
}

static hil_status read_dtype(const reading *r)
{
    const char *name = "float32";
    HIL_TRY(hil_json_string(r->object, "torch_dtype", r->what, &name));
    HIL_TRY(hil_json_string(r->object, "dtype", r->what, &name));
    r->config->dtype = strcmp(name, "bfloat16") == 0  ? HIL_BF16
                       : strcmp(name, "float16") == 0 ? HIL_F16
                                                      : HIL_F32;
    return HIL_OK;
}

static hil_status read_config(const reading *r)
{
    const char *type = NULL;
    if (!json_is_object(r->object))
        return hil_fail(HIL_ERR_INPUT, "%s: not a JSON object", r->what);
    HIL_TRY(hil_json_string(r->object, "model_type", r->what, &type));
    if (!type)
        return hil_fail(HIL_ERR_INPUT,
                        "%s: \"model_type\" is missing; supported are %s (docs/models.md)", r->what,
                        hil_config_supported());
    size_t arch = 0;
    while (arch < sizeof names / sizeof *names && strcmp(type, names[arch]) != 0) ++arch;
    if (arch == sizeof names / sizeof *names)
        return hil_fail(
            HIL_ERR_INPUT,
            "%s: model_type \"%.60s\" is not supported; supported are %s (docs/models.md)", r->what,
            type, hil_config_supported());
    *r->config = defaults[arch];
    r->config->arch = (hil_arch)arch;
    r->config->init_std = 0.02;
    if (r->config->norm_eps == 0) r->config->norm_eps = 1e-6;
    HIL_TRY(refuse_unsupported(r));
    HIL_TRY(read_sizes(r));
    HIL_TRY(read_numbers(r));
    HIL_TRY(read_activation(r));
    HIL_TRY(read_rope(r));
    HIL_TRY(read_window(r));
    HIL_TRY(read_ids(r));
    return read_dtype(r);
}

hil_status hil_config_parse(hil_config *out, const char *json, size_t size, const char *what)
{
    json_t *object;
    *out = (hil_config){0};
    HIL_TRY(hil_json_parse(json, size, what, &object));
    reading r = {object, what, out};
    hil_status status = read_config(&r);
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
        reading r = {object, path, config};
        status = read_eos(&r, eos);
    }
    json_decref(object);
    return status;
}

hil_status hil_config_read(hil_config *out, const char *path, hil_bytes *config,
                           hil_bytes *generation)
{
    char file[HIL_PATH_MAX], beside[HIL_PATH_MAX];
    HIL_TRY(hil_path_join(file, path, "."));
    if (hil_file_exists(file)) {
        HIL_TRY(hil_path_join(file, path, "config.json"));
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
    HIL_TRY(hil_config_parse(out, config->data, config->size, file));
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
