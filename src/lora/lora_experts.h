/* lora_experts.h - adapters of the experts of a layer. */
#ifndef HIL_LORA_EXPERTS_H
#define HIL_LORA_EXPERTS_H

#include "format/peft_experts.h"
#include "lora/lora.h"

/* Registers a parameter of the adapter of a module. */
hil_status hil_lora_add_param(hil_store *store, const char *module, const char *name,
                              hil_param_spec *spec, hil_param **out);
/* Gives an adapter to each matrix that shares the stacked tensor of `row` with `first`, the first
   expert's: [Note: adapters of experts]. */
hil_status hil_lora_adapt_experts(hil_model *model, const hil_config *config, const hil_peft *peft,
                                  const hil_param *first, const hil_arch_stack *row);

#endif
