/* cpu.c - detection of instruction sets. */
#include "base/cpu.h"

#include <pthread.h>
#include <stdatomic.h>

#define UNKNOWN (-1)

static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_int found = UNKNOWN;
static atomic_int limit = HIL_CPU_AMX;

#if defined(__x86_64__)
static bool has_avx2(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
static bool has_bf16(void)
{
    return __builtin_cpu_supports("avx512bf16");
}
#else
static bool has_avx2(void)
{
    return false;
}
static bool has_avx512(void)
{
    return false;
}
static bool has_bf16(void)
{
    return false;
}
#endif

#ifndef HIL_WITH_AMX
bool hil_cpu_probe_amx(void)
{
    return false;
}
#endif

static hil_cpu_level level_of_cpu(void)
{
    if (!has_avx2()) return HIL_CPU_PORTABLE;
    if (!has_avx512()) return HIL_CPU_AVX2;
    if (!has_bf16()) return HIL_CPU_AVX512;
    return hil_cpu_probe_amx() ? HIL_CPU_AMX : HIL_CPU_BF16;
}

static void detect(void)
{
    atomic_store_explicit(&found, (int)level_of_cpu(), memory_order_relaxed);
}

/* Loops ask for every row, so it is a load after the first time. */
hil_cpu_level hil_cpu_best(void)
{
    int level = atomic_load_explicit(&found, memory_order_relaxed);
    if (level == UNKNOWN) {
        pthread_once(&once, detect);
        level = atomic_load_explicit(&found, memory_order_relaxed);
    }
    int most = atomic_load_explicit(&limit, memory_order_relaxed);
    return (hil_cpu_level)(level < most ? level : most);
}

hil_cpu_level hil_cpu_vectors(void)
{
    hil_cpu_level best = hil_cpu_best();
    return best < HIL_CPU_AVX512 ? best : HIL_CPU_AVX512;
}

void hil_cpu_limit(hil_cpu_level level)
{
    atomic_store_explicit(&limit, (int)level, memory_order_relaxed);
}

const char *hil_cpu_name(hil_cpu_level level)
{
    static const char *const names[] = {"portable", "avx2", "avx512", "avx512bf16", "amx"};
    return names[level];
}
