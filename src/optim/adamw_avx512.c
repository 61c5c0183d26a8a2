/* adamw_avx512.c - AdamW for machines with avx512. */
#include "optim/adamw_rule.h"

static void update(const hil_adamw *rule, const hil_block *block)
{
    adamw_block(rule, block);
}

static double square(const hil_block *block)
{
    return square_block(block);
}

const hil_adamw_kernel hil_adamw_avx512 = {update, square};
