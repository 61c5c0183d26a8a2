/* normal.c - see normal.h; whole groups by the best instruction set, all of which give the same
   bits. */
#include "base/normal_kernel.h"

#include "base/cpu.h"

#ifndef HIL_WITH_AVX2
#define hil_normal_avx2 hil_normal_portable
#endif
#ifndef HIL_WITH_AVX512
#define hil_normal_avx512 hil_normal_avx2
#endif

void hil_normal_fill(uint64_t key, uint64_t high, int64_t first, int64_t count, float scale,
                     float *out)
{
    static hil_normal_kernel *const kernels[] = {hil_normal_portable, hil_normal_avx2,
                                                 hil_normal_avx512};
    hil_normal_kernel *kernel = kernels[hil_cpu_vectors()];
    hil_normal_groups groups = {.key = key, .high = high};
    for (int64_t at = first, end = first + count; at < end;) {
        groups.first = (uint64_t)at / 4;
        int64_t begin = at / 4 * 4, n = begin + 4 * HIL_NORMAL_GROUPS;
        if (n > end) n = end;
        kernel(&groups);
        for (int64_t i = at; i < n; ++i) out[i - first] = scale * groups.out[i - begin];
        at = n;
    }
}
