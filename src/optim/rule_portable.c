/* rule_portable.c - update rules for any machine. */
#define RULE_KERNEL hil_rule_portable
#include "optim/rule_body.h"
