/* lora_targets.h - the targets of an adapter, as PEFT understands them. */
#ifndef HIL_LORA_TARGETS_H
#define HIL_LORA_TARGETS_H

#include "lora/lora.h"

/* Whether the parameter is the matrix of a linear layer: one of a block, which is neither the first
   segment (embeddings) nor the last (head). Routers and experts are not. */
bool hil_lora_is_linear(const hil_model *model, const hil_param *param);
/* Writes names instead of "all-linear" and shell patterns into the config; names of experts become
   parameters. */
hil_status hil_lora_expand_targets(const hil_model *model, const hil_config *config,
                                   hil_peft *peft);

#endif
