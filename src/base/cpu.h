/* cpu.h - the best instruction set that this machine really runs. */
#ifndef HIL_BASE_CPU_H
#define HIL_BASE_CPU_H

#include <stdbool.h>

/* Each includes those before it. */
typedef enum hil_cpu_level {
    HIL_CPU_PORTABLE,
    HIL_CPU_AVX2,   /* with FMA and F16C */
    HIL_CPU_AVX512, /* F, BW, VL, DQ */
    HIL_CPU_BF16,   /* AVX-512's dot products of bf16 */
    HIL_CPU_AMX,    /* bf16 tiles, tested with a product */
} hil_cpu_level;

/* The best level of this machine and this build, up to the limit. */
hil_cpu_level hil_cpu_best(void);
/* The same for kernels that multiply no matrices: at most HIL_CPU_AVX512. */
hil_cpu_level hil_cpu_vectors(void);

/* Kernels above `level` are not used from now on. HIL_CPU_AMX lifts the limit. */
void hil_cpu_limit(hil_cpu_level level);

const char *
hil_cpu_name(hil_cpu_level level); /* "portable", "avx2", "avx512", "avx512bf16", "amx" */

/* Whether AMX tiles give correct results; asks the kernel for permission to use them. Tested in a
   child process, because some hypervisors announce AMX and then raise SIGILL. */
bool hil_cpu_probe_amx(void);

#endif
