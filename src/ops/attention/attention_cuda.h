/* attention_cuda.h - the implementations of attention on a GPU: a plain kernel for all cases, one
   on tensor cores that skips what documents and windows mask, and cuDNN's. attention_hopper.h has
   another backward. */
#ifndef HIL_OPS_ATTENTION_ATTENTION_CUDA_H
#define HIL_OPS_ATTENTION_ATTENTION_CUDA_H

#include "ops/cuda_kernel.h"
#include "ops/cuda_mask.h"

/* Sizes and tensors as in attention_kernel.h. */
typedef struct hil_cuda_attention {
    int64_t batch, queries, heads, groups, dim;
    int64_t past, capacity;
    hil_view q, k, v;
    int64_t q_stride, kv_stride;
    bool documents;        /* `first` is not all zeros */
    const int32_t *first;  /* read if there are documents */
    int64_t window, chunk; /* chunk: only the plain kernel and the tiles have it */
    float scale;
    float cap;      /* 0: none; only the plain kernel has it */
    hil_view sinks; /* of each head; no data: none. Only the plain kernel has them: [Note: sinks] */
    bool drops;
    hil_mask mask;
    hil_view out;
    float *lse; /* NULL: not wanted */
    /* backward */
    hil_view dout, dq, dk, dv;
    bool add_dq, add_dk, add_dv;
    float *delta; /* (B, H, T) */
} hil_cuda_attention;

/* delta = dout . out */
hil_status hil_attention_delta(hil_device *device, const hil_cuda_attention *a);

/* The sink of a head; see [Note: sinks]. */
static __device__ inline float hil_attention_sink(const hil_cuda_attention &a, int64_t head)
{
    float sink[HIL_WIDE];
    hil_wide_read(hil_wide_load(a.sinks, head, 1), a.sinks.dtype, sink);
    return sink[0];
}
/* Adds sinks to the results and log-sums of an attention without them. */
hil_status hil_attention_sinks_add(hil_device *device, const hil_cuda_attention *a);
/* out (B, H): the sinks' gradients of each sequence. Overwrites delta. */
hil_status hil_attention_sinks_backward(hil_device *device, const hil_cuda_attention *a,
                                        float *out);

/* Heads of up to HIL_PLAIN_DIM numbers. */
#define HIL_PLAIN_DIM 512
hil_status hil_attention_plain_forward(hil_device *device, const hil_cuda_attention *a);
hil_status hil_attention_plain_backward(hil_device *device, const hil_cuda_attention *a);

/* 16 bits, heads of up to 128 numbers (a multiple of 8), no dropout; masked pairs cost nothing. */
bool hil_attention_tiles_can(const hil_cuda_attention *a);
hil_status hil_attention_tiles_forward(hil_device *device, const hil_cuda_attention *a);
hil_status hil_attention_tiles_backward(hil_device *device, const hil_cuda_attention *a);

/* cuDNN's attention: 16 bits, no dropout; masked pairs cost as much as others. Plans are made once
   per shape and owned by the device. Deterministic. *workspace: the bytes that a call needs; false:
   cuDNN cannot compute it. */
bool hil_attention_dnn_plan(hil_device *device, const hil_cuda_attention *a, bool backward,
                            size_t *workspace);
/* Compiles the plan, before its first run; false: that failed. */
bool hil_attention_dnn_build(hil_device *device, const hil_cuda_attention *a, bool backward);
hil_status hil_attention_dnn_forward(hil_device *device, const hil_cuda_attention *a,
                                     void *workspace);
/* Overwrites dq, dk and dv; none may be NULL. */
hil_status hil_attention_dnn_backward(hil_device *device, const hil_cuda_attention *a,
                                      void *workspace);

#endif
