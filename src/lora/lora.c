/* lora.c - freezes a model and adds the parameters of an adapter. */
#include "lora/lora.h"

#include "base/alloc.h"
#include "base/text.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Whether the parameter is the matrix of a linear layer: one of a block, which is neither the first
   segment (embeddings) nor the last (head). Routers and experts are not; PEFT has other means for
   them. */
static bool is_linear(const hil_model *model, const hil_param *p)
{
    const hil_param_spec *spec = hil_param_spec_of(p);
    return spec->shape.ndim == 2 && !spec->mixture && spec->group > 0 &&
           spec->group < (int)model->count - 1;
}

static hil_status add_param(hil_store *store, const char *module, const char *name,
                            hil_param_spec *spec, hil_param **out)
{
    char whole[HIL_PEFT_NAME + 64];
    snprintf(whole, sizeof whole, HIL_PEFT_PREFIX "%s.%s", module, name);
    spec->name = whole;
    spec->adapter = true;
    return hil_store_add(store, spec, out);
}

/* Initialises as PEFT does: A uniformly, B with zeros. hil_lora_fill_magnitudes completes that. */
static hil_status adapt(hil_model *model, hil_param *weight, const hil_peft *peft,
                        const char *module)
{
    const hil_param_spec *base = hil_param_spec_of(weight);
    int64_t out = base->shape.dim[0], in = base->shape.dim[1], rank = hil_peft_rank(peft, module);
    hil_adapter adapter = {.scale = hil_peft_scale(peft, module), .dropout = peft->dropout};
    hil_param_spec a = {.shape = {2, {rank, in}},
                        .init = HIL_INIT_UNIFORM,
                        .bound = 1 / sqrt((double)in),
                        .group = base->group};
    hil_param_spec b = {.shape = {2, {out, rank}}, .init = HIL_INIT_ZERO, .group = base->group};
    HIL_TRY(add_param(model->store, module, "lora_A.weight", &a, &adapter.a));
    HIL_TRY(add_param(model->store, module, "lora_B.weight", &b, &adapter.b));
    hil_param_spec m = {.shape = {1, {out}}, .init = HIL_INIT_ONE, .group = base->group};
    if (peft->dora)
        HIL_TRY(add_param(model->store, module, "lora_magnitude_vector", &m, &adapter.magnitude));
    return hil_model_adapt(model, weight, &adapter);
}

/* A list of names, without duplicates. Borrows them. */
typedef struct name_list {
    const char **name;
    size_t count;
} name_list;

static void add_name(name_list *list, const char *name)
{
    for (size_t i = 0; i < list->count; ++i)
        if (strcmp(list->name[i], name) == 0) return;
    list->name[list->count++] = name;
}

static bool is_pattern(const char *name)
{
    return strpbrk(name, "*?[") != NULL;
}

/* Adds what one entry of the targets means: for "all-linear" (NULL) the last parts of the names of
   all linear layers, for a shell pattern the whole names that match it. */
static void expand_entry(name_list *list, char (*module)[HIL_PEFT_NAME], size_t modules,
                         const char *entry)
{
    for (size_t i = 0; i < modules; ++i) {
        const char *dot = strrchr(module[i], '.');
        if (!entry)
            add_name(list, dot ? dot + 1 : module[i]);
        else if (fnmatch(entry, module[i], 0) == 0)
            add_name(list, module[i]);
    }
}

/* The modules of all linear layers; the caller frees them. */
static hil_status list_modules(const hil_model *model, char (**out)[HIL_PEFT_NAME], size_t *count)
{
    *count = 0;
    HIL_TRY(HIL_ALLOC(hil_store_count(model->store), out));
    for (size_t i = 0; i < hil_store_count(model->store); ++i) {
        const hil_param *p = hil_store_at(model->store, i);
        if (is_linear(model, p)) hil_peft_module(hil_param_spec_of(p)->name, (*out)[(*count)++]);
    }
    return HIL_OK;
}

/* Writes the targets as PEFT understands them: names instead of "all-linear" and shell patterns. */
static hil_status expand_targets(const hil_model *model, hil_peft *peft)
{
    size_t entries = json_array_size(peft->targets), modules;
    char(*module)[HIL_PEFT_NAME] = NULL;
    name_list list = {0};
    hil_status status;
    HIL_TRY_DONE(list_modules(model, &module, &modules));
    HIL_TRY_DONE(HIL_ALLOC(modules + entries + 1, &list.name));
    if (hil_peft_is_all(peft)) expand_entry(&list, module, modules, NULL);
    for (size_t i = 0; i < entries; ++i) {
        const char *entry = json_string_value(json_array_get(peft->targets, i));
        size_t before = list.count;
        if (is_pattern(entry))
            expand_entry(&list, module, modules, entry);
        else
            add_name(&list, entry);
        if (is_pattern(entry) && list.count == before)
            HIL_TRY_DONE(hil_fail(HIL_ERR_USAGE,
                                  "--targets %s matches no linear layer; their names are %s to %s",
                                  entry, module[0], module[modules - 1]));
    }
    status = hil_peft_set_targets(peft, list.name, list.count);
done:
    hil_free(list.name);
    hil_free(module);
    return status;
}

static bool has_patterns(const hil_peft *peft)
{
    for (size_t i = 0; i < json_array_size(peft->targets); ++i)
        if (is_pattern(json_string_value(json_array_get(peft->targets, i)))) return true;
    return hil_peft_is_all(peft);
}

/* Whether a name of the targets means one of the modules. */
static bool is_there(const char *name, char (*module)[HIL_PEFT_NAME], size_t modules)
{
    for (size_t i = 0; i < modules; ++i) {
        if (strlen(name) > strlen(module[i])) continue;
        const char *end = module[i] + strlen(module[i]) - strlen(name);
        if (strcmp(end, name) == 0 && (end == module[i] || end[-1] == '.')) return true;
    }
    return false;
}

hil_status hil_lora_check(const hil_model *model, const hil_peft *peft)
{
    size_t modules;
    char(*module)[HIL_PEFT_NAME] = NULL;
    name_list list = {0};
    hil_status status;
    HIL_TRY_DONE(list_modules(model, &module, &modules));
    HIL_TRY_DONE(HIL_ALLOC(modules + 1, &list.name));
    expand_entry(&list, module, modules, NULL);
    for (size_t i = 0; i < json_array_size(peft->targets); ++i) {
        const char *name = json_string_value(json_array_get(peft->targets, i));
        if (is_pattern(name) || is_there(name, module, modules)) continue;
        const char *near = hil_text_nearest(name, list.name, list.count);
        HIL_TRY_DONE(hil_fail(HIL_ERR_USAGE,
                              "--targets %s: no linear layer of the blocks has that name%s%s%s "
                              "(--modules-to-save trains other modules whole)",
                              name, near ? "; did you mean " : "", near ? near : "",
                              near ? "?" : ""));
    }
    status = HIL_OK;
done:
    hil_free(list.name);
    hil_free(module);
    return status;
}

/* Whether the head has a matrix of its own. */
static bool has_head(const hil_model *model)
{
    for (size_t i = 0; i < hil_store_count(model->store); ++i) {
        const hil_param_spec *spec = hil_param_spec_of(hil_store_at(model->store, i));
        if (spec->shape.ndim == 2 && spec->group == (int)model->count - 1) return true;
    }
    return false;
}

/* Refuses modules to save that the model does not have, or that share their weights: PEFT would
   train a copy. */
static hil_status check_saved(const hil_model *model, const hil_peft *peft)
{
    char module[HIL_PEFT_NAME];
    for (size_t i = 0; i < json_array_size(peft->saved); ++i) {
        const char *name = json_string_value(json_array_get(peft->saved, i));
        bool found = false, tied = false;
        for (size_t k = 0; k < hil_store_count(model->store); ++k) {
            const hil_param_spec *spec = hil_param_spec_of(hil_store_at(model->store, k));
            hil_peft_module(spec->name, module);
            if (!hil_peft_saves(name, module)) continue;
            found = true;
            tied |= spec->group == 0 && !has_head(model);
        }
        if (!found || tied)
            return hil_fail(HIL_ERR_USAGE, "--modules-to-save %s: %s", name,
                            tied ? "its weights are tied to those of the head, and one of them "
                                   "cannot be trained alone"
                                 : "the model has no weights of that name (a tied head uses those "
                                   "of the embedding)");
    }
    return HIL_OK;
}

static bool trains_bias(const hil_peft *peft, const char *module)
{
    return peft->bias == HIL_PEFT_BIAS_ALL ||
           (peft->bias == HIL_PEFT_BIAS_LORA && hil_peft_is_target(peft, module));
}

static void count_adapter(hil_lora *out, int64_t rank)
{
    ++out->matrices;
    if (!out->least_rank || rank < out->least_rank) out->least_rank = rank;
    if (rank > out->most_rank) out->most_rank = rank;
}

hil_status hil_lora_attach(hil_model *model, hil_peft *peft, hil_lora *out)
{
    hil_store *store = model->store;
    size_t count = hil_store_count(store);
    int block = -1;
    char module[HIL_PEFT_NAME];
    *out = (hil_lora){0};
    HIL_TRY(check_saved(model, peft));
    if (has_patterns(peft)) HIL_TRY(expand_targets(model, peft));
    for (size_t i = 0; i < count; ++i) {
        hil_param *p = hil_store_at(store, i);
        const hil_param_spec *spec = hil_param_spec_of(p);
        const char *part = hil_peft_module(spec->name, module);
        bool bias = strcmp(part, "bias") == 0 && trains_bias(peft, module);
        if (!bias && !hil_peft_is_saved(peft, module)) hil_param_freeze(p);
        if (!is_linear(model, p) || !hil_peft_is_target(peft, module)) continue;
        HIL_TRY(adapt(model, p, peft, module));
        count_adapter(out, hil_peft_rank(peft, module));
        out->blocks += spec->group != block;
        block = spec->group;
    }
    if (out->matrices) return HIL_OK;
    return hil_fail(HIL_ERR_USAGE, "no linear layer of the blocks is a target of the adapter");
}
