/* state.h - reads and writes states as fp32 numbers, for files and initialisation. */
#ifndef HIL_STORE_STATE_H
#define HIL_STORE_STATE_H

#include "store/param.h"

/* Reading and writing concern elements [first, first + count) of the parameter, in its own order.
   Elements of other ranks' slices are skipped. After a pass, all ranks must write the same
   parameters, because a write also evicts the weight's copy from the window. */
typedef enum hil_state { HIL_MASTER, HIL_MOMENT1, HIL_MOMENT2, HIL_STATES } hil_state;
/* False: a frozen parameter has no moments, and an update rule may have fewer than HIL_MOMENTS. */
bool hil_param_has(const hil_param *param, hil_state state);
/* Whether a save puts the state: with an adapter, checkpoints hold only what is trained. */
bool hil_param_is_saved(const hil_param *param, hil_state state);
/* Blocks. */
hil_status hil_store_read(hil_store *store, hil_param *param, hil_state state, int64_t first,
                          int64_t count, float *out);
/* Has read `in` when it returns. Pages on disk are written by the WRITE link from the staging ring,
   while the caller makes the next numbers: reads and passes wait for them. */
hil_status hil_store_write(hil_store *store, hil_param *param, hil_state state, int64_t first,
                           int64_t count, const float *in);
/* Blocks until all that was written is at its home, and returns a failure of it: for the end of a
   loading. */
hil_status hil_store_finish_writes(hil_store *store);
/* Reading and writing the bytes of a quantized weight, which has no numbers of its own: `first`
   counts bytes, and tile t begins at t * hil_param_stride. hil_quantizer_fill quantizes numbers
   (quantizer.h). */
hil_status hil_store_read_quantized(hil_store *store, hil_param *param, int64_t first,
                                    int64_t count, void *out);
hil_status hil_store_write_quantized(hil_store *store, hil_param *param, int64_t first,
                                     int64_t count, const void *in);
int64_t hil_param_stride(const hil_param *param);
/* The numbers of one tile of a quantized weight, in fp32, on every rank. All ranks call it
 * together.
 */
hil_status hil_store_read_expanded(hil_store *store, hil_param *param, int64_t tile, float *out);
/* All of a state, on every rank; of a quantized weight its expanded numbers. All ranks call it
   together. */
hil_status hil_store_read_whole(hil_store *store, hil_param *param, hil_state state, float *out);
/* [Note: ranges] Read and write a whole state in order, one range at a time: a range does not cross
   a page on disk, a tile, or this rank's slice of it, so each page is transferred once. Moves
   *first to the first element at or after it that this rank keeps; returns the elements of the
   range that starts there, 0 at the parameter's end. */
int64_t hil_param_held(const hil_param *param, int64_t *first);
/* An upper bound of the elements of any range, for buffers. */
int64_t hil_store_range(const hil_store *store);

#endif
