/* store.h - owns every parameter and its states; hands them out around the moment of use. */
#ifndef HIL_STORE_STORE_H
#define HIL_STORE_STORE_H

#include "base/pool.h"
#include "tensor/q8.h"
#include "tier/tiers.h"

typedef struct hil_store hil_store;
typedef struct hil_param hil_param;

typedef enum hil_init { HIL_INIT_ZERO, HIL_INIT_ONE, HIL_INIT_NORMAL } hil_init;

typedef struct hil_param_spec {
    const char *name; /* copied */
    hil_shape shape;  /* one or two dimensions */
    hil_init init;
    double std;      /* of HIL_INIT_NORMAL */
    bool no_decay;   /* weight decay leaves it alone: norms and biases */
    bool transposed; /* files hold the transpose (GPT-2's Conv1D) */
} hil_param_spec;

/* How moments are kept. HIL_CODEC_Q8: groups of HIL_CODEC_GROUP elements, the last of a run a whole
   one; the first moment has a sign, the second none; see [Note: q8]. */
#define HIL_CODEC_GROUP HIL_Q8_GROUP
typedef enum hil_codec { HIL_CODEC_F32, HIL_CODEC_Q8 } hil_codec;
static inline size_t hil_codec_bytes(hil_codec codec, int64_t count)
{
    if (codec == HIL_CODEC_F32) return (size_t)count * 4;
    return (size_t)((count + HIL_CODEC_GROUP - 1) / HIL_CODEC_GROUP) * HIL_Q8_GROUP_BYTES;
}

/* Bytes of what weights lack of their fp32 masters; see hil_block. */
static inline size_t hil_rest_bytes(hil_dtype dtype, int64_t count)
{
    return (size_t)count * (dtype == HIL_BF16 ? 2 : dtype == HIL_F16 ? 4 : 0);
}

typedef struct hil_store_options {
    hil_pool *pool; /* borrowed until the store is destroyed */
    hil_dtype compute;
    bool training;    /* with optimizer state and gradients */
    size_t tile_size; /* bytes of compute weights; larger matrices are cut by rows */
    int moments;      /* 0 to HIL_MOMENTS per element, when training */
    hil_codec codec;  /* of the moments */
    hil_tiers *tiers; /* borrowed until the store is destroyed; may be closed before that */
    size_t work;      /* device bytes for gradients */
} hil_store_options;

hil_status hil_store_create(hil_store **out);
void hil_store_destroy(hil_store *store);

hil_status hil_store_add(hil_store *store, const hil_param_spec *spec, hil_param **out);
/* Before the states are made: this parameter only has a weight, rounded to its dtype. */
void hil_param_freeze(hil_param *param);
/* Ends the registration and makes room for every state, all zero. Matrices are kept in the compute
   dtype, vectors (norms, biases) always in fp32. */
hil_status hil_store_allocate(hil_store *store, const hil_store_options *options);
/* Fills every weight from its spec: a function of (seed, parameter, element) alone. */
hil_status hil_store_initialise(hil_store *store, uint64_t seed);

size_t hil_store_count(const hil_store *store);
hil_param *hil_store_at(const hil_store *store, size_t i);
hil_param *hil_store_find(const hil_store *store, const char *name);
const hil_param_spec *hil_param_spec_of(const hil_param *param);
int64_t hil_param_elements(const hil_param *param);
hil_dtype hil_param_dtype(const hil_param *param);
int64_t hil_param_tile_rows(const hil_param *param);
bool hil_param_trainable(const hil_param *param);

/* Around a use, one tile of rows at a time. */
hil_status hil_store_acquire(hil_store *store, hil_param *param, int64_t tile, const void **data);
void hil_store_release(hil_store *store, hil_param *param, int64_t tile);

/* [Note: uses] A parameter used in two segments (tied embeddings) has one gradient per segment that
   uses it: each is summed on its own over the micro-batches, given once, and the update adds them
   in the order in which they were declared. So no order of execution changes the sum. */
#define HIL_USES 4
hil_status hil_store_declare_use(hil_store *store, hil_param *param, int segment);

/* The fp32 sum of one tile's gradient for the use in `segment`: zero at the first call of a step.
 */
hil_status hil_store_sum_acquire(hil_store *store, hil_param *param, int segment, int64_t tile,
                                 float **sum);
void hil_store_sum_release(hil_store *store, hil_param *param, int segment, int64_t tile);
/* The sum over all micro-batches is complete: it is rounded once to the parameter's dtype and kept
   for the update. A use that got no sum in this step gives nothing. */
hil_status hil_store_give_gradient(hil_store *store, hil_param *param, int segment);

/* States as fp32 numbers, for files: elements [first, first + count) in the parameter's own order.
   `first` is a multiple of HIL_CODEC_GROUP, and so is `count` or it reaches the end. */
#define HIL_MOMENTS 2
typedef enum hil_state { HIL_MASTER, HIL_MOMENT1, HIL_MOMENT2, HIL_STATES } hil_state;
/* Frozen parameters have no moments, and a rule may need fewer than HIL_MOMENTS. */
bool hil_param_has(const hil_param *param, hil_state state);
hil_status hil_store_read(hil_store *store, hil_param *param, hil_state state, int64_t first,
                          int64_t count, float *out);
hil_status hil_store_write(hil_store *store, hil_param *param, hil_state state, int64_t first,
                           int64_t count, const float *in);
/* [Note: ranges] Whoever reads or writes a whole state does so in order, one range at a time:
   states may lie on disk in pages of hil_param_chunk elements, counted from the start of each tile,
   and a range is what is left of the page (or of the tile) in which its first element lies. */
int64_t hil_param_chunk(const hil_param *param);
/* How many elements the range that starts at `first` has; 0 at the parameter's end. */
int64_t hil_param_range(const hil_param *param, int64_t first);
/* At least as many as any range of any parameter has, for buffers. */
int64_t hil_store_range(const hil_store *store);

/* What an update rule works on: consecutive elements of one parameter, from a multiple of
   HIL_CODEC_GROUP on. The sums of the norm run over blocks of HIL_BLOCK elements, the last of a
   parameter shorter: they are the same for every placement. */
#define HIL_BLOCK 65536
typedef struct hil_block {
    int64_t count;
    hil_dtype dtype;
    void *weight; /* dtype; with fp32 it is the master itself */
    void *rest; /* what the weight lacks of the master. bf16: its low 16 bits; fp16: all of its 32,
                   of which the weight is the rounding to nearest even; fp32: NULL */
    void *moment[HIL_MOMENTS];      /* in the store's codec */
    const void *gradient[HIL_USES]; /* dtype; to be added in this order in fp32 */
    int gradients;                  /* 0: no gradient was given in this step */
} hil_block;
int64_t hil_param_blocks(const hil_param *param);
hil_status hil_store_block_acquire(hil_store *store, hil_param *param, int64_t block,
                                   hil_block *out);
void hil_store_block_release(hil_store *store, hil_param *param, int64_t block);

/* The step is over: gradients are forgotten. */
void hil_store_step_end(hil_store *store);

#endif
