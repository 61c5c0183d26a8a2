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
    double state_bytes;      /* of a parameter in all; the paper: 20 */
    double weight_bytes;     /* of a weight, and of a gradient, on their way; the paper: 2 */
    double optimizer_bytes;  /* of a parameter that the update reads and writes once; 16 */
    double activation_bytes; /* of an element between layers; the paper: 2 */
} hil_dense;

/* Bytes. */
typedef struct hil_dense_memory {
    double parameters; /* a number */
    double states;
    double activations;         /* all of them, kept */
    double checkpoints;         /* only the inputs of every `interval` layers */
    double working_states;      /* weight and gradient of the largest layer, hidden -> 4 hidden */
    double working_activations; /* between two checkpoints */
} hil_dense_memory;
void hil_dense_count(const hil_dense *model, hil_dense_memory *out);

/* Floating-point operations of a step, recomputation included. */
double hil_dense_work(const hil_dense *model);

/* Operations per byte moved: with recomputation a weight is read three times and its gradient
   written once; the optimizer reads and writes its states; a checkpoint is written and read. */
typedef struct hil_intensity {
    double weights, optimizer, checkpoints;
} hil_intensity;
void hil_dense_intensity(const hil_dense *model, hil_intensity *out);

/* Of a device that computes `peak` operations per second while `bandwidth` bytes per second move
   without overlap; and the bandwidth that an efficiency below 1 needs. */
double hil_efficiency(double intensity, double bandwidth, double peak);
double hil_bandwidth_needed(double intensity, double efficiency, double peak);

#endif
