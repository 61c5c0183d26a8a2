/* lora.c - freezes a model and adds the parameters of an adapter. */
#include "model/lora.h"

#include "base/alloc.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Whether the parameter is the matrix of a linear layer: one of a block, which is neither the first
   segment (embeddings) nor the last (head). */
static bool is_linear(const hil_model *model, const hil_param *p)
{
    const hil_param_spec *spec = hil_param_spec_of(p);
    return spec->shape.ndim == 2 && spec->group > 0 && spec->group < (int)model->count - 1;
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

/* Initialises as PEFT does: A uniformly, B with zeros. */
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
    return hil_model_adapt(model, weight, &adapter);
}

/* Adds the last part of a module's name to the list, once. */
static void add_name(const char **list, size_t *count, const char *name)
{
    for (size_t i = 0; i < *count; ++i)
        if (strcmp(list[i], name) == 0) return;
    list[(*count)++] = name;
}

/* The names of all linear layers, instead of "all-linear". */
static hil_status expand_targets(const hil_model *model, hil_peft *peft)
{
    size_t params = hil_store_count(model->store), count = 0;
    char(*module)[HIL_PEFT_NAME] = NULL;
    const char **list = NULL;
    hil_status status;
    HIL_TRY_DONE(HIL_ALLOC(params, &module));
    HIL_TRY_DONE(HIL_ALLOC(params, &list));
    for (size_t i = 0; i < params; ++i) {
        const hil_param *p = hil_store_at(model->store, i);
        if (!is_linear(model, p)) continue;
        hil_peft_module(hil_param_spec_of(p)->name, module[i]);
        const char *dot = strrchr(module[i], '.');
        add_name(list, &count, dot ? dot + 1 : module[i]);
    }
    status = hil_peft_set_targets(peft, list, count);
done:
    hil_free(list);
    hil_free(module);
    return status;
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
    if (json_is_string(peft->targets)) HIL_TRY(expand_targets(model, peft));
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
