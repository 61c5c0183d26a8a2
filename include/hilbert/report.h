/* report.h - a plan as data: bytes per tier, transfers, time of a step. */
#ifndef HILBERT_REPORT_H
#define HILBERT_REPORT_H

#include "hilbert/account.h"
#include "hilbert/probe.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { HIL_PLAN_CHANGES = 6 };
/* Bytes of one kind on each tier. */
typedef struct hil_plan_row {
    const char *name; /* "weights", "first moments", "staging buffers", ... */
    uint64_t device, host, disk;
} hil_plan_row;
enum { HIL_PLAN_ROWS = 16 };

/* Counts pairs of a layer and a micro-batch by what is kept for backward. */
typedef struct hil_plan_activations {
    int64_t layers, all;
    int64_t kept, lean, recomputed;     /* lean: without what is cheap to recompute */
    int64_t on_host, on_disk;           /* of `kept` and `lean`: offloaded to that tier */
    int64_t outputs_host, outputs_disk; /* layers whose outputs are offloaded to that tier */
} hil_plan_activations;

/* ZeRO-Infinity's formulas (arXiv 2104.07857): the bandwidth that one kind of transfer needs for an
   efficiency of 50% (for_half) and 90% (for_most), and what this machine has; bytes per second. */
typedef struct hil_plan_link {
    const char *name;
    double flops_per_byte;
    double for_half, for_most, here;
    double efficiency; /* if transfers and computing did not overlap */
} hil_plan_link;
enum { HIL_PLAN_LINKS = 3 };
typedef struct hil_plan_analysis {
    double bytes_per_parameter;
    double states, activations, checkpoints; /* bytes */
    double working_states, working_activations;
    hil_plan_link link[HIL_PLAN_LINKS];
    double peak; /* floating-point operations per second */
    const char *dtype;
} hil_plan_analysis;

/* A step where one part of a cluster is twice as large or fast. */
typedef struct hil_plan_change {
    const char *name; /* "GPU memory", "network", ... */
    double step_seconds;
} hil_plan_change;
/* What a described cluster does with the model, all ranks together. */
typedef struct hil_plan_scale {
    char name[128];
    int64_t nodes, gpus; /* gpus: of a node */
    char gpu[64];
    double tokens_per_second;
    int64_t active; /* parameters that a token uses: of a mixture only the chosen experts' */
    int operations; /* for each of these and token: 6, of an adapter 4; recomputing not counted */
    double flops;   /* these operations per second and GPU */
    hil_plan_change change[HIL_PLAN_CHANGES]; /* of parts that it has; then names are NULL */
    int64_t layers, largest_layers; /* of the model; of the largest that fits, 0: not even one */
    int64_t largest_parameters;
    int64_t hidden, largest_hidden; /* the hidden sizes; largest_hidden 0: it was not asked for */
} hil_plan_scale;

/* Bytes and seconds are of one rank and one step. */
typedef struct hil_plan_report {
    bool fits;          /* false: only `missing`, `budget` and `json` are set */
    char missing[1024]; /* what does not fit, and which options would help */
    hil_plan_row budget;

    const char *model_type, *dtype, *optimizer;
    int64_t parameters, batch, length;
    hil_machine machine;
    const char *gpu;       /* GPU whose speeds are assumed; NULL: none */
    uint64_t gpu_overhead; /* GPU memory of CUDA and its libraries, outside the budget */

    hil_plan_row row[HIL_PLAN_ROWS]; /* kinds with any bytes; states first */
    size_t rows;
    hil_plan_row states, peak; /* states: all weights, gradients and optimizer states together */
    int ranks, zero;
    const char *holds; /* which weights and gradients a rank's device holds at once */
    int64_t micro_batches;
    int64_t group; /* micro-batches that pass a layer before the next layer; 0: no training */
    hil_plan_activations activations;

    uint64_t to_device_bytes, to_host_bytes, disk_read_bytes, disk_written_bytes;
    uint64_t gathered_bytes, reduced_bytes; /* between ranks: of weights, of gradients */
    double step_seconds, compute_seconds, network_seconds;
    hil_wait_seconds wait_seconds;
    const char *limit; /* "compute", "disk", "host link", "update", "memory", "network" */
    char advice[256];  /* what would make a step faster */
    hil_plan_analysis analysis;

    int64_t
        context; /* tokens of a conversation that is planned for, instead of training; 0: none */

    char *json; /* the plan as an object that hil_train_options.plan reads as a file */

    hil_plan_scale scale; /* with a described cluster; else all 0 */
} hil_plan_report;

#ifdef __cplusplus
}
#endif
#endif
