/* each_level.h - runs a check for every instruction set of this CPU. */
#ifndef TESTS_OPS_EACH_LEVEL_H
#define TESTS_OPS_EACH_LEVEL_H

#include "base/cpu.h"
#include "base/pool.h"
#include "check.h"

/* `check` gets pools of one and of three threads. */
static inline void each_level(void (*check)(hil_pool *one, hil_pool *three))
{
    hil_pool *one, *three;
    CHECK_OK(hil_pool_create(&one, 1));
    CHECK_OK(hil_pool_create(&three, 3));
    hil_cpu_level best = hil_cpu_best();
    for (int level = HIL_CPU_PORTABLE; level <= (int)best; ++level) {
        hil_cpu_limit((hil_cpu_level)level);
        check(one, three);
    }
    hil_pool_destroy(one);
    hil_pool_destroy(three);
}

#endif
