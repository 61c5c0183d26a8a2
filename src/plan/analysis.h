/* analysis.h - ZeRO-Infinity's analysis of memory and bandwidth (arXiv 2104.07857, sections 3 and
   4) for a dense transformer. Pure functions. */
#ifndef HIL_PLAN_ANALYSIS_H
#define HIL_PLAN_ANALYSIS_H

#include <stdint.h>

typedef struct hil_dense {
    double layers, hidden, heads;
    double batch, seq;       /* sequences of a step on one device, and their length */
    double interval;         /* layers between activation checkpoints */
    double parameters;       /* 0: 12 * layers * hidden^2 */
    double state_bytes;      /* all states of a parameter; the paper: 20 */
    double weight_bytes;     /* a weight or a gradient in a transfer; the paper: 2 */
    double optimizer_bytes;  /* per parameter that the update reads and writes; the paper: 16 */
    double activation_bytes; /* an element between layers; the paper: 2 */
} hil_dense;

/* Bytes. */
typedef struct hil_dense_memory {
    double parameters; /* a count, not bytes */
    double states;
    double activations;         /* if all are kept */
    double checkpoints;         /* only the inputs of every `interval` layers */
    double working_states;      /* weight and gradient of the largest layer, hidden -> 4 hidden */
    double working_activations; /* between two checkpoints */
} hil_dense_memory;
void hil_dense_count(const hil_dense *model, hil_dense_memory *out);

/* Floating-point operations of a step, with recompute. */
double hil_dense_work(const hil_dense *model);

/* Operations per byte moved. With recompute a step reads each weight three times and writes its
   gradient once; the update reads and writes its states; activation checkpoints are written and
   read. */
typedef struct hil_intensity {
    double weights, optimizer, checkpoints;
} hil_intensity;
void hil_dense_intensity(const hil_dense *model, hil_intensity *out);

/* Efficiency of a device with `peak` operations per second and transfers at `bandwidth` bytes per
   second that do not overlap; and the bandwidth that a given efficiency below 1 needs. */
double hil_efficiency(double intensity, double bandwidth, double peak);
double hil_bandwidth_needed(double intensity, double efficiency, double peak);

#endif
