/* adamw.c - AdamW's kernels by instruction set; all give the same bits. */
#include "optim/adamw_rule.h"

#include "base/cpu.h"

#ifndef HIL_WITH_AVX2
#define hil_adamw_avx2 hil_adamw_portable
#endif
#ifndef HIL_WITH_AVX512
#define hil_adamw_avx512 hil_adamw_avx2
#endif

static const hil_adamw_kernel *const kernels[] = {&hil_adamw_portable, &hil_adamw_avx2,
                                                  &hil_adamw_avx512, &hil_adamw_avx512};

void hil_adamw_block(const hil_adamw *rule, const hil_block *block)
{
    kernels[hil_cpu_best()]->update(rule, block);
}

double hil_block_square(const hil_block *block)
{
    return kernels[hil_cpu_best()]->square(block);
}
