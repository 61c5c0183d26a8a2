/* The limit holds, and the best level does not depend on having been limited before. */
#include "base/cpu.h"
#include "check.h"

int main(void)
{
    hil_cpu_level best = hil_cpu_best();
    for (int level = HIL_CPU_AMX; level >= HIL_CPU_PORTABLE; --level) {
        hil_cpu_limit((hil_cpu_level)level);
        CHECK_INT(hil_cpu_best(), level < (int)best ? level : (int)best);
    }
    hil_cpu_limit(HIL_CPU_AMX);
    CHECK_INT(hil_cpu_best(), best);
    CHECK(hil_cpu_vectors() <= HIL_CPU_AVX512 && hil_cpu_vectors() <= best);
    CHECK_TEXT(hil_cpu_name(HIL_CPU_PORTABLE), "portable");
    return 0;
}
