/* store.h - parameters larger than memory, for programs that have their own models.

   A parameter store keeps named matrices and vectors with their gradients and optimizer states.
   Each tile is kept in device memory while there is room, else in host memory, else on disk. The
   program acquires a tile for each use, adds to its gradient, and asks for a step; the store
   prefetches, evicts, rounds and updates. Budgets never change the numbers: the same calls give the
   same bits wherever the tiles are kept.

     hil_param_store_create, _add ..., _place, _write ...
     each step: _begin
                _acquire, _release, _add_gradient (or _gradient_acquire, _gradient_release),
                _give_gradients, as often as needed
                _step, _end
     _read ..., _destroy

   Without a GPU the device is a part of RAM with a budget of its own. With one, addresses of
   weights and gradients are those of its memory, and everything is ordered on the stream that the
   options name: the calls queue work and return. */
#ifndef HILBERT_STORE_H
#define HILBERT_STORE_H

#include "hilbert/account.h"
#include "hilbert/comm.h"
#include "hilbert/device.h"
#include "hilbert/memory.h"
#include "hilbert/schedule.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Owns parameters, memory, swap files and threads. One thread at a time may call its functions. */
typedef struct hil_param_store hil_param_store;
typedef struct hil_stored_param hil_stored_param; /* borrowed from its store */

typedef struct hil_param_store_options {
    size_t size;               /* set by hil_param_store_defaults */
    hil_memory_options memory; /* hard budgets, staging buffers included; without a GPU, 0 means
                                  none for device and host */
    const double *disk_speeds; /* relative speed of each disk: bytes are divided by it; NULL: all
                                  disks are equally fast */
    uint64_t window;       /* bytes of device memory for tiles in use and prefetched; 0: chosen */
    const char *dtype;     /* of matrices: "bf16", "fp32", "fp16"; vectors are always fp32 */
    const char *optimizer; /* "adamw", "lion", "adamw8bit", "muon" */
    double weight_decay, beta1, eps;
    double beta2;       /* below 0: the optimizer's default */
    double clip;        /* gradients are scaled down to this norm; 0: never */
    uint64_t tile_size; /* bytes in `dtype`; larger matrices are cut by rows; UINT64_MAX: none is,
                           every parameter is one tile */
    int threads;        /* 0: all */
    hil_device_choice device; /* "cpu" by default */
    /* On a GPU: the cudaStream_t on which the program computes, NULL for CUDA's default stream. It
       must exist until hil_param_store_destroy. What hil_param_store_acquire returns may be used by
       work that is queued there until the release; a gradient must be complete there when it is
       added, and may be freed in the stream's order. */
    void *stream;
    bool saves; /* hil_param_store_save may be called: takes a buffer of host memory */
    /* The ranks that train together, borrowed; NULL: one rank. Each keeps a part of every state,
       and budgets are divided as hil_memory_options says. All must create the same parameters with
       the same options and make the same calls in the same order, with the same tiles; their
       gradients are added, see `average`. A rank that fails reports it with hil_comm_fail. */
    hil_comm *comm;
    /* Device and host memory of the budgets for hil_param_store_keep: to copy in, and to wait in;
       0: nothing is kept. */
    uint64_t keep_window, keep_host;
    /* File that keeps measured speeds between runs, of drives, GPU and CPU; NULL: nothing is
       measured. They decide how bytes are divided among drives (unless disk_speeds does) and which
       states in host memory a GPU updates, never the numbers. */
    const char *probe_cache;
    bool average; /* gradients of the ranks are averaged instead of added; in the update, so without
                     a rounding of its own */
    hil_loss_scale loss_scale; /* of fp16; all 0: the default */
    bool grows; /* hil_param_store_grow may be called: on a GPU, takes larger buffers of host memory
                 */
} hil_param_store_options;

HIL_API void hil_param_store_defaults_sized(hil_param_store_options *options, size_t size);
#define hil_param_store_defaults(options) hil_param_store_defaults_sized(options, sizeof *(options))
HIL_API hil_status hil_param_store_create(hil_param_store **out,
                                          const hil_param_store_options *options);
/* Allowed at any time, also in the middle of a pass; removes the swap files. */
HIL_API void hil_param_store_destroy(hil_param_store *store);

/* Shape and kind of a parameter. A group is usually a layer: its gradients are given together
   (hil_param_store_give_gradients) and its vectors move together. */
typedef struct hil_param_store_form {
    int64_t rows, cols; /* rows 0: a vector of `cols` elements, which is never cut */
    int group;          /* 0 or more */
    bool frozen;        /* for ever: no gradient, no optimizer state */
    bool no_decay;      /* no weight decay, as for biases and norms */
    int rates; /* 0 or more: whose learning rate and betas apply, see hil_param_store_rates.
                  Any group may have parameters of any rates */
    /* The shape, instead of rows and cols; NULL: those count. Two and more dimensions make a matrix
       of dim[0] rows, one or none a vector. */
    const int64_t *shape;
    int ndim;
} hil_param_store_form;

/* Call before hil_param_store_place. Copies the name and the shape. *out belongs to the store. */
HIL_API hil_status hil_param_store_add(hil_param_store *store, const char *name,
                                       const hil_param_store_form *form, hil_stored_param **out);
/* NULL if no parameter has that name. */
HIL_API hil_stored_param *hil_param_store_find(const hil_param_store *store, const char *name);

/* Ends the registration and places every tile, with all numbers zero. HIL_ERR_BUDGET if they do not
   fit; the message says what is missing. */
HIL_API hil_status hil_param_store_place(hil_param_store *store);

/* Bytes of weights, gradients and optimizer states in each tier, after hil_param_store_place. */
typedef struct hil_param_store_bytes {
    uint64_t device, host, disk;
} hil_param_store_bytes;

/* Instead of hil_param_store_place: says what that would do, or fails as it would, and takes
   neither memory nor disk. Afterwards the store can only be destroyed. One rank. */
typedef struct hil_param_store_estimate {
    hil_param_store_bytes states; /* weights, gradients, optimizer states */
    hil_param_store_bytes taken;  /* all of it, with window and buffers */
    uint64_t window, least_window;
} hil_param_store_estimate;
HIL_API hil_status hil_param_store_estimate_place(hil_param_store *store,
                                                  hil_param_store_estimate *out);
HIL_API hil_param_store_bytes hil_param_store_placed(const hil_param_store *store);

/* Gives the store up to so many bytes of device memory more than its budget (see options.grows):
   once, between steps, on one rank. Units move there, those on disk first; the numbers stay the
   same. *taken: what they took, 0 if none fits. Waits for the update and for a save. */
HIL_API hil_status hil_param_store_grow(hil_param_store *store, uint64_t bytes, uint64_t *taken);

/* After hil_param_store_place. Tile t of a matrix begins at row t * hil_param_store_tile_rows; the
   last tile may have fewer rows. A vector is one tile. */
HIL_API int64_t hil_param_store_tiles(const hil_stored_param *param);
HIL_API int64_t hil_param_store_tile_rows(const hil_stored_param *param);

/* Elements [first, first + count) as fp32; call between steps, on all ranks, which read the same
   and write the same numbers. Move a large parameter one tile at a time: on disk a part of a page
   costs as much as the page. For matrices in bf16 and fp16 these are the fp32 master weights.
   Moments are for saving and restoring; which there are depends on the optimizer and, with Muon, on
   the parameter: hil_param_store_has. */
typedef enum hil_param_store_state {
    HIL_PARAM_STORE_WEIGHT,
    HIL_PARAM_STORE_MOMENT1,
    HIL_PARAM_STORE_MOMENT2
} hil_param_store_state;
HIL_API bool hil_param_store_has(const hil_param_store *store, const hil_stored_param *param,
                                 hil_param_store_state state);
HIL_API hil_status hil_param_store_read(hil_param_store *store, hil_stored_param *param,
                                        hil_param_store_state state, int64_t first, int64_t count,
                                        float *out);
HIL_API hil_status hil_param_store_write(hil_param_store *store, hil_stored_param *param,
                                         hil_param_store_state state, int64_t first, int64_t count,
                                         const float *in);

/* Begins a training step, or a pass that only reads weights. The store prefetches in the order of
   use of the last pass of the same kind; another order is slower, never wrong. */
typedef enum hil_param_store_pass {
    HIL_PARAM_STORE_TRAIN,
    HIL_PARAM_STORE_EVAL
} hil_param_store_pass;
HIL_API hil_status hil_param_store_begin(hil_param_store *store, hil_param_store_pass pass);
/* Optional. Marks a fixed point of the pass, such as the start of a layer: after uses in another
   order, prefetching resumes from this point of the known order. */
HIL_API hil_status hil_param_store_mark(hil_param_store *store);

/* *weights: the tile in its dtype (bf16: the upper half of an fp32 number), row by row, borrowed
   until the release. Waits for the fetch; on a GPU the stream does. All tiles acquired at once must
   fit into the window. */
HIL_API hil_status hil_param_store_acquire(hil_param_store *store, hil_stored_param *param,
                                           int64_t tile, const void **weights);
HIL_API void hil_param_store_release(hil_param_store *store, hil_stored_param *param, int64_t tile);
/* *sum: the tile's gradient, zero at the first call of a step, borrowed until the release; the
   program adds to it. */
HIL_API hil_status hil_param_store_gradient_acquire(hil_param_store *store, hil_stored_param *param,
                                                    int64_t tile, float **sum);
HIL_API void hil_param_store_gradient_release(hil_param_store *store, hil_stored_param *param,
                                              int64_t tile);
/* Adds a gradient of the whole tile to its sum; the first one of a step becomes the sum. `dtype`:
   "fp32", "bf16" or "fp16", of contiguous numbers: in memory of the GPU, where the stream has read
   them when it gets past this call; without a GPU they are read before the call returns. */
HIL_API hil_status hil_param_store_add_gradient(hil_param_store *store, hil_stored_param *param,
                                                int64_t tile, const void *gradient,
                                                const char *dtype);
/* Declares the gradients of a group complete for this step: they are rounded once to their dtype
   and evicted. Calling it early frees room in the window. Gradients that are added all the same
   (hil_param_store_add_gradient) make a second sum, which is rounded on its own; it takes memory
   that was not planned for, of the GPU where the parameter's states are there: HIL_ERR_BUDGET if
   none is left. */
HIL_API hil_status hil_param_store_give_gradients(hil_param_store *store, int group);

/* What form.rates of parameters stand for. Until set: lr 1, the rest as in the options. */
typedef struct hil_param_store_rates {
    double lr; /* multiplied by that of hil_param_store_step */
    double weight_decay, beta1, beta2, eps;
    bool frozen; /* gradients are refused, so nothing is updated; the optimizer states stay */
} hil_param_store_rates;
/* Allowed at any time: `frozen` counts from the next gradient on, the others from the next step
   on. Copies `rates`. */
HIL_API hil_status hil_param_store_set_rates(hil_param_store *store, int number,
                                             const hil_param_store_rates *rates);
HIL_API hil_status hil_param_store_get_rates(const hil_param_store *store, int number,
                                             hil_param_store_rates *out);

/* Gives the gradients not yet given, clips, and starts the update of every parameter that has a
   gradient; the others stay as they are, with their states. The update overlaps what the program
   does next. The learning rate is `lr` times that of the parameter's rates. *norm is the norm of
   all gradients before clipping. If it is not finite, nothing is updated: with fp16 the loss scale
   is halved, with other dtypes the call fails. */
HIL_API hil_status hil_param_store_step(hil_param_store *store, double lr, double *norm);
/* Ends the pass. Everything must be released. Without a step, the gradients are discarded. */
HIL_API hil_status hil_param_store_end(hil_param_store *store);
/* Waits for the update. A failure of the update is returned here or by any later call. */
HIL_API hil_status hil_param_store_wait(hil_param_store *store);

/* Bytes that wait for the program, such as activations between forward and backward: copied to host
   memory, and to disk when `keep_host` is full. HIL_ERR_BUDGET: there is no room. The copy is made
   in the order of the stream: the program may free or change `data` in that order. Between
   hil_param_store_place and hil_param_store_destroy, in a pass or not; each rank for itself. *out
   is the store's, until it is dropped. */
typedef struct hil_kept hil_kept;
HIL_API hil_status hil_param_store_keep(hil_param_store *store, const void *data, uint64_t bytes,
                                        hil_kept **out);
/* Copies them to `into`, in the order of the stream; any number of times. The store fetches ahead
   what was kept before these. */
HIL_API hil_status hil_param_store_fetch(hil_param_store *store, hil_kept *kept, void *into);
/* NULL is fine. */
HIL_API void hil_param_store_drop(hil_param_store *store, hil_kept *kept);

/* How often the parameter was updated: AdamW's moments are corrected by it. Call between steps. */
HIL_API int64_t hil_param_store_updates(const hil_stored_param *param);
HIL_API hil_status hil_param_store_set_updates(hil_stored_param *param, int64_t updates);

/* Save and restore this together with weights and moments. */
typedef struct hil_param_store_progress {
    int64_t updates;    /* of the store; setting it sets those of every parameter */
    int64_t loss_scale; /* the program multiplies its loss by it; 1 unless the dtype is fp16 */
    int64_t since;      /* updates since the loss scale changed; -1: see hil_loss_scale.window */
} hil_param_store_progress;
HIL_API hil_param_store_progress hil_param_store_get_progress(const hil_param_store *store);
/* Call between steps. */
HIL_API hil_status hil_param_store_set_progress(hil_param_store *store,
                                                const hil_param_store_progress *progress);

/* [Note: store checkpoints] A checkpoint is a folder `folder`/step-N in hilbert's format, which
   `hilbert verify` checks: master.safetensors and the moments in fp32, with the parameters' shapes
   (as matrices, if they have more than four dimensions), checksums, the progress of the store and
   of each parameter, and `extra`, a text of the program's that is kept as it is (UTF-8, may be
   NULL). It does not depend on budgets, devices, `tile_size` and dtype: a store with the same
   parameters and optimizer loads it. Rates are the program's to set again. */

/* Begins to save the states as they are now, between steps; later steps overlap the writing. On one
   rank it may also be called in a step, before its update, while nothing is acquired; the gradients
   of that step are not saved. N is
   the number of updates, or more if that one exists. The checkpoint appears as a whole or not at
   all; then all but the `keep` newest ones are removed (0: none). Waits for an earlier save, and
   returns its failure. Copies the strings; creates the folder. */
HIL_API hil_status hil_param_store_save(hil_param_store *store, const char *folder,
                                        const char *extra, int64_t keep);
/* Waits for the save, and returns its failure. */
HIL_API hil_status hil_param_store_saved(hil_param_store *store);

/* A checkpoint that was loaded. The strings belong to the store until the next load. */
typedef struct hil_param_store_loaded {
    int64_t step;        /* N */
    const char *extra;   /* NULL: it has none */
    const char *warning; /* a newer checkpoint is damaged, and how; NULL: none is */
} hil_param_store_loaded;
/* Loads the newest whole checkpoint of the folder, after all its checksums were compared; between
   steps. If it fails the states are undefined, except if there is no checkpoint: HIL_ERR_INPUT. */
HIL_API hil_status hil_param_store_load(hil_param_store *store, const char *folder,
                                        hil_param_store_loaded *out);

/* Peaks since hil_param_store_place; bytes and seconds since the last call. */
HIL_API void hil_param_store_account(hil_param_store *store, hil_step_account *out);

#ifdef __cplusplus
}
#endif
#endif
