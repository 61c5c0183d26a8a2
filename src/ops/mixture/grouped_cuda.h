/* grouped_cuda.h - products of the rows of several experts with their tiles, in one launch. */
#ifndef HIL_OPS_MIXTURE_GROUPED_CUDA_H
#define HIL_OPS_MIXTURE_GROUPED_CUDA_H

#include "ops/cuda_kernel.h"

#define HIL_GROUPED_TILES 128 /* of a launch at most */

/* A tile of an expert: rows [column, column + count) of its weight (N, K). */
typedef struct hil_grouped_tile {
    void *data; /* weights, or the fp32 sum of their gradient */
    bool add;   /* to that sum */
    int32_t expert, column, count;
} hil_grouped_tile;

typedef enum hil_grouped_kind {
    HIL_GROUPED_FORWARD, /* out = in * transposed weight; columns of the tile */
    HIL_GROUPED_INPUT,   /* out = in * weight; in: gradient of the results, columns of the tile */
    HIL_GROUPED_WEIGHT,  /* sum of the tile = transposed in * other */
} hil_grouped_kind;

/* [Note: groups on a GPU] How many rows an expert has is known on the GPU alone: `begin` is there,
   and a launch's threads find out which products there are. The sums of an expert are the same
   whatever other tiles the launch has. */
typedef struct hil_cuda_grouped {
    hil_grouped_kind kind;
    int64_t rows, n, k;
    const int32_t *begin; /* expert e has rows [begin[e], begin[e + 1]) of all matrices */
    hil_view in;          /* (rows, K); INPUT and WEIGHT: (rows, N) */
    hil_view other;       /* WEIGHT: (rows, K) */
    hil_view out;         /* FORWARD: (rows, N); INPUT: (rows, K) */
    bool add;             /* to out */
    hil_dtype dtype;      /* of weights */
    int32_t *taken;       /* 0: how many parts of results this launch's threads have taken */
    int tiles;
    hil_grouped_tile tile[HIL_GROUPED_TILES];
} hil_cuda_grouped;

/* grouped_hopper.cu: whether it can, by dtypes, shapes and device; and it. */
bool hil_grouped_hopper_can(const hil_device *device, hil_dtype dtype, int64_t n, int64_t k);
hil_status hil_grouped_hopper_run(hil_device *device, const hil_cuda_grouped *grouped);

#endif
