/* lora_targets.c - which layers and experts the targets of a new adapter mean. */
#include "lora/lora_targets.h"

#include "base/alloc.h"
#include "base/text.h"
#include "format/peft_experts.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

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

/* Whether PEFT takes the name of a linear layer for one of experts: hil_arch.fused. */
static bool is_fused(const hil_config *config, const char *module)
{
    static const char *const names[] = {"gate", "gate_proj", "up_proj", "down_proj"};
    const char *dot = strrchr(module, '.');
    for (size_t i = 0; i < sizeof names / sizeof *names && config->arch->fused; ++i)
        if (strcmp(dot ? dot + 1 : module, names[i]) == 0) return true;
    return false;
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

/* What can be a target, by whole names. */
typedef struct candidates {
    char (*module)[HIL_PEFT_NAME]; /* linear layers */
    char (*stack)[HIL_PEFT_NAME];  /* parameters that hold a matrix of all experts of a layer */
    char (*router)[HIL_PEFT_NAME]; /* only in PEFT's folders */
    size_t modules, stacks, routers;
} candidates;

static void free_candidates(candidates *c)
{
    hil_free(c->module);
    hil_free(c->stack);
    hil_free(c->router);
}

static hil_status list_candidates(const hil_model *model, const hil_config *config, candidates *out)
{
    size_t count = hil_store_count(model->store);
    char name[HIL_PEFT_NAME];
    *out = (candidates){0};
    HIL_TRY(HIL_ALLOC(count, &out->module));
    HIL_TRY(HIL_ALLOC(count, &out->stack));
    HIL_TRY(HIL_ALLOC(count, &out->router));
    for (size_t i = 0; i < count; ++i) {
        const hil_param *p = hil_store_at(model->store, i);
        const hil_param_spec *spec = hil_param_spec_of(p);
        const hil_arch_stack *row;
        int64_t expert;
        if (hil_lora_is_linear(model, p))
            hil_peft_memory_module(config, spec->name, out->module[out->modules++]);
        if (!spec->mixture) continue;
        hil_peft_parameter_name(config, spec->name, name, &row, &expert);
        if (spec->router)
            memcpy(out->router[out->routers++], name, sizeof name);
        else if (row && row->part == 0 && expert == 0)
            memcpy(out->stack[out->stacks++], name, sizeof name);
    }
    return HIL_OK;
}

/* Whether a name of the targets means one of the whole names. */
static bool is_there(const char *name, char (*whole)[HIL_PEFT_NAME], size_t count)
{
    for (size_t i = 0; i < count; ++i) {
        if (strlen(name) > strlen(whole[i])) continue;
        const char *end = whole[i] + strlen(whole[i]) - strlen(name);
        if (strcmp(end, name) == 0 && (end == whole[i] || end[-1] == '.')) return true;
    }
    return false;
}

/* Adds the entry to the modules or to the parameters. */
static hil_status sort_entry(const candidates *c, const char *entry, name_list *modules,
                             name_list *parameters)
{
    size_t before = modules->count + parameters->count;
    if (!is_pattern(entry)) {
        bool experts =
            is_there(entry, c->stack, c->stacks) && !is_there(entry, c->module, c->modules);
        add_name(experts ? parameters : modules, entry);
        return HIL_OK;
    }
    expand_entry(modules, c->module, c->modules, entry);
    expand_entry(parameters, c->stack, c->stacks, entry);
    if (modules->count + parameters->count > before) return HIL_OK;
    return hil_fail(HIL_ERR_USAGE, "--targets %s matches no linear layer; their names are %s to %s",
                    entry, c->module[0], c->module[c->modules - 1]);
}

/* Whether a parameter's name is one of a linear layer. */
static bool is_weight(const candidates *c, const char *name)
{
    char module[HIL_PEFT_NAME];
    return strcmp(hil_peft_module(name, module), "weight") == 0 &&
           is_there(module, c->module, c->modules);
}

/* Refuses parameters of which none is of experts, a router or a linear layer; PEFT names routers
   that the model may not have. */
static hil_status check_parameters(const candidates *c, const hil_peft *peft)
{
    const char *name = NULL;
    for (size_t i = 0; i < json_array_size(peft->parameters); ++i) {
        name = json_string_value(json_array_get(peft->parameters, i));
        if (is_there(name, c->stack, c->stacks) || is_there(name, c->router, c->routers) ||
            is_weight(c, name))
            return HIL_OK;
    }
    if (!name) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT,
                    "adapter_config.json: target_parameters %s names neither experts nor a router "
                    "nor a linear layer of the model",
                    name);
}

/* Whether adapters of parameters cannot be what the config says. */
static bool modules_only(const hil_peft *peft)
{
    return peft->dora || peft->dropout > 0;
}

/* Moves names that PEFT would take for experts to the parameters, by those of their weights; frees
   nothing of `names`, which has room for them. Where they cannot be parameters they stay, but `all`
   leaves them out. */
static void move_fused(const hil_config *config, const hil_peft *peft, char (*names)[HIL_PEFT_NAME],
                       name_list *modules, name_list *parameters)
{
    size_t kept = 0, count = modules->count;
    if (modules_only(peft) && !hil_peft_is_all(peft)) return;
    for (size_t i = 0; i < count; ++i) {
        if (!is_fused(config, modules->name[i])) {
            modules->name[kept++] = modules->name[i];
        } else if (!modules_only(peft)) {
            snprintf(names[i], sizeof *names, "%.300s.weight", modules->name[i]);
            add_name(parameters, names[i]);
        }
    }
    modules->count = kept;
}

static bool has_patterns(const hil_peft *peft)
{
    for (size_t i = 0; i < json_array_size(peft->targets); ++i)
        if (is_pattern(json_string_value(json_array_get(peft->targets, i)))) return true;
    return hil_peft_is_all(peft);
}

hil_status hil_lora_expand_targets(const hil_model *model, const hil_config *config, hil_peft *peft)
{
    size_t entries = json_array_size(peft->targets), given = json_array_size(peft->parameters);
    candidates c;
    name_list modules = {0}, parameters = {0};
    char(*weights)[HIL_PEFT_NAME] = NULL;
    hil_status status;
    HIL_TRY_DONE(list_candidates(model, config, &c));
    HIL_TRY_DONE(check_parameters(&c, peft));
    size_t most = c.modules + entries + 1;
    HIL_TRY_DONE(HIL_ALLOC(most, &modules.name));
    HIL_TRY_DONE(HIL_ALLOC(most, &weights));
    HIL_TRY_DONE(HIL_ALLOC(most + c.stacks + given, &parameters.name));
    for (size_t i = 0; i < given; ++i)
        add_name(&parameters, json_string_value(json_array_get(peft->parameters, i)));
    if (hil_peft_is_all(peft)) expand_entry(&modules, c.module, c.modules, NULL);
    for (size_t i = 0; i < entries; ++i)
        HIL_TRY_DONE(sort_entry(&c, json_string_value(json_array_get(peft->targets, i)), &modules,
                                &parameters));
    size_t before = modules.count;
    bool named = !peft->target; /* by a list, or as all of them */
    if (named) move_fused(config, peft, weights, &modules, &parameters);
    bool found = parameters.count > given || modules.count < before;
    if (parameters.count > given)
        HIL_TRY_DONE(hil_peft_set_parameters(peft, parameters.name, parameters.count));
    if (found || has_patterns(peft))
        HIL_TRY_DONE(hil_peft_set_targets(peft, modules.name, modules.count));
    status = HIL_OK;
done:
    hil_free(modules.name);
    hil_free(weights);
    hil_free(parameters.name);
    free_candidates(&c);
    return status;
}

/* Fails with the names that there are. */
static hil_status no_target(const char *name, const name_list *list)
{
    char names[600] = "";
    size_t used = 0;
    for (size_t i = 0; i < list->count && used + HIL_PEFT_NAME < sizeof names; ++i)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                                 list->name[i]);
    return hil_fail(
        HIL_ERR_USAGE,
        "--targets %s: no linear layer of the blocks has that name; there are %s, or all "
        "(--modules-to-save trains other modules whole)",
        name, names);
}

hil_status hil_lora_check(const hil_model *model, const hil_config *config, const hil_peft *peft)
{
    candidates c;
    name_list list = {0};
    hil_status status;
    HIL_TRY_DONE(list_candidates(model, config, &c));
    HIL_TRY_DONE(HIL_ALLOC(c.modules + c.stacks + 1, &list.name));
    expand_entry(&list, c.module, c.modules, NULL);
    expand_entry(&list, c.stack, c.stacks, NULL);
    for (size_t i = 0; i < json_array_size(peft->targets); ++i) {
        const char *name = json_string_value(json_array_get(peft->targets, i));
        if (is_pattern(name) || is_there(name, c.module, c.modules) ||
            is_there(name, c.stack, c.stacks)) {
            if (!modules_only(peft) || !is_fused(config, name)) continue;
            HIL_TRY_DONE(hil_fail(HIL_ERR_USAGE,
                                  "--targets %s: PEFT takes this name for experts, which have "
                                  "neither DoRA nor dropout: train without, or leave it out",
                                  name));
        }
        HIL_TRY_DONE(no_target(name, &list));
    }
    status = HIL_OK;
done:
    hil_free(list.name);
    free_candidates(&c);
    return status;
}
