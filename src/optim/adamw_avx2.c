/* adamw_avx2.c - AdamW for machines with avx2. */
#include "optim/adamw_rule.h"

static void update(const hil_adamw *rule, const hil_block *block)
{
    adamw_block(rule, block);
}

static double square(const hil_block *block)
{
    return square_block(block);
}

const hil_adamw_kernel hil_adamw_avx2 = {update, square};
