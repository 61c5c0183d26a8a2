/* trainer.h - training a model of one's own (nn.h), step by step. */
#ifndef HILBERT_TRAINER_H
#define HILBERT_TRAINER_H

#include "hilbert/account.h"
#include "hilbert/comm.h"
#include "hilbert/device.h"
#include "hilbert/memory.h"
#include "hilbert/nn.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hil_trainer hil_trainer; /* borrows the model until destroyed */

typedef struct hil_trainer_options {
    size_t size;               /* set by hil_trainer_defaults */
    const char *dtype;         /* "bf16", "fp32", "fp16" */
    const char *optimizer;     /* "adamw", "lion", "adamw8bit" */
    const char *const *freeze; /* shell patterns of parameter names that stay as they are */
    size_t freeze_count;
    int threads; /* 0: all */
    uint64_t seed;
    double weight_decay, clip, beta1, eps;
    double beta2; /* below 0: what the optimizer usually has */
    bool recompute;
    uint64_t tile_size;
    bool training; /* false: weights only, for evaluation */
    /* The ranks that train together, borrowed; NULL: alone. All of them create the same model with
       the same options and call the same functions in the same order; each holds a part of the
       weights and states. Where one fails, all do. */
    hil_comm *comm;
    int zero; /* stage of ZeRO, with several ranks: 1, 2 or 3; 0: 3 */
    /* A plan of what lives where is made for steps of `sequences` rows of `length` tokens (on each
       rank), `micro_batch` at a time (0: small ones); steps may be others where there is room. */
    int64_t sequences, length, micro_batch;
    int64_t micro_batch_gpu; /* instead of micro_batch where a GPU computes; 0: the same */
    int64_t cache; /* positions of a key/value cache that the plan leaves room for; 0: none */
    hil_device_choice device;
    hil_memory_options memory;
    bool prefetch;
    /* Percent of the device's and the host's memory that the plan leaves free: for a model whose
       path depends on its data, which may need more than the path that was planned. */
    int spare;
    const char *plan;         /* a file to follow instead of planning; may be NULL */
    const char *probe_cache;  /* where measured speeds are kept; NULL: they are assumed */
    const volatile int *stop; /* ends the planning when it becomes non-zero; may be NULL */
} hil_trainer_options;

/* `sequences` rows of `length` tokens. Missing arrays (NULL) get the obvious: targets are the next
   tokens (-1 for the last), positions count from 0, first is 0. */
typedef struct hil_batch {
    int64_t sequences, length;
    const int32_t *token, *target, *position, *first;
} hil_batch;

typedef struct hil_step_result {
    double loss;              /* mean over the step's predicted tokens */
    double grad_norm;         /* before clipping */
    int64_t tokens;           /* predicted */
    hil_step_account account; /* of this rank */
} hil_step_result;

HIL_API void hil_trainer_defaults_sized(hil_trainer_options *options, size_t size);
#define hil_trainer_defaults(options) hil_trainer_defaults_sized(options, sizeof *(options))
/* Weights are initialised from the seed. Until hil_trainer_destroy it borrows the model, and of the
   options the comm and the paths of disks. One thread at a time may use a trainer; it starts
   threads of its own. */
HIL_API hil_status hil_trainer_create(hil_trainer **out, hil_model *model,
                                      const hil_trainer_options *options);
HIL_API void hil_trainer_destroy(hil_trainer *trainer);

/* One optimizer step on `batch`, computed `micro_batch` sequences at a time. With several ranks
   `batch` is this rank's part, as many sequences as every other's; the result is that of all. A
   batch that predicts no token on any rank is refused with HIL_ERR_INPUT, and changes nothing. The
   update may go on after the call; a failure in it is returned by a later one. */
HIL_API hil_status hil_trainer_step(hil_trainer *trainer, const hil_batch *batch,
                                    int64_t micro_batch, double lr, hil_step_result *result);
/* The loss of `batch`. With several ranks each has its own batch, of the same shape as the others',
   and gets that one's loss: NaN when it predicts no token. */
HIL_API hil_status hil_trainer_loss(hil_trainer *trainer, const hil_batch *batch,
                                    hil_step_result *result);
/* Logits of every position of `batch`: (sequences, length, vocabulary), for small things. */
HIL_API hil_status hil_trainer_logits(hil_trainer *trainer, const hil_batch *batch, float *logits);

/* Weights by name as fp32. `count` is checked against the parameter. With several ranks all of them
   read, or write the same numbers. */
HIL_API hil_status hil_trainer_read(hil_trainer *trainer, const char *name, float *out,
                                    int64_t count);
HIL_API hil_status hil_trainer_write(hil_trainer *trainer, const char *name, const float *in,
                                     int64_t count);

#ifdef __cplusplus
}
#endif
#endif
