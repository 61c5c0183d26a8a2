/* rule_avx512.c - update rules for AVX-512. */
#define RULE_KERNEL hil_rule_avx512
#include "optim/rule_body.h"
