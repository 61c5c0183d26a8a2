/* peft.c - reads and writes adapter_config.json. */
#include "format/peft.h"

#include "base/hash.h"
#include "io/file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Keys that are honoured, or that do not change what an adapter computes. A layer's matrix knows
   itself whether files hold it transposed (fan_in_fan_out). */
static const char *const known[] = {
    "alpha_pattern",
    "auto_mapping",
    "base_model_name_or_path",
    "bias",
    "exclude_modules",
    "fan_in_fan_out",
    "inference_mode",
    "init_lora_weights",
    "layers_pattern",
    "layers_to_transform",
    "lora_alpha",
    "lora_dropout",
    "megatron_core",
    "modules_to_save",
    "peft_type",
    "peft_version",
    "qalora_group_size",
    "r",
    "rank_pattern",
    "revision",
    "target_modules",
    "target_parameters",
    "task_type",
    "use_dora",
    "use_rslora",
};

static bool is_known(const char *key)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; ++i)
        if (strcmp(known[i], key) == 0) return true;
    return false;
}

/* Whether the value of a key says that it is not used. */
static bool is_unused(const json_t *value)
{
    return json_is_null(value) || json_is_false(value) ||
           (json_is_object(value) && !json_object_size(value)) ||
           (json_is_array(value) && !json_array_size(value));
}

hil_status hil_peft_refuse(const char *what, const char *key, const json_t *value)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    hil_status status =
        hil_fail(HIL_ERR_INPUT, "%s: %s %.60s is not supported", what, key, text ? text : "");
    free(text);
    return status;
}

static hil_status check_keys(const json_t *root, const char *what)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)root, key, value)
    {
        if (!is_known(key) && !is_unused(value)) return hil_peft_refuse(what, key, value);
    }
    return HIL_OK;
}

/* The value of `key` must be one of these words. */
static hil_status read_word(const json_t *root, const char *key, const char *what,
                            const char *const *word, size_t words, size_t *out)
{
    const char *text = NULL;
    HIL_TRY(hil_json_string(root, key, what, &text));
    for (size_t i = 0; i < words; ++i)
        if (text && strcmp(text, word[i]) == 0) {
            *out = i;
            return HIL_OK;
        }
    return text ? hil_peft_refuse(what, key, json_object_get(root, key)) : HIL_OK;
}

/* Other ways to initialise change the base's weights too, which this folder does not hold. */
static hil_status check_init(const json_t *root, const char *what)
{
    static const char *const harmless[] = {"gaussian", "orthogonal", "eva"};
    const json_t *value = json_object_get(root, "init_lora_weights");
    size_t which;
    if (!value || json_is_boolean(value) || json_is_null(value)) return HIL_OK;
    return read_word(root, "init_lora_weights", what, harmless, 3, &which);
}

static hil_status read_numbers(hil_peft *p, const char *what)
{
    static const char *const bias[] = {"none", "all", "lora_only"};
    size_t which = 0;
    p->rank = 8;
    p->alpha = 8;
    HIL_TRY(hil_json_int(p->root, "r", what, &p->rank));
    HIL_TRY(hil_json_real(p->root, "lora_alpha", what, &p->alpha));
    HIL_TRY(hil_json_real(p->root, "lora_dropout", what, &p->dropout));
    HIL_TRY(hil_json_bool(p->root, "use_rslora", what, &p->rslora));
    HIL_TRY(hil_json_bool(p->root, "use_dora", what, &p->dora));
    HIL_TRY(read_word(p->root, "bias", what, bias, 3, &which));
    p->bias = (hil_peft_bias)which;
    if (p->rank < 1 || p->rank > HIL_PEFT_MOST_RANK)
        return hil_fail(HIL_ERR_INPUT, "%s: r is %lld, expected 1 or more", what,
                        (long long)p->rank);
    if (!(p->dropout >= 0 && p->dropout < 1))
        return hil_fail(HIL_ERR_INPUT, "%s: lora_dropout is %g, expected 0 or more and less than 1",
                        what, p->dropout);
    return HIL_OK;
}

/* Reads the members of p->root. */
static hil_status read_root(hil_peft *p, const char *what)
{
    static const char *const types[] = {"LORA"}, *const tasks[] = {"CAUSAL_LM"};
    size_t which = 1;
    if (!json_is_object(p->root)) return hil_fail(HIL_ERR_INPUT, "%s is not a JSON object", what);
    HIL_TRY(read_word(p->root, "peft_type", what, types, 1, &which));
    if (which) return hil_fail(HIL_ERR_INPUT, "%s has no peft_type", what);
    HIL_TRY(read_word(p->root, "task_type", what, tasks, 1, &which));
    HIL_TRY(check_keys(p->root, what));
    HIL_TRY(check_init(p->root, what));
    HIL_TRY(read_numbers(p, what));
    return hil_peft_compile(p, what);
}

/* Closes `out` on failure. */
static hil_status accept_root(hil_peft *out, const char *what)
{
    hil_status status = read_root(out, what);
    if (status != HIL_OK) hil_peft_close(out);
    return status;
}

#define DIGITS JSON_REAL_PRECISION(15) /* 0.05 is written as that */

/* Rounds all numbers as hil_peft_write does, so that a config is the same after it was written. */
static hil_status round_numbers(json_t **root, const char *what)
{
    char *text = json_dumps(*root, JSON_ENCODE_ANY | DIGITS);
    if (!text) return hil_fail(HIL_ERR_MEMORY, "out of memory: %s", what);
    json_t *rounded = NULL;
    hil_status status = hil_json_parse(text, strlen(text), what, &rounded);
    free(text);
    json_decref(*root);
    *root = rounded;
    return status;
}

hil_status hil_peft_parse(hil_peft *out, const char *text, size_t size, const char *what)
{
    *out = (hil_peft){0};
    HIL_TRY(hil_json_parse(text, size, what, &out->root));
    HIL_TRY(round_numbers(&out->root, what));
    return accept_root(out, what);
}

hil_status hil_peft_open(hil_peft *out, const char *folder)
{
    char path[HIL_PATH_MAX];
    hil_bytes bytes = {0};
    hil_status status;
    *out = (hil_peft){0};
    HIL_TRY_DONE(hil_path_join(path, folder, HIL_PEFT_CONFIG));
    if (!hil_file_exists(path))
        HIL_TRY_DONE(hil_fail(HIL_ERR_INPUT, "%s is no adapter folder: it has no %s", folder,
                              HIL_PEFT_CONFIG));
    HIL_TRY_DONE(hil_bytes_read(&bytes, path));
    status = hil_peft_parse(out, bytes.data, bytes.size, path);
done:
    hil_bytes_free(&bytes);
    return status;
}

void hil_peft_close(hil_peft *peft)
{
    json_decref(peft->root);
    hil_peft_release(peft);
    *peft = (hil_peft){0};
}

hil_status hil_peft_create(hil_peft *out, const hil_peft_values *v)
{
    *out = (hil_peft){0};
    json_t *alpha =
        v->alpha == floor(v->alpha) ? json_integer((json_int_t)v->alpha) : json_real(v->alpha);
    json_t *targets =
        v->targets ? hil_json_words(v->target, v->targets) : json_string(HIL_PEFT_ALL);
    json_t *saved = v->saves ? hil_json_words(v->save, v->saves) : json_null();
    out->root = json_pack(
        "{s:{}, s:n, s:s?, s:s, s:b, s:b, s:b, s:n, s:n, s:o, s:f, s:o, s:s, s:I, s:{}, s:n, s:o, "
        "s:s, s:b, s:b}",
        "alpha_pattern", "auto_mapping", "base_model_name_or_path", v->base, "bias", "none",
        "fan_in_fan_out", 0, "inference_mode", 1, "init_lora_weights", 1, "layers_pattern",
        "layers_to_transform", "lora_alpha", alpha, "lora_dropout", v->dropout, "modules_to_save",
        saved, "peft_type", "LORA", "r", (json_int_t)v->rank, "rank_pattern", "revision",
        "target_modules", targets, "task_type", "CAUSAL_LM", "use_dora", v->dora, "use_rslora",
        v->rslora);
    if (!out->root) return hil_fail(HIL_ERR_MEMORY, "out of memory: the adapter's config");
    return accept_root(out, "the adapter");
}

const char *hil_peft_module(const char *param, char module[HIL_PEFT_NAME])
{
    snprintf(module, HIL_PEFT_NAME, "%s", param);
    char *dot = strrchr(module, '.');
    if (!dot) return "";
    *dot = 0;
    return param + (dot - module) + 1;
}

void hil_peft_tensor_name(const hil_peft *peft, const char *param, char out[HIL_PEFT_NAME])
{
    char module[HIL_PEFT_NAME];
    const char *part = hil_peft_module(param, module);
    if (strncmp(param, HIL_PEFT_PREFIX, sizeof HIL_PEFT_PREFIX - 1) == 0)
        snprintf(out, HIL_PEFT_NAME, "%s", param);
    else if (strcmp(part, "bias") == 0 && hil_peft_is_target(peft, module))
        snprintf(out, HIL_PEFT_NAME, HIL_PEFT_PREFIX "%.300s.base_layer.bias", module);
    else
        snprintf(out, HIL_PEFT_NAME, HIL_PEFT_PREFIX "%.300s", param);
}

static hil_status set_list(hil_peft *peft, const char *key, const char *const *name, size_t count,
                           const json_t **out)
{
    json_t *list = hil_json_words(name, count);
    if (!list || json_object_set_new(peft->root, key, list) != 0)
        return hil_fail(HIL_ERR_MEMORY, "out of memory: the adapter's config");
    *out = list;
    return HIL_OK;
}

hil_status hil_peft_set_parameters(hil_peft *peft, const char *const *name, size_t count)
{
    return set_list(peft, "target_parameters", name, count, &peft->parameters);
}

hil_status hil_peft_set_targets(hil_peft *peft, const char *const *target, size_t count)
{
    HIL_TRY(set_list(peft, "target_modules", target, count, &peft->targets));
    hil_regex_destroy(peft->target);
    peft->target = NULL;
    return HIL_OK;
}

hil_status hil_peft_key(const hil_peft *peft, uint64_t *out)
{
    json_t *copy = json_copy(peft->root);
    json_object_del(copy, "base_model_name_or_path");
    char *text = copy ? json_dumps(copy, JSON_COMPACT | DIGITS) : NULL;
    json_decref(copy);
    if (!text) return hil_fail(HIL_ERR_MEMORY, "out of memory: the adapter's config");
    *out = hil_hash(0, text, strlen(text));
    free(text);
    return HIL_OK;
}

hil_status hil_peft_write(const hil_peft *peft, hil_text *out)
{
    char *text = json_dumps(peft->root, JSON_INDENT(2) | DIGITS);
    if (!text) return hil_fail(HIL_ERR_MEMORY, "out of memory: the adapter's config");
    hil_status status = hil_text_print(out, "%s\n", text);
    free(text);
    return status;
}
