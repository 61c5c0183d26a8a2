/* rule_avx2.c - update rules for AVX2. */
#define RULE_KERNEL hil_rule_avx2
#include "optim/rule_body.h"
