/* op.h - an operation: shape inference, forward and backward on plain tensors. It knows nothing of
   tapes, tiers or ranks; the caller supplies memory and parameters. */
#ifndef HIL_OPS_OP_H
#define HIL_OPS_OP_H

#include "base/pool.h"
#include "device/device.h"
#include "tensor/tensor.h"

#define HIL_OP_TENSORS 4
#define HIL_OP_PARAMS 4

/* A parameter as an operation sees it: a matrix, cut into tiles of whole rows. A vector is one row.
   The tiles depend on the matrix and --tile-size only, never on budgets. */
typedef struct hil_op_param {
    hil_dtype dtype;
    int64_t rows, cols;
    int64_t tile_rows; /* rows per tile; the last may be shorter */
    bool trainable;
    bool fp8; /* linear layers round it and their input to 8 bits: [Note: FP8] in tensor/fp8.h */
} hil_op_param;

static inline int64_t hil_op_tiles(const hil_op_param *p)
{
    return p->rows ? (p->rows + p->tile_rows - 1) / p->tile_rows : 0;
}

/* Rows [first, first + count) of a matrix are one of its tiles. */
typedef struct hil_op_rows {
    int64_t first, count;
} hil_op_rows;
static inline hil_op_rows hil_op_tile(const hil_op_param *p, int64_t tile)
{
    hil_op_rows r = {tile * p->tile_rows, p->rows - tile * p->tile_rows};
    if (r.count > p->tile_rows) r.count = p->tile_rows;
    return r;
}

/* How an operation acquires and releases its parameters: around each use, one tile at a time. */
typedef struct hil_op_source {
    /* Weights of one tile, tile rows x cols, read-only until weight_end. */
    hil_status (*weight_begin)(void *owner, int param, int64_t tile, const void **data);
    void (*weight_end)(void *owner, int param, int64_t tile);
    /* The fp32 sum of the tile's gradient. If *add, the operation adds to it; otherwise its
       contents are undefined, and the operation writes all of it. */
    hil_status (*gradient_begin)(void *owner, int param, int64_t tile, float **sum, bool *add);
    void (*gradient_end)(void *owner, int param, int64_t tile);
} hil_op_source;

/* The key of random numbers: (seed, step, sequence, site, element). */
typedef struct hil_op_random {
    uint64_t seed;
    int64_t step;
    int64_t sequence; /* of batch row 0 */
    uint64_t site;
} hil_op_random;

typedef struct hil_op hil_op;

/* One execution. `infer` reads in[] (dtype and shape), param[], attr and fills out[], saved[] and
   the scratch sizes; `forward` and `backward` get data pointers for all of them. With a dry pool
   they acquire the same tiles in the same order, but must not access data: pointers may be invalid.
   So the order of tiles depends on shapes only. */
typedef struct hil_op_call {
    const hil_op *op;
    const void *attr;
    hil_pool *pool;
    hil_dtype compute;  /* dtype of weights and results */
    bool differentiate; /* backward follows (the fused head needs to know) */
    float loss_scale;   /* gradient of the step's loss with respect to one token's loss */
    hil_op_random random;
    hil_device *device; /* runs the kernels and owns the memory of `data`; NULL: the CPU */
    size_t hold;        /* bytes of tiles that may be acquired at once; one always may */
    /* Fraction of causal pairs left after document masking. 1: `first` is all 0. */
    double share;

    int ins, outs, saveds, params;
    hil_tensor in[HIL_OP_TENSORS];
    hil_tensor out[HIL_OP_TENSORS];
    hil_tensor saved[HIL_OP_TENSORS]; /* written by forward, read by backward */
    hil_tensor dout[HIL_OP_TENSORS];  /* backward: data is NULL where no gradient arrived */
    hil_tensor din[HIL_OP_TENSORS];   /* backward: data is NULL where none is wanted */
    bool din_add[HIL_OP_TENSORS];     /* add to din instead of overwriting it */
    hil_op_param param[HIL_OP_PARAMS];

    size_t forward_scratch, backward_scratch; /* bytes, set by infer */
    void *scratch;                            /* 64-byte aligned */

    const hil_op_source *source;
    void *owner;
} hil_op_call;

struct hil_op {
    const char *name;
    size_t attr_size;
    unsigned keep_in;      /* bit i: backward reads in[i] */
    unsigned keep_out;     /* bit i: backward reads out[i] */
    unsigned keep_trained; /* bits of keep_in that only the gradients of parameters need */
    unsigned
        pass; /* bit i: the gradient of in[i] is dout[0] itself; backward does not compute it */
    unsigned reuse; /* bit i: backward may write din[i] over dout[0]; one bit at most */
    bool cheap;     /* forward costs little and reads only what backward reads as well, so out[] may
                       be recomputed before backward */
    bool light;     /* likewise, but forward costs more; per byte often less than products do */
    bool pure;      /* likewise, at any cost */
    bool loss;      /* backward runs though no gradient arrives for out[] */
    bool once;      /* backward asks for each tile of a gradient once: then it is complete */
    hil_status (*infer)(hil_op_call *call);
    hil_status (*forward)(hil_op_call *call);
    hil_status (*backward)(hil_op_call *call); /* NULL: nothing but `pass`, or no gradient */
};

/* Operations on a device: they acquire tiles like those of the CPU, queue kernels on the compute
   stream and return. Shapes of results are those of the CPU, sizes of scratch may differ. With a
   dry pool nothing is queued. */
typedef struct hil_device_ops {
    hil_status (*infer)(hil_op_call *call);
    hil_status (*forward)(hil_op_call *call);
    hil_status (*backward)(hil_op_call *call);
    /* to = from, or to += from, converted and rounded once; both have the same element count. */
    hil_status (*convert)(hil_device *device, const hil_tensor *to, const hil_tensor *from,
                          bool add);
    /* *out += the fp32 numbers of x, added in a fixed order. `out` is shared memory. */
    hil_status (*sum)(hil_device *device, const hil_tensor *x, double *out);
} hil_device_ops;
static inline void hil_device_ops_set(hil_device *device, const hil_device_ops *ops)
{
    hil_device_attach(device, "operations", ops);
}
static inline const hil_device_ops *hil_device_ops_of(const hil_device *device)
{
    return (const hil_device_ops *)hil_device_attached(device, "operations");
}

/* run.c: on the call's device, or on the CPU. */
hil_status hil_op_infer(hil_op_call *call);
hil_status hil_op_forward(hil_op_call *call);
hil_status hil_op_backward(hil_op_call *call);
/* hil_device_ops.convert and sum of the device, or the same on the CPU. No-ops with a dry pool. */
hil_status hil_op_convert(hil_device *device, hil_pool *pool, const hil_tensor *to,
                          const hil_tensor *from, bool add);
hil_status hil_op_sum(hil_device *device, hil_pool *pool, const hil_tensor *x, double *out);

#endif
