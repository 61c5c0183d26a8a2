/* param.h - inside of the store: one parameter and its states. */
#ifndef HIL_STORE_PARAM_H
#define HIL_STORE_PARAM_H

#include "store/store.h"
#include "tier/buffers.h"

/* Tiles are whole groups of rows, so that a matrix product cut at tile edges has the same sums. */
#define HIL_TILE_MULTIPLE 64

typedef struct hil_use {
    int segment;
    float *sum;  /* fp32, while micro-batches add to it */
    void *given; /* the parameter's dtype, from give_gradient to the end of the step */
} hil_use;

struct hil_param {
    hil_param_spec spec;
    char *name;
    int index;
    int64_t elements;
    int64_t tile_rows;
    bool trainable;
    hil_dtype dtype;
    void *weight;
    void *rest;                /* as in hil_block */
    void *moment[HIL_MOMENTS]; /* in the options' codec */
    int uses;
    hil_use use[HIL_USES];
};

struct hil_store {
    hil_store_options options;
    bool allocated;
    hil_param **params;
    size_t count, capacity;
    hil_buffers *buffers; /* gradients */
};

/* Weights (and what they lack) of elements [first, first + count) from fp32. */
void hil_param_set_master(hil_param *p, int64_t first, int64_t count, const float *in);

#endif
