/* trainer.h - training your own model (nn.h) step by step. */
#ifndef HILBERT_TRAINER_H
#define HILBERT_TRAINER_H

#include "hilbert/account.h"
#include "hilbert/comm.h"
#include "hilbert/device.h"
#include "hilbert/memory.h"
#include "hilbert/nn.h"
#include "hilbert/preference.h"
#include "hilbert/schedule.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hil_trainer hil_trainer; /* borrows the model until destroyed */

typedef struct hil_trainer_options {
    size_t size;               /* set by hil_trainer_defaults */
    const char *dtype;         /* "bf16", "fp32", "fp16"; "fp8": bf16 with products in 8 bits */
    const char *optimizer;     /* "adamw", "lion", "adamw8bit", "muon" */
    const char *const *freeze; /* shell patterns: parameters with such names are not trained */
    size_t freeze_count;
    int threads; /* 0: all */
    uint64_t seed;
    double weight_decay, clip, beta1, eps;
    double beta2; /* below 0: the optimizer's default */
    bool recompute;
    uint64_t tile_size;
    bool training; /* false: weights only, for evaluation */
    /* The ranks that train together, borrowed; NULL: one rank. All ranks must create the same model
       with the same options and call the same functions in the same order. Each holds a part of
       the weights and states. If one rank fails, all do. */
    hil_comm *comm;
    int zero; /* stage of ZeRO, with several ranks: 1, 2 or 3; 0: 3 */
    /* The plan is made for steps of `sequences` rows of `length` tokens on each rank, computed
       `micro_batch` rows at a time (0: small defaults). Steps of other shapes work if they fit. */
    int64_t sequences, length, micro_batch;
    int64_t micro_batch_gpu; /* instead of micro_batch on a GPU; 0: the same */
    int64_t cache;           /* positions of a key/value cache to plan for; 0: none */
    hil_device_choice device;
    hil_memory_options memory;
    bool prefetch;
    /* Percent of device and host memory that the plan leaves free: a model whose path depends on
       its data may need more than the planned path. */
    int spare;
    const char *plan;         /* plan file to follow; NULL: a plan is made */
    const char *probe_cache;  /* file that caches measured speeds; NULL: speeds are assumed */
    const volatile int *stop; /* a non-zero value stops the planner; may be NULL */
    /* How the blocks' matrices that are not trained are kept: "nf4", "int8", "fp8", "bf16"; they
       are expanded where they are used. NULL: in `dtype`. */
    const char *base_dtype;
    /* Losses that compare answers. Where there is a reference, it is the model without its adapter,
       which must be all that is trained, or its log probabilities come with each batch. Documents
       2k and 2k + 1 of a sequence are the chosen and the rejected answer of a pair; a document
       begins where `first` of a batch names the place itself. A pair without targets does not
       count. */
    hil_preference_loss preference;
    hil_loss_scale loss_scale; /* of fp16; all 0: the default */
} hil_trainer_options;

/* `sequences` rows of `length` tokens. Defaults for arrays that are NULL: targets are the next
   tokens (-1 for the last), positions count from 0, `first` is 0. */
typedef struct hil_batch {
    int64_t sequences, length;
    const int32_t *token, *target, *position, *first;
    /* With hil_preference_loss.precomputed: of each document of each sequence, in their order, the
       sum of the log probabilities of its targets under the reference. With kto also of the answers
       of which kl is the mean. NULL otherwise. */
    const double *reference, *mismatched_reference;
} hil_batch;

typedef struct hil_step_result {
    double loss;              /* mean over the step's predicted tokens, or its pairs */
    double grad_norm;         /* before clipping */
    int64_t tokens;           /* predicted */
    hil_step_account account; /* of this rank */
    hil_preferences preferences;
    double aux_loss; /* of mixtures of experts, before its coefficient; a part of the loss */
} hil_step_result;

HIL_API void hil_trainer_defaults_sized(hil_trainer_options *options, size_t size);
#define hil_trainer_defaults(options) hil_trainer_defaults_sized(options, sizeof *(options))
/* Initialises the weights from the seed. Borrows the model, the comm and the paths of disks until
   hil_trainer_destroy. One thread at a time may use a trainer; it starts threads of its own. */
HIL_API hil_status hil_trainer_create(hil_trainer **out, hil_model *model,
                                      const hil_trainer_options *options);
HIL_API void hil_trainer_destroy(hil_trainer *trainer);

/* One optimizer step on `batch`, computed `micro_batch` sequences at a time. With several ranks
   `batch` is this rank's part, with as many sequences as on every other rank; loss, norm and tokens
   are those of all ranks. If no rank has a token to predict: HIL_ERR_INPUT, and nothing changes.
   The update overlaps what the caller does next; a later call returns its failure. */
HIL_API hil_status hil_trainer_step(hil_trainer *trainer, const hil_batch *batch,
                                    int64_t micro_batch, double lr, hil_step_result *result);
/* The loss of `batch`: NaN if it has no token to predict. With several ranks each passes a batch of
   its own, all of the same shape, and gets the loss of its own batch. */
HIL_API hil_status hil_trainer_loss(hil_trainer *trainer, const hil_batch *batch,
                                    hil_step_result *result);
/* Logits of every position of `batch`: (sequences, length, vocabulary). Meant for small batches. */
HIL_API hil_status hil_trainer_logits(hil_trainer *trainer, const hil_batch *batch, float *logits);

/* Weights by name as fp32. `count` must be the parameter's number of elements. With several ranks
   all must make the call; writers pass the same numbers. */
HIL_API hil_status hil_trainer_read(hil_trainer *trainer, const char *name, float *out,
                                    int64_t count);
HIL_API hil_status hil_trainer_write(hil_trainer *trainer, const char *name, const float *in,
                                     int64_t count);

#ifdef __cplusplus
}
#endif
#endif
