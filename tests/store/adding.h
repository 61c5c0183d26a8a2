/* adding.h - the arithmetic of the tests' models, on the CPU or on a device of threads. */
#ifndef TESTS_STORE_ADDING_H
#define TESTS_STORE_ADDING_H

#include "check.h"
#include "device/device_threads.h"
#include "optim/math_threads.h"

enum { ADDING_MOST = 128 * 72 };

/* sum = factor * weight, or sum += factor * weight. */
typedef struct adding {
    const void *weight;
    hil_dtype dtype;
    float *sum;
    int64_t count;
    float factor;
    bool add;
} adding;

static inline hil_status adding_run(void *args)
{
    const adding *a = args;
    float full[ADDING_MOST];
    CHECK(a->count <= ADDING_MOST);
    hil_dtype_to_f32(full, a->weight, a->dtype, a->count);
    for (int64_t i = 0; i < a->count; ++i)
        a->sum[i] = (a->add ? a->sum[i] : 0) + a->factor * full[i];
    return HIL_OK;
}

static inline hil_status adding_do(hil_device *device, adding *a)
{
    if (!device) return adding_run(a);
    return hil_device_threads_call(device, HIL_STREAM_COMPUTE, adding_run, a, sizeof *a);
}

/* A device whose streams are delayed at random. */
static inline hil_device *adding_device(uint64_t seed, unsigned microseconds)
{
    hil_device *device;
    CHECK_OK(hil_device_threads_open(&device));
    hil_device_math_set(device, &hil_math_threads);
    hil_device_threads_delay(device, seed, microseconds);
    return device;
}

#endif
