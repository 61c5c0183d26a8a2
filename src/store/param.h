/* param.h - parameters: what a model registers, and the segments that use each. */
#ifndef HIL_STORE_PARAM_H
#define HIL_STORE_PARAM_H

#include "store/plan.h"
#include "tensor/quant.h"
#include "kernels/block.h"

typedef struct hil_store hil_store;
typedef struct hil_param hil_param;

typedef enum hil_init {
    HIL_INIT_ZERO,
    HIL_INIT_ONE,
    HIL_INIT_STD, /* all numbers are `std` */
    HIL_INIT_NORMAL,
    HIL_INIT_UNIFORM,
    HIL_INIT_LOG,       /* logarithms of numbers drawn evenly */
    HIL_INIT_LOG_COUNT, /* those of 1, 2, 3, ... */
    HIL_INIT_STEP, /* inverse softplus of numbers from 0.001 to 0.1, drawn evenly in logarithms */
} hil_init;

typedef struct hil_param_spec {
    const char *name; /* copied */
    hil_shape shape;  /* one or two dimensions */
    hil_shape filed;  /* in checkpoints, of as many elements; no dimensions: as `shape` */
    hil_init init;
    double std;   /* of HIL_INIT_NORMAL */
    double bound; /* HIL_INIT_UNIFORM draws from [-bound, bound), HIL_INIT_LOG from [0.01, bound) */
    bool no_decay;   /* no weight decay: norms and biases */
    bool transposed; /* files hold the transpose (GPT-2's Conv1D) */
    int group;       /* vectors of one group share a unit, so they are moved together */
    bool mixture;    /* a router, an expert, or never trained: no target by its module's name */
    bool adapter;    /* added by an adapter: the base model's files do not have it */
    bool router;     /* its outputs choose the experts: never kept in few bits */
    bool linear;     /* in the first segment: of a linear layer, no embedding */
} hil_param_spec;

/* Registers a parameter, which the store owns; before hil_store_arrange. Copies the spec and its
   name. */
hil_status hil_store_add(hil_store *store, const hil_param_spec *spec, hil_param **out);
/* Before hil_store_arrange: the parameter gets no gradient, no master and no moments, only a weight
   rounded to its dtype. */
void hil_param_freeze(hil_param *param);

/* Sets hil_param_spec.linear. */
void hil_param_mark_linear(hil_param *param);

/* Which of the numbers of the next update apply to this parameter: hil_block.numbers of its blocks.
   Unless set: 1 with weight decay, 0 without. */
void hil_param_set_numbers(hil_param *param, int numbers);

/* Whether it is updated as a whole and has one moment, by hil_store_options.matrix:
   [Note: matrix scope] in sweep_matrix.c. */
bool hil_param_is_matrix(const hil_param *param);

/* Before hil_store_arrange: the weight of this matrix, which must not be trained, is kept quantized
   and expanded where it is used. */
void hil_param_quantize(hil_param *param, hil_quant quant);
/* Whether it is a matrix of a block, but no router and not of an adapter: what --base-dtype keeps
   in few bits. */
bool hil_param_quantizes(const hil_param *param);

/* Whether linear layers round this weight and their input to 8 bits: by hil_store_options.fp8 those
   that --base-dtype could keep in few bits. [Note: FP8] in tensor/fp8.h. */
bool hil_param_fp8(const hil_param *param);

size_t hil_store_count(const hil_store *store);
/* The parameter's number in the order of registration: hil_store_at(store, index). */
size_t hil_param_index(const hil_param *param);
hil_param *hil_store_at(const hil_store *store, size_t i);
hil_param *hil_store_find(const hil_store *store, const char *name);
const hil_param_spec *hil_param_spec_of(const hil_param *param);
int64_t hil_param_elements(const hil_param *param);
/* Its shape in checkpoints. */
const hil_shape *hil_param_filed(const hil_param *param);
/* The dtype in which operations see the weight, also a quantized one. */
hil_dtype hil_param_dtype(const hil_param *param);
int64_t hil_param_tile_rows(const hil_param *param);
bool hil_param_trainable(const hil_param *param);
/* HIL_QUANT_NONE: the weight is kept in its dtype. */
hil_quant hil_param_quant(const hil_param *param);
/* How often bytes of a quantized weight were written: it changes when they do. */
int64_t hil_param_writes(const hil_param *param);
/* A tile of a quantized parameter, whose bytes hil_store_acquire gives. */
void hil_param_quant_tile(const hil_param *param, int64_t tile, hil_quant_tile *out);

/* [Note: uses] A parameter used in two segments (tied embeddings) has one gradient per segment that
   uses it. Each is summed over the micro-batches separately and given once; the update adds them in
   the order of the segments. So the order of execution does not change the sum. A frozen parameter
   has no gradient and may be declared for any number of segments. */
hil_status hil_store_declare_use(hil_store *store, hil_param *param, int segment);

/* What makes a matrix that of an expert: the routing of its segment that decides which tokens it
   gets. */
typedef struct hil_expert {
    int segment;
    int routing;             /* number within the segment, from 1 on; 0: no expert */
    int64_t number, experts; /* which of how many */
    int64_t chosen;          /* experts of each token */
} hil_expert;
/* hil_store_declare_use for a matrix of an expert. */
hil_status hil_store_declare_expert(hil_store *store, hil_param *param, const hil_expert *expert);

#endif
