/* lora.c - freezes a model and adds the parameters of an adapter. */
#include "lora/lora_experts.h"
#include "lora/lora_targets.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

bool hil_lora_is_linear(const hil_model *model, const hil_param *p)
{
    const hil_param_spec *spec = hil_param_spec_of(p);
    bool inside = spec->group > 0 && spec->group < (int)model->count - 1;
    return spec->shape.ndim == 2 && !spec->mixture && (inside || spec->linear);
}

hil_status hil_lora_add_param(hil_store *store, const char *module, const char *name,
                              hil_param_spec *spec, hil_param **out)
{
    char whole[HIL_PEFT_NAME + 64];
    snprintf(whole, sizeof whole, HIL_PEFT_PREFIX "%s.%s", module, name);
    spec->name = whole;
    spec->adapter = true;
    return hil_store_add(store, spec, out);
}

/* Initialises as PEFT does: A uniformly, B with zeros. hil_lora_fill_magnitudes completes that.
   `name` decides on rank and scale: the module's, or that of a parameter. */
static hil_status adapt(hil_model *model, hil_param *weight, const hil_peft *peft,
                        const char *module, const char *name)
{
    const hil_param_spec *base = hil_param_spec_of(weight);
    int64_t out = base->shape.dim[0], in = base->shape.dim[1], rank = hil_peft_rank(peft, name);
    hil_adapter adapter = {.scale = hil_peft_scale(peft, name), .dropout = peft->dropout};
    hil_param_spec a = {.shape = {2, {rank, in}},
                        .init = HIL_INIT_UNIFORM,
                        .bound = 1 / sqrt((double)in),
                        .group = base->group};
    hil_param_spec b = {.shape = {2, {out, rank}}, .init = HIL_INIT_ZERO, .group = base->group};
    HIL_TRY(hil_lora_add_param(model->store, module, "lora_A.weight", &a, &adapter.a));
    HIL_TRY(hil_lora_add_param(model->store, module, "lora_B.weight", &b, &adapter.b));
    hil_param_spec m = {.shape = {1, {out}}, .init = HIL_INIT_ONE, .group = base->group};
    if (peft->dora)
        HIL_TRY(hil_lora_add_param(model->store, module, "lora_magnitude_vector", &m,
                                   &adapter.magnitude));
    return hil_model_adapt(model, weight, &adapter);
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
static hil_status check_saved(const hil_model *model, const hil_config *config,
                              const hil_peft *peft)
{
    char module[HIL_PEFT_NAME];
    for (size_t i = 0; i < json_array_size(peft->saved); ++i) {
        const char *name = json_string_value(json_array_get(peft->saved, i));
        bool found = false, tied = false, fixed = true;
        for (size_t k = 0; k < hil_store_count(model->store); ++k) {
            const hil_param_spec *spec = hil_param_spec_of(hil_store_at(model->store, k));
            hil_peft_memory_module(config, spec->name, module);
            if (!hil_peft_saves(name, module)) continue;
            found = true;
            fixed &= !hil_param_trainable(hil_store_at(model->store, k));
            tied |= spec->group == 0 && !has_head(model);
        }
        if (found && fixed)
            return hil_fail(HIL_ERR_USAGE, "--modules-to-save %s: it is never trained", name);
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

/* Of a matrix in a block. */
static void count_adapter(hil_lora *out, int block, int64_t rank)
{
    ++out->matrices;
    out->blocks += block != out->last;
    out->last = block;
    if (!out->least_rank || rank < out->least_rank) out->least_rank = rank;
    if (rank > out->most_rank) out->most_rank = rank;
}

static hil_status refuse_kind(const hil_peft *peft, const char *name)
{
    if (!peft->dora && !(peft->dropout > 0)) return HIL_OK;
    return hil_fail(HIL_ERR_USAGE,
                    "%s: what target_parameters names has neither DoRA nor dropout, as in PEFT: "
                    "train without, or leave it out of the targets",
                    name);
}

/* Adds the adapter of a linear layer or a router, if its module or its parameter is a target. */
static hil_status adapt_linear(hil_model *model, const hil_config *config, const hil_peft *peft,
                               hil_param *p, hil_lora *out)
{
    const hil_param_spec *spec = hil_param_spec_of(p);
    char name[HIL_PEFT_NAME], module[HIL_PEFT_NAME], own[HIL_PEFT_NAME];
    const hil_arch_stack *row;
    int64_t expert;
    hil_peft_parameter_name(config, spec->name, name, &row, &expert);
    hil_peft_module(name, module);
    if (!hil_peft_is_target(peft, module)) {
        if (!hil_peft_is_parameter(peft, name)) return HIL_OK;
        HIL_TRY(refuse_kind(peft, name));
        memcpy(module, name, sizeof name);
    }
    hil_peft_module(spec->name, own);
    HIL_TRY(adapt(model, p, peft, own, module));
    count_adapter(out, spec->group, hil_peft_rank(peft, module));
    return HIL_OK;
}

/* Adds the adapters of all experts of a layer with the first one's matrix, if the config names the
   parameter. */
static hil_status adapt_experts(hil_model *model, const hil_config *config, const hil_peft *peft,
                                hil_param *p, hil_lora *out)
{
    const hil_param_spec *spec = hil_param_spec_of(p);
    const hil_arch_stack *row;
    int64_t expert, before = (int64_t)hil_store_count(model->store);
    char name[HIL_PEFT_NAME];
    hil_peft_parameter_name(config, spec->name, name, &row, &expert);
    if (!row || row->part != 0 || expert != 0 || !hil_peft_is_parameter(peft, name)) return HIL_OK;
    HIL_TRY(refuse_kind(peft, name));
    HIL_TRY(hil_lora_adapt_experts(model, config, peft, p, row));
    int64_t added = (int64_t)hil_store_count(model->store) - before;
    for (int64_t i = config->mixture.experts; i < added; ++i)
        count_adapter(out, spec->group, hil_peft_rank(peft, name));
    return HIL_OK;
}

hil_status hil_lora_attach(hil_model *model, const hil_config *config, hil_peft *peft,
                           hil_lora *out)
{
    hil_store *store = model->store;
    size_t count = hil_store_count(store);
    char module[HIL_PEFT_NAME];
    *out = (hil_lora){.last = -1};
    HIL_TRY(check_saved(model, config, peft));
    HIL_TRY(hil_lora_expand_targets(model, config, peft));
    for (size_t i = 0; i < count; ++i) {
        hil_param *p = hil_store_at(store, i);
        const hil_param_spec *spec = hil_param_spec_of(p);
        const char *part = hil_peft_memory_module(config, spec->name, module);
        bool bias = strcmp(part, "bias") == 0 && trains_bias(peft, module);
        if (!bias && !hil_peft_is_saved(peft, module)) hil_param_freeze(p);
        if (spec->router || hil_lora_is_linear(model, p))
            HIL_TRY(adapt_linear(model, config, peft, p, out));
        else if (spec->mixture)
            HIL_TRY(adapt_experts(model, config, peft, p, out));
    }
    if (out->matrices) return HIL_OK;
    return hil_fail(HIL_ERR_USAGE, "no linear layer of the blocks is a target of the adapter");
}
