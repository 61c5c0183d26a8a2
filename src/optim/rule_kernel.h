/* rule_kernel.h - the functions of the update rules that are compiled per instruction set. */
#ifndef HIL_OPTIM_RULE_KERNEL_H
#define HIL_OPTIM_RULE_KERNEL_H

#include "optim/rule.h"

typedef struct hil_rule_kernel {
    void (*update[HIL_RULES])(const hil_rule_step *step, const hil_block *block);
} hil_rule_kernel;

extern const hil_rule_kernel hil_rule_portable, hil_rule_avx2, hil_rule_avx512;

#endif
