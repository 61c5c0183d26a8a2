/* rule.c - the update rules by name and by instruction set; all sets give the same bits. */
#include "optim/rule_kernel.h"

#include "base/cpu.h"
#include "ops/ops.h"

#include <string.h>

#ifndef HIL_WITH_AVX2
#define hil_rule_avx2 hil_rule_portable
#endif
#ifndef HIL_WITH_AVX512
#define hil_rule_avx512 hil_rule_avx2
#endif

const hil_rule hil_rules[HIL_RULES] = {
    {"adamw", HIL_ADAMW, 2, HIL_CODEC_F32, NULL, 0.95, true},
    {"lion", HIL_LION, 1, HIL_CODEC_F32, NULL, 0.99, false},
    {"adamw8bit", HIL_ADAMW8BIT, 2, HIL_CODEC_Q8, NULL, 0.95, false},
    {"muon", HIL_MUON, 2, HIL_CODEC_F32, &hil_op_orthogonal, 0.95, false},
};

hil_status hil_rule_find(const char *name, const hil_rule **out)
{
    for (int i = 0; i < HIL_RULES; ++i)
        if (strcmp(name, hil_rules[i].name) == 0) {
            *out = &hil_rules[i];
            return HIL_OK;
        }
    return hil_fail(HIL_ERR_USAGE,
                    "unknown optimizer \"%s\": expected adamw, lion, adamw8bit or muon", name);
}

static const hil_rule_kernel *kernel(void)
{
    static const hil_rule_kernel *const kernels[] = {&hil_rule_portable, &hil_rule_avx2,
                                                     &hil_rule_avx512};
    return kernels[hil_cpu_vectors()];
}

void hil_rule_update(const hil_rule *rule, const hil_rule_step *step, const hil_block *block)
{
    kernel()->update[rule->kind](step, block);
}
