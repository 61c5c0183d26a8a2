/* attention_graph.h - a small interface to cuDNN's operation graphs. The first error is kept in the
   graph; later calls do nothing. */
#ifndef HIL_OPS_ATTENTION_ATTENTION_GRAPH_H
#define HIL_OPS_ATTENTION_ATTENTION_GRAPH_H

#include "device/cuda_device.h"

#define HIL_GRAPH_NODES 128
#define HIL_GRAPH_BOUND 16
#define HIL_GRAPH_CONFIGS 8

/* Owns its descriptors. Zero it to begin. */
typedef struct hil_graph {
    cudnnStatus_t bad;
    cudnnBackendDescriptor_t owned[HIL_GRAPH_NODES], operation[HIL_GRAPH_NODES];
    int owns, operations;
    int64_t tensors;                                    /* so far; the last number in use */
    cudnnBackendDescriptor_t config[HIL_GRAPH_CONFIGS]; /* that can run it, best first */
    int configs;
    int64_t workspace;             /* enough for each of them */
    cudnnBackendDescriptor_t plan; /* NULL until built */
} hil_graph;

/* Four dimensions and their strides. */
typedef struct hil_graph_shape {
    int64_t dim[4], stride[4];
} hil_graph_shape;

typedef struct hil_graph_tensor {
    cudnnBackendDescriptor_t descriptor;
    int64_t number;
    hil_graph_shape shape;
} hil_graph_tensor;

typedef enum hil_graph_kind {
    HIL_GRAPH_REAL,   /* in memory */
    HIL_GRAPH_INSIDE, /* between operations */
    HIL_GRAPH_SCALAR  /* one number on the host, given with each call */
} hil_graph_kind;

hil_graph_tensor hil_graph_add(hil_graph *g, hil_graph_kind kind, cudnnDataType_t type,
                               const hil_graph_shape *shape);
/* A result of x's shape, or `out`. y is NULL for functions of one number. */
hil_graph_tensor hil_graph_pointwise(hil_graph *g, cudnnPointwiseMode_t mode,
                                     const hil_graph_tensor *x, const hil_graph_tensor *y,
                                     const hil_graph_tensor *out);
hil_graph_tensor hil_graph_index(hil_graph *g, const hil_graph_tensor *x, int64_t axis,
                                 cudnnDataType_t type);
/* x where the mask is true, else `other`. */
hil_graph_tensor hil_graph_select(hil_graph *g, const hil_graph_tensor *x,
                                  const hil_graph_tensor *other, const hil_graph_tensor *mask);
void hil_graph_reduce(hil_graph *g, cudnnReduceTensorOp_t mode, const hil_graph_tensor *x,
                      const hil_graph_tensor *out);
void hil_graph_multiply(hil_graph *g, const hil_graph_tensor *a, const hil_graph_tensor *b,
                        const hil_graph_tensor *out);
void hil_graph_reshape(hil_graph *g, const hil_graph_tensor *x, const hil_graph_tensor *out);

/* Asks for the engines that can run the graph, which is fast; sets `workspace`. */
void hil_graph_finish(hil_graph *g, cudnnHandle_t handle);
/* Compiles the plan of the first engine that can be built, once; false: none can. */
bool hil_graph_build(hil_graph *g, cudnnHandle_t handle);
void hil_graph_free(hil_graph *g);

/* Runs the plan on `count` (at most HIL_GRAPH_BOUND) real tensors and scalars. */
cudnnStatus_t hil_graph_run(const hil_graph *g, cudnnHandle_t handle, const int64_t *number,
                            void *const *data, int count, void *workspace);

#endif
