/* config_text.c - the text model in the config.json of a model that has images or sounds, too. */
#include "model/arch.h"
#include "model/config/config_text.h"

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Text models under names of their own, which compute what the second does where there is only
   text; `whole`: the name of the model whose older files have the keys of both parts together. */
static const struct {
    const char *name, *same, *whole;
} aliases[] = {
    {"qwen2_vl_text", "qwen2", "qwen2_vl"},
    {"qwen2_5_vl_text", "qwen2", "qwen2_5_vl"},
    {"qwen3_vl_text", "qwen3", NULL},
};
enum { ALIASES = sizeof aliases / sizeof *aliases };

static const char *type_of(const json_t *object)
{
    const char *type = json_string_value(json_object_get(object, "model_type"));
    return type ? type : "";
}

/* The supported architecture of a text model; NULL: none. */
static const hil_arch *find_text(const char *type)
{
    for (int i = 0; i < ALIASES; ++i)
        if (strcmp(type, aliases[i].name) == 0) return hil_arch_find(aliases[i].same);
    return hil_arch_find(type);
}

static const hil_arch *find_whole(const json_t *object)
{
    for (int i = 0; i < ALIASES; ++i)
        if (aliases[i].whole && strcmp(type_of(object), aliases[i].whole) == 0 &&
            json_object_get(object, "hidden_size"))
            return hil_arch_find(aliases[i].same);
    return NULL;
}

/* Rotary embedding in three directions turns text as the usual one does, with the same scaling. */
static void straighten(json_t *text, const char *key)
{
    json_t *rope = json_deep_copy(json_object_get(text, key));
    if (json_is_object(rope) && json_object_get(rope, "mrope_section")) {
        const char *type = json_string_value(json_object_get(rope, "rope_type"));
        if (!type) type = json_string_value(json_object_get(rope, "type"));
        json_object_set_new(rope, "rope_type",
                            json_string(type && strcmp(type, "mrope") != 0 ? type : "default"));
        json_object_del(rope, "mrope_section");
        json_object_del(rope, "mrope_interleaved");
        json_object_del(rope, "type");
        json_object_set(text, key, rope);
    }
    json_decref(rope);
}

/* Copies what is said of the whole model and holds for its text model. The head belongs to the
   whole, which decides whether it is tied. */
static void inherit(json_t *text, const json_t *object)
{
    json_t *tied = json_object_get(object, "tie_word_embeddings");
    if (tied) json_object_set(text, "tie_word_embeddings", tied);
    static const char *const keys[] = {"dtype",        "torch_dtype",  "bos_token_id",
                                       "eos_token_id", "pad_token_id", "quantization_config"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; ++i) {
        json_t *value = json_object_get(object, keys[i]);
        if (value && !json_object_get(text, keys[i])) json_object_set(text, keys[i], value);
    }
}

static void list_left_out(const json_t *object, char out[HIL_CONFIG_LEFT_OUT])
{
    const char *key;
    json_t *value;
    size_t used = 0;
    out[0] = 0;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        size_t size = strlen(key), end = sizeof "_config" - 1;
        if (size <= end || strcmp(key + size - end, "_config") != 0 || !json_is_object(value) ||
            strcmp(key, "text_config") == 0 || strcmp(key, "quantization_config") == 0)
            continue;
        if (used < HIL_CONFIG_LEFT_OUT)
            used += (size_t)snprintf(out + used, HIL_CONFIG_LEFT_OUT - used, "%s%.*s",
                                     used ? ", " : "", (int)(size - end), key);
    }
}

static hil_status refuse_form(const char *method, const char *what)
{
    return hil_fail(HIL_ERR_INPUT,
                    "config.json: weights of %s with %s are not supported; take the original model "
                    "with --base-dtype nf4",
                    method, what);
}

/* The form of the weights of GPTQ or AWQ; none for any other method. */
static hil_status read_packing(const json_t *quantized, const char *method, hil_quant_packing *out)
{
    static const char what[] = "config.json: quantization_config";
    const char *form = NULL;
    int64_t bits = 0, group = 128;
    bool zeros = true, awq = strcmp(method, "awq") == 0;
    if (!awq && strcmp(method, "gptq") != 0) return HIL_OK;
    HIL_TRY(hil_json_int(quantized, "bits", what, &bits));
    HIL_TRY(hil_json_int(quantized, "group_size", what, &group));
    HIL_TRY(hil_json_string(quantized, "format", what, &form));
    HIL_TRY(hil_json_string(quantized, awq ? "version" : "checkpoint_format", what, &form));
    HIL_TRY(hil_json_bool(quantized, "zero_point", what, &zeros));
    if (!form) form = awq ? "gemm" : "gptq";
    if (bits != 4 && (awq || (bits != 2 && bits != 8)))
        return refuse_form(method, awq ? "other than 4 bits" : "other than 2, 4 or 8 bits");
    if (group < -1 || group == 0) return refuse_form(method, "groups of that size");
    if (!zeros) return refuse_form(method, "no zeros");
    bool first = strcasecmp(form, "gptq") == 0, second = strcasecmp(form, "gptq_v2") == 0;
    if (awq ? strcasecmp(form, "gemm") != 0 : !first && !second)
        return refuse_form(method, awq ? "another version than gemm"
                                       : "another checkpoint_format than gptq or gptq_v2");
    *out = (hil_quant_packing){awq ? HIL_PACKING_AWQ : HIL_PACKING_GPTQ, (int)bits, group,
                               !awq && first};
    return HIL_OK;
}

/* Experts in MXFP4, and matrices of GPTQ and AWQ, are expanded when they are read: nothing is
   quantized then. */
static hil_status unpack(const json_t *object, hil_config_text *out)
{
    const json_t *quantized = json_object_get(object, "quantization_config");
    const char *method = json_string_value(json_object_get(quantized, "quant_method"));
    if (!method) return HIL_OK;
    HIL_TRY(read_packing(quantized, method, &out->packing));
    out->packed = strcmp(method, "mxfp4") == 0 && strcmp(type_of(object), "gpt_oss") == 0;
    if (!out->packed && !out->packing.method) return HIL_OK;
    out->object = json_copy((json_t *)(uintptr_t)object);
    if (!out->object) return hil_fail(HIL_ERR_MEMORY, "out of memory: config.json");
    json_object_del(out->object, "quantization_config");
    if (out->packed && !json_object_get(object, "dtype") && !json_object_get(object, "torch_dtype"))
        json_object_set_new(out->object, "dtype", json_string("bfloat16"));
    return HIL_OK;
}

/* The same of a text model that has inherited quantization_config. Releases it on failure. */
static hil_status unpack_text(hil_config_text *out)
{
    const json_t *quantized = json_object_get(out->object, "quantization_config");
    const char *method = json_string_value(json_object_get(quantized, "quant_method"));
    hil_status status = method ? read_packing(quantized, method, &out->packing) : HIL_OK;
    if (out->packing.method) json_object_del(out->object, "quantization_config");
    if (status == HIL_OK) return HIL_OK;
    json_decref(out->object);
    out->object = NULL;
    return status;
}

hil_status hil_config_text_find(const json_t *object, hil_config_text *out)
{
    const json_t *part = json_object_get(object, "text_config");
    *out = (hil_config_text){0};
    if (!json_is_object(object)) return HIL_OK;
    if (hil_arch_find(type_of(object))) return unpack(object, out);
    const hil_arch *arch = json_is_object(part) ? find_text(type_of(part)) : find_whole(object);
    if (!arch) return HIL_OK;
    out->object = json_copy((json_t *)(uintptr_t)(json_is_object(part) ? part : object));
    if (!out->object) return hil_fail(HIL_ERR_MEMORY, "out of memory: config.json");
    json_object_del(out->object, "architectures");
    json_object_del(out->object, "vision_config");
    json_object_set_new(out->object, "model_type", json_string(arch->name));
    inherit(out->object, object);
    straighten(out->object, "rope_scaling");
    straighten(out->object, "rope_parameters");
    snprintf(out->whole, sizeof out->whole, "%s", type_of(object));
    list_left_out(object, out->left_out);
    return unpack_text(out);
}

hil_status hil_config_text_write(hil_bytes *bytes)
{
    json_t *object = NULL;
    hil_config_text text = {0};
    char *dump = NULL, *copy = NULL;
    hil_status status;
    HIL_TRY_DONE(hil_json_parse(bytes->data, bytes->size, "config.json", &object));
    HIL_TRY_DONE(hil_config_text_find(object, &text));
    if (!text.object) goto done;
    dump = json_dumps(text.object, JSON_INDENT(2));
    if (!dump) HIL_TRY_DONE(hil_fail(HIL_ERR_MEMORY, "out of memory: config.json"));
    HIL_TRY_DONE(hil_text_copy(dump, &copy));
    hil_bytes_free(bytes);
    *bytes = (hil_bytes){.data = copy, .size = strlen(copy)};
done:
    free(dump);
    json_decref(text.object);
    json_decref(object);
    return status;
}
