/* store.h - parameters larger than memory, for programs that have their own models.

   A bank keeps named matrices and vectors with their gradients and optimizer states. Each tile is
   kept in device memory while there is room, else in host memory, else on disk. The program
   acquires a tile for each use, adds to its gradient, and asks for a step; the bank prefetches,
   evicts, rounds and updates. Budgets never change the numbers: the same calls give the same bits
   wherever the tiles are kept.

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
    hil_memory_options memory; /* hard budgets, staging buffers included; here 0 means none */
    const double *disk_speeds; /* relative speed of each disk: bytes are divided by it; NULL: all
                                  disks are equally fast */
    uint64_t window;       /* bytes of device memory for tiles in use and prefetched; 0: chosen */
    const char *dtype;     /* of matrices: "bf16", "fp32", "fp16"; vectors are always fp32 */
    const char *optimizer; /* "adamw", "lion", "adamw8bit" */
    double weight_decay, beta1, eps;
    double beta2;       /* below 0: the optimizer's default */
    double clip;        /* gradients are scaled down to this norm; 0: never */
    uint64_t tile_size; /* bytes in `dtype`; larger matrices are cut by rows */
    int threads;        /* 0: all */
} hil_bank_options;

HIL_API void hil_bank_defaults_sized(hil_bank_options *options, size_t size);
#define hil_bank_defaults(options) hil_bank_defaults_sized(options, sizeof *(options))
HIL_API hil_status hil_bank_create(hil_bank **out, const hil_bank_options *options);
/* Allowed at any time, also in the middle of a pass; removes the swap files. */
HIL_API void hil_bank_destroy(hil_bank *bank);

/* Shape and kind of a parameter. A group is usually a layer: its gradients are given together
   (hil_bank_give_gradients) and its vectors move together. */
typedef struct hil_bank_form {
    int64_t rows, cols; /* rows 0: a vector of `cols` elements, which is never cut */
    int group;          /* 0 or more */
    bool frozen;        /* no gradient, no optimizer state */
    bool no_decay;      /* no weight decay, as for biases and norms */
} hil_bank_form;

/* Call before hil_bank_place. Copies the name. *out belongs to the bank. */
HIL_API hil_status hil_bank_add(hil_bank *bank, const char *name, const hil_bank_form *form,
                                hil_bank_param **out);
/* NULL if no parameter has that name. */
HIL_API hil_bank_param *hil_bank_find(const hil_bank *bank, const char *name);

/* Ends the registration and places every tile, with all numbers zero. HIL_ERR_BUDGET if they do not
   fit; the message says what is missing. */
HIL_API hil_status hil_bank_place(hil_bank *bank);

/* Bytes of weights, gradients and optimizer states in each tier, after hil_bank_place. */
typedef struct hil_bank_bytes {
    uint64_t device, host, disk;
} hil_bank_bytes;
HIL_API hil_bank_bytes hil_bank_placed(const hil_bank *bank);

/* After hil_bank_place. Tile t of a matrix begins at row t * hil_bank_tile_rows; the last tile may
   have fewer rows. A vector is one tile. */
HIL_API int64_t hil_bank_tiles(const hil_bank_param *param);
HIL_API int64_t hil_bank_tile_rows(const hil_bank_param *param);

/* Elements [first, first + count) as fp32; call between steps. Move a large parameter one tile at a
   time: on disk a part of a page costs as much as the page. For matrices in bf16 and fp16 these are
   the fp32 master weights. Moments are for saving and restoring; Lion has only the first. */
typedef enum hil_bank_state { HIL_BANK_WEIGHT, HIL_BANK_MOMENT1, HIL_BANK_MOMENT2 } hil_bank_state;
HIL_API hil_status hil_bank_read(hil_bank *bank, hil_bank_param *param, hil_bank_state state,
                                 int64_t first, int64_t count, float *out);
HIL_API hil_status hil_bank_write(hil_bank *bank, hil_bank_param *param, hil_bank_state state,
                                  int64_t first, int64_t count, const float *in);

/* Begins a training step, or a pass that only reads weights. The bank prefetches in the order of
   use of the last pass of the same kind; another order is slower, never wrong. */
typedef enum hil_bank_pass { HIL_BANK_TRAIN, HIL_BANK_EVAL } hil_bank_pass;
HIL_API hil_status hil_bank_begin(hil_bank *bank, hil_bank_pass pass);
/* Optional. Marks a fixed point of the pass, such as the start of a layer: after uses in another
   order, prefetching resumes from this point of the known order. */
HIL_API hil_status hil_bank_mark(hil_bank *bank);

/* *weights: the tile in its dtype (bf16: the upper half of an fp32 number), row by row, borrowed
   until the release. Waits for the fetch. All tiles acquired at once must fit into the window. */
HIL_API hil_status hil_bank_acquire(hil_bank *bank, hil_bank_param *param, int64_t tile,
                                    const void **weights);
HIL_API void hil_bank_release(hil_bank *bank, hil_bank_param *param, int64_t tile);
/* *sum: the tile's gradient, zero at the first call of a step, borrowed until the release; the
   program adds to it. */
HIL_API hil_status hil_bank_gradient_acquire(hil_bank *bank, hil_bank_param *param, int64_t tile,
                                             float **sum);
HIL_API void hil_bank_gradient_release(hil_bank *bank, hil_bank_param *param, int64_t tile);
/* Declares the gradients of a group complete for this step: they are rounded once to their dtype
   and evicted. Calling it early frees room in the window. */
HIL_API hil_status hil_bank_give_gradients(hil_bank *bank, int group);

/* Gives the gradients not yet given, clips, and starts the update of every parameter that has a
   gradient. The update overlaps what the program does next. *norm is the norm of all gradients
   before clipping. If it is not finite, nothing is updated: with fp16 the loss scale is halved,
   with other dtypes the call fails. */
HIL_API hil_status hil_bank_step(hil_bank *bank, double lr, double *norm);
/* Ends the pass. Everything must be released. Without a step, the gradients are discarded. */
HIL_API hil_status hil_bank_end(hil_bank *bank);
/* Waits for the update. A failure of the update is returned here or by any later call. */
HIL_API hil_status hil_bank_wait(hil_bank *bank);

/* Save and restore this together with weights and moments. */
typedef struct hil_bank_progress {
    int64_t updates;
    int64_t loss_scale; /* the program multiplies its loss by it; 1 unless the dtype is fp16 */
    int64_t since;      /* updates since the loss scale changed */
} hil_bank_progress;
HIL_API hil_bank_progress hil_bank_get_progress(const hil_bank *bank);
/* Call between steps. */
HIL_API hil_status hil_bank_set_progress(hil_bank *bank, const hil_bank_progress *progress);

/* Peaks since hil_bank_place; bytes and seconds since the last call. */
HIL_API void hil_bank_account(hil_bank *bank, hil_step_account *out);

#ifdef __cplusplus
}
#endif
#endif
