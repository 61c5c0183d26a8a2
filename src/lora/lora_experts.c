/* lora_experts.c - an A and a B for each expert, in the order of the experts. */
#include "lora/lora_experts.h"

#include <math.h>
#include <string.h>

/* The matrices of one kind of all experts: their weights, or their A or B, follow each other in the
   store. */
static hil_param *expert_at(const hil_store *store, const hil_param *first, int64_t expert)
{
    return hil_store_at(store, hil_param_index(first) + (size_t)expert);
}

/* Adds a matrix like `spec` for each expert, named after its weight. */
static hil_status add_each(hil_store *store, const hil_param *weight, int64_t experts,
                           const char *name, const hil_param_spec *spec, hil_param **first)
{
    char module[HIL_PEFT_NAME];
    for (int64_t e = 0; e < experts; ++e) {
        hil_param_spec one = *spec;
        hil_param *added;
        hil_peft_module(hil_param_spec_of(expert_at(store, weight, e))->name, module);
        HIL_TRY(hil_lora_add_param(store, module, name, &one, &added));
        if (e == 0) *first = added;
    }
    return HIL_OK;
}

hil_status hil_lora_adapt_experts(hil_model *model, const hil_config *config, const hil_peft *peft,
                                  const hil_param *first, const hil_arch_stack *row)
{
    hil_store *store = model->store;
    const hil_param_spec *base = hil_param_spec_of(first);
    int64_t experts = config->mixture.experts, in = base->shape.dim[1], expert;
    char name[HIL_PEFT_NAME], other[HIL_STACKED_NAME];
    const hil_arch_stack *own = row;
    hil_param *a, *b;
    size_t prefix;
    hil_stacked_match(config, row, base->name, &prefix, &expert);
    hil_peft_parameter_name(config, base->name, name, &own, &expert);
    int64_t rank = hil_peft_rank(peft, name);
    hil_param_spec spec = {.shape = {2, {rank, in}},
                           .init = HIL_INIT_UNIFORM,
                           .bound = 1 / sqrt((double)in),
                           .group = base->group,
                           .mixture = true};
    HIL_TRY(add_each(store, first, experts, "lora_A.weight", &spec, &a));
    for (; row->tensor; ++row) {
        if (strcmp(row->tensor, own->tensor) != 0) continue;
        hil_stacked_param_name(row, base->name, (int)prefix, 0, other);
        const hil_param *weight = hil_store_find(store, other);
        if (!weight) return hil_fail(HIL_ERR_INPUT, "the model has no experts %s", other);
        int64_t out = hil_param_spec_of(weight)->shape.dim[0];
        spec.shape = (hil_shape){2, {out, rank}};
        spec.init = HIL_INIT_ZERO;
        HIL_TRY(add_each(store, weight, experts, "lora_B.weight", &spec, &b));
        for (int64_t e = 0; e < experts; ++e)
            HIL_TRY(hil_model_adapt(model, expert_at(store, weight, e),
                                    &(hil_adapter){.a = expert_at(store, a, e),
                                                   .b = expert_at(store, b, e),
                                                   .scale = hil_peft_scale(peft, name)}));
    }
    return HIL_OK;
}
