/* gemm_choose.c - the matrix product's kernels by instruction set. */
#include "ops/linear/gemm_kernel.h"

#include "base/cpu.h"

#ifndef HIL_WITH_AVX2
#define hil_gemm_avx2 hil_gemm_portable
#endif
#ifndef HIL_WITH_AVX512
#define hil_gemm_avx512 hil_gemm_avx2
#endif
#ifndef HIL_WITH_AVX512BF16
#define hil_gemm_avx512bf16 hil_gemm_avx512
#endif
#ifndef HIL_WITH_AMX
#define hil_gemm_amx hil_gemm_avx512bf16
#endif

static const hil_gemm_kernel *const kernels[] = {
    &hil_gemm_portable, &hil_gemm_avx2, &hil_gemm_avx512, &hil_gemm_avx512bf16, &hil_gemm_amx};

const hil_gemm_kernel *hil_gemm_choose(hil_dtype a, hil_dtype b)
{
    hil_cpu_level level = hil_cpu_best();
    if (level > HIL_CPU_AVX512 && (a != HIL_BF16 || b != HIL_BF16)) level = HIL_CPU_AVX512;
    return kernels[level];
}
