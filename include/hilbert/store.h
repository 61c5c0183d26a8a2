/* store.h - parameters larger than memory, for programs that have their own models.

   A bank keeps named matrices and vectors with their gradients and optimizer states, each tile
   where there is room: first in device memory, then in host memory, then on disk. The program takes
   a tile around each use, adds to its gradient, and asks for a step; fetching, prefetching,
   rounding and updating happen behind that. Budgets never change the numbers: the same calls give
   the same bits wherever everything lives.

     hil_bank_create, hil_bank_add ..., hil_bank_place, hil_bank_write ...
     each step: hil_bank_begin
                hil_bank_acquire, hil_bank_release, hil_bank_gradient_acquire,
                hil_bank_gradient_release, hil_bank_give_gradients, as often as needed
                hil_bank_step, hil_bank_end
     hil_bank_read ..., hil_bank_destroy

   Without a GPU the device is a part of RAM with a budget of its own. */
#ifndef HILBERT_STORE_H
#define HILBERT_STORE_H

#include "hilbert/account.h"
#include "hilbert/memory.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Owns parameters, memory, swap files and threads. One thread at a time may call its functions. */
typedef struct hil_bank hil_bank;
typedef struct hil_bank_param hil_bank_param; /* borrowed from its bank */

typedef struct hil_bank_options {
    size_t size;               /* set by hil_bank_defaults */
    hil_memory_options memory; /* all that may be used, staging included; here 0 is none */
    const double *disk_speeds; /* of each disk against the others, which share the load by it;
                                  NULL: all are alike */
    uint64_t window;       /* of the device's memory, for what comes and goes; 0: a share of it */
    const char *dtype;     /* of matrices: "bf16", "fp32", "fp16"; vectors are always fp32 */
    const char *optimizer; /* "adamw", "lion", "adamw8bit" */
    double weight_decay, beta1, eps;
    double beta2;       /* below 0: what the optimizer usually has */
    double clip;        /* largest norm of all gradients; 0: none */
    uint64_t tile_size; /* bytes in `dtype`; larger matrices are cut by rows */
    int threads;        /* 0: all */
} hil_bank_options;

HIL_API void hil_bank_defaults_sized(hil_bank_options *options, size_t size);
#define hil_bank_defaults(options) hil_bank_defaults_sized(options, sizeof *(options))
HIL_API hil_status hil_bank_create(hil_bank **out, const hil_bank_options *options);
/* At any time; nothing is left behind. */
HIL_API void hil_bank_destroy(hil_bank *bank);

/* What a parameter is. Gradients of one group (a layer, as a rule) are given together, and its
   vectors move together. */
typedef struct hil_bank_form {
    int64_t rows, cols; /* rows 0: a vector of `cols` elements, which is never cut */
    int group;          /* 0 or more */
    bool frozen;        /* no gradient, no optimizer state */
    bool no_decay;      /* weight decay leaves it alone: biases, norms */
} hil_bank_form;

/* Before hil_bank_place. The name is copied. */
HIL_API hil_status hil_bank_add(hil_bank *bank, const char *name, const hil_bank_form *form,
                                hil_bank_param **out);
/* NULL: there is none of that name. */
HIL_API hil_bank_param *hil_bank_find(const hil_bank *bank, const char *name);

/* Ends the registration and finds a place for everything, or says what is missing
   (HIL_ERR_BUDGET). All numbers are zero then. */
HIL_API hil_status hil_bank_place(hil_bank *bank);

/* Bytes of weights, gradients and optimizer states in each tier, after hil_bank_place. */
typedef struct hil_bank_bytes {
    uint64_t device, host, disk;
} hil_bank_bytes;
HIL_API hil_bank_bytes hil_bank_placed(const hil_bank *bank);

/* Tile t of a matrix has the rows from t * hil_bank_tile_rows on; the last may have fewer. A vector
   is one tile. After hil_bank_place. */
HIL_API int64_t hil_bank_tiles(const hil_bank_param *param);
HIL_API int64_t hil_bank_tile_rows(const hil_bank_param *param);

/* Elements [first, first + count) as fp32, between steps. A large parameter is moved piece by
   piece, best a tile at a time: on disk, a piece of a page costs as much as the page. Matrices in
   bf16 and fp16 have fp32 masters, which is what is read and written. The moments are for saving
   and restoring; Lion has the first only. */
typedef enum hil_bank_state { HIL_BANK_WEIGHT, HIL_BANK_MOMENT1, HIL_BANK_MOMENT2 } hil_bank_state;
HIL_API hil_status hil_bank_read(hil_bank *bank, hil_bank_param *param, hil_bank_state state,
                                 int64_t first, int64_t count, float *out);
HIL_API hil_status hil_bank_write(hil_bank *bank, hil_bank_param *param, hil_bank_state state,
                                  int64_t first, int64_t count, const float *in);

/* A step, or a pass that only reads weights. The order of uses in the last one of its kind is what
   is fetched ahead in this one; another order is slower, never wrong. */
typedef enum hil_bank_pass { HIL_BANK_TRAIN, HIL_BANK_EVAL } hil_bank_pass;
HIL_API hil_status hil_bank_begin(hil_bank *bank, hil_bank_pass pass);
/* Says that the program is at a fixed point of its pass, such as the next layer: after a detour the
   known order goes on from there. Nobody has to. */
HIL_API hil_status hil_bank_mark(hil_bank *bank);

/* The tile's weights in its dtype (bf16 as the upper half of an fp32 number), row by row, until the
   release. What is acquired at once must fit into the window. */
HIL_API hil_status hil_bank_acquire(hil_bank *bank, hil_bank_param *param, int64_t tile,
                                    const void **weights);
HIL_API void hil_bank_release(hil_bank *bank, hil_bank_param *param, int64_t tile);
/* The tile's sum of gradients, to be added to: zero at the first call of a step. */
HIL_API hil_status hil_bank_gradient_acquire(hil_bank *bank, hil_bank_param *param, int64_t tile,
                                             float **sum);
HIL_API void hil_bank_gradient_release(hil_bank *bank, hil_bank_param *param, int64_t tile);
/* The sums of a group are complete for this step: they are rounded once to their dtype and leave
   the device. The sooner, the more room for others. */
HIL_API hil_status hil_bank_give_gradients(hil_bank *bank, int group);

/* Gives what was not given, clips, and starts the update of every parameter that has a gradient; it
   goes on beside what follows. *norm is that of all gradients before clipping. With fp16 it may be
   infinite or no number: then nothing is updated and the loss scale is halved. With other dtypes
   that is a failure, and nothing is updated. */
HIL_API hil_status hil_bank_step(hil_bank *bank, double lr, double *norm);
/* Ends the pass. Everything must be released; gradients are forgotten where there was no step. */
HIL_API hil_status hil_bank_end(hil_bank *bank);
/* Waits for the update. Its failure, such as that of a drive, is this call's or any later one's. */
HIL_API hil_status hil_bank_wait(hil_bank *bank);

/* What has to be saved and restored beside the states. */
typedef struct hil_bank_progress {
    int64_t updates;
    int64_t loss_scale; /* gradients have to be larger by it; 1 unless the dtype is fp16 */
    int64_t since;      /* updates since the scale changed */
} hil_bank_progress;
HIL_API hil_bank_progress hil_bank_get_progress(const hil_bank *bank);
/* Between steps. */
HIL_API hil_status hil_bank_set_progress(hil_bank *bank, const hil_bank_progress *progress);

/* Peaks since hil_bank_place; bytes and seconds since the last call. */
HIL_API void hil_bank_account(hil_bank *bank, hil_step_account *out);

#ifdef __cplusplus
}
#endif
#endif
