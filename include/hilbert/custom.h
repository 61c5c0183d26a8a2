/* custom.h - operations of your own, on the CPU: what hil_custom of nn.h takes. */
#ifndef HILBERT_CUSTOM_H
#define HILBERT_CUSTOM_H

#include <stddef.h>
#include <stdint.h>

#include "hilbert/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Numbers in fp32, whatever the model computes in; row after row. */
typedef struct hil_custom_tensor {
    int dims;
    int64_t dim[4];
    int64_t count; /* of all numbers */
    float *data;   /* NULL: a gradient that nobody wants */
} hil_custom_tensor;

#define HIL_CUSTOM_INPUTS 3

/* y = f(x[0], ...), of the shape of x[0]. The functions are called on the thread that trains, and
   again whenever the engine recomputes: the same inputs must give the same bits. */
typedef struct hil_custom_options {
    size_t size;      /* set by hil_custom_defaults */
    const char *name; /* for messages; read within the call */
    void *context;    /* borrowed as long as the model exists */
    /* Writes all of y. */
    void (*forward)(void *context, const hil_custom_tensor *x, const hil_custom_tensor *y);
    /* Writes all of dx[i] where it has data. */
    void (*backward)(void *context, const hil_custom_tensor *x, const hil_custom_tensor *dy,
                     const hil_custom_tensor *dx);
    /* Its cost, for the planner: how many times as long as reading the inputs and writing the
       result it takes. */
    double passes;
} hil_custom_options;
HIL_API void hil_custom_defaults_sized(hil_custom_options *options, size_t size);
#define hil_custom_defaults(options) hil_custom_defaults_sized(options, sizeof *(options))

#ifdef __cplusplus
}
#endif
#endif
