/* peft_match.c - which modules an adapter's config means, by PEFT's rules. */
#include "format/peft.h"

#include "base/alloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static hil_status check_list(const json_t *list, const char *what, const char *key)
{
    for (size_t i = 0; i < json_array_size(list); ++i)
        if (!json_is_string(json_array_get(list, i)))
            return hil_fail(HIL_ERR_INPUT, "%s: %s must be a list of names", what, key);
    return HIL_OK;
}

/* A list of names, or one expression, which is compiled. NULL: the key is not used. */
static hil_status read_names(const hil_peft *p, const char *key, const char *what,
                             const json_t **list, hil_regex **regex)
{
    const json_t *value = json_object_get(p->root, key);
    *list = NULL;
    if (!value || json_is_null(value)) return HIL_OK;
    if (!json_is_array(value) && !(regex && json_is_string(value)))
        return hil_peft_refuse(what, key, value);
    *list = value;
    if (json_is_array(value)) return check_list(value, what, key);
    if (strcmp(json_string_value(value), HIL_PEFT_ALL) == 0) return HIL_OK;
    return hil_regex_create(regex, json_string_value(value), what);
}

/* Compiles "NAME" so that it matches a name that ends with it, after a dot. */
static hil_status add_pattern(hil_peft_pattern **list, size_t *count, const char *name,
                              const char *what)
{
    size_t room = *count;
    hil_text text = {0};
    HIL_TRY(HIL_GROW(list, &room, *count + 1));
    hil_status status = hil_text_print(&text, "(.*\\.)?(%s)", name);
    (*list)[*count] = (hil_peft_pattern){0};
    if (status == HIL_OK) status = hil_regex_create(&(*list)[*count].regex, text.data, what);
    hil_text_free(&text);
    if (status == HIL_OK) ++*count;
    return status;
}

/* An object of expressions and positive numbers. */
static hil_status read_patterns(const hil_peft *p, const char *key, const char *what,
                                hil_peft_pattern **list, size_t *count)
{
    json_t *object = json_object_get(p->root, key), *value;
    const char *name;
    if (!object || json_is_null(object)) return HIL_OK;
    if (!json_is_object(object)) return hil_peft_refuse(what, key, object);
    json_object_foreach(object, name, value)
    {
        double number = json_number_value(value);
        if (!(number > 0 && number <= HIL_PEFT_MOST_RANK) ||
            (strcmp(key, "rank_pattern") == 0 && number != floor(number)))
            return hil_peft_refuse(what, key, value);
        HIL_TRY(add_pattern(list, count, name, what));
        (*list)[*count - 1].value = number;
    }
    return HIL_OK;
}

static hil_status read_layers(hil_peft *p, const char *what)
{
    const json_t *layers = json_object_get(p->root, "layers_to_transform");
    const json_t *names = json_object_get(p->root, "layers_pattern");
    bool listed = json_is_array(layers) && json_array_size(layers);
    if (json_is_string(names) && *json_string_value(names))
        HIL_TRY(add_pattern(&p->layer_names, &p->layer_name_count, json_string_value(names), what));
    for (size_t i = 0; i < json_array_size(names); ++i) {
        const char *name = json_string_value(json_array_get(names, i));
        if (!name) return hil_peft_refuse(what, "layers_pattern", names);
        HIL_TRY(add_pattern(&p->layer_names, &p->layer_name_count, name, what));
    }
    for (size_t i = 0; i < json_array_size(layers); ++i)
        if (!json_is_integer(json_array_get(layers, i)))
            return hil_peft_refuse(what, "layers_to_transform", layers);
    if (json_is_integer(layers) || listed) p->layers = layers;
    if (p->layers && !json_is_array(p->targets))
        return hil_fail(HIL_ERR_INPUT,
                        "%s: layers_to_transform needs target_modules that are a list", what);
    if (layers && !p->layers && !json_is_null(layers) && !json_is_array(layers))
        return hil_peft_refuse(what, "layers_to_transform", layers);
    return HIL_OK;
}

hil_status hil_peft_compile(hil_peft *p, const char *what)
{
    HIL_TRY(read_names(p, "target_modules", what, &p->targets, &p->target));
    HIL_TRY(read_names(p, "target_parameters", what, &p->parameters, NULL));
    if (!json_array_size(p->parameters)) p->parameters = NULL;
    HIL_TRY(read_names(p, "exclude_modules", what, &p->excluded, &p->exclusion));
    HIL_TRY(read_names(p, "modules_to_save", what, &p->saved, NULL));
    bool none = !p->targets || (json_is_array(p->targets) && !json_array_size(p->targets));
    if (none && !p->parameters)
        return hil_fail(HIL_ERR_INPUT, "%s: target_modules names no layer", what);
    HIL_TRY(read_patterns(p, "rank_pattern", what, &p->ranks, &p->rank_count));
    HIL_TRY(read_patterns(p, "alpha_pattern", what, &p->alphas, &p->alpha_count));
    return read_layers(p, what);
}

static void free_patterns(hil_peft_pattern *list, size_t count)
{
    for (size_t i = 0; i < count; ++i) hil_regex_destroy(list[i].regex);
    hil_free(list);
}

void hil_peft_release(hil_peft *p)
{
    hil_regex_destroy(p->target);
    hil_regex_destroy(p->exclusion);
    free_patterns(p->ranks, p->rank_count);
    free_patterns(p->alphas, p->alpha_count);
    free_patterns(p->layer_names, p->layer_name_count);
}

static bool is_in(const json_t *list, const char *module)
{
    for (size_t i = 0; i < json_array_size(list); ++i)
        if (strcmp(json_string_value(json_array_get(list, i)), module) == 0) return true;
    return false;
}

/* Whether the module is listed, or ends like one of the list after a dot. */
static bool ends_in(const json_t *list, const char *module)
{
    for (const char *at = strchr(module, '.'); at; at = strchr(at + 1, '.'))
        if (is_in(list, at + 1)) return true;
    return is_in(list, module);
}

/* The first number in the module's name that follows what layers_pattern says; -1: none. Without
   layers_pattern two parts of the name must precede it. */
static int64_t layer_of(const hil_peft *p, const char *module)
{
    char before[HIL_PEFT_NAME];
    for (const char *dot = strchr(module, '.'); dot; dot = strchr(dot + 1, '.')) {
        size_t size = (size_t)(dot - module), digits = strspn(dot + 1, "0123456789");
        if (!digits || dot[1 + digits] != '.' || size >= sizeof before) continue;
        memcpy(before, module, size);
        before[size] = 0;
        bool fits = !p->layer_name_count && strchr(before, '.');
        for (size_t i = 0; i < p->layer_name_count && !fits; ++i)
            fits = hil_regex_matches(p->layer_names[i].regex, before);
        if (fits) return strtoll(dot + 1, NULL, 10);
    }
    return -1;
}

static bool is_layer(const hil_peft *p, const char *module)
{
    int64_t layer = p->layers ? layer_of(p, module) : 0;
    if (!p->layers) return true;
    if (json_is_integer(p->layers)) return layer >= 0 && json_integer_value(p->layers) == layer;
    for (size_t i = 0; i < json_array_size(p->layers); ++i)
        if (layer >= 0 && json_integer_value(json_array_get(p->layers, i)) == layer) return true;
    return false;
}

bool hil_peft_is_all(const hil_peft *p)
{
    return json_is_string(p->targets) && !p->target;
}

bool hil_peft_is_target(const hil_peft *p, const char *module)
{
    if (p->exclusion ? hil_regex_matches(p->exclusion, module) : ends_in(p->excluded, module))
        return false;
    if (hil_peft_is_saved(p, module)) return false;
    if (p->target) return hil_regex_matches(p->target, module);
    if (hil_peft_is_all(p) || is_in(p->targets, module)) return true;
    return ends_in(p->targets, module) && is_layer(p, module);
}

bool hil_peft_is_parameter(const hil_peft *p, const char *name)
{
    return ends_in(p->parameters, name);
}

bool hil_peft_saves(const char *name, const char *module)
{
    size_t size = strlen(name);
    for (const char *end = module + strcspn(module, ".");; end += 1 + strcspn(end + 1, ".")) {
        if (size && (size_t)(end - module) >= size && strncmp(end - size, name, size) == 0)
            return true;
        if (!*end) return false;
    }
}

bool hil_peft_is_saved(const hil_peft *p, const char *module)
{
    for (size_t i = 0; i < json_array_size(p->saved); ++i)
        if (hil_peft_saves(json_string_value(json_array_get(p->saved, i)), module)) return true;
    return false;
}

static double pattern_value(const hil_peft_pattern *list, size_t count, const char *module,
                            double otherwise)
{
    for (size_t i = 0; i < count; ++i)
        if (hil_regex_matches(list[i].regex, module)) return list[i].value;
    return otherwise;
}

int64_t hil_peft_rank(const hil_peft *p, const char *module)
{
    return (int64_t)pattern_value(p->ranks, p->rank_count, module, (double)p->rank);
}

double hil_peft_scale(const hil_peft *p, const char *module)
{
    double rank = (double)hil_peft_rank(p, module);
    double alpha = pattern_value(p->alphas, p->alpha_count, module, p->alpha);
    return alpha / (p->rslora ? sqrt(rank) : rank);
}
