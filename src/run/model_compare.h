/* model_compare.h - what decides the numbers of a run beside its options, compared between ranks.
 */
#ifndef HIL_RUN_MODEL_COMPARE_H
#define HIL_RUN_MODEL_COMPARE_H

#include "comm/facts.h"
#include "run/model_source.h"

/* The model that this rank reads, perhaps from a disk of its own, is that of rank 0: config.json,
   the tokenizer and the weights.

   [Note: samples] Of every tensor its name, dtype and shape count, and four blocks of 4 KiB spread
   over its data (all of it up to 16 KiB): a rank reads only its slices, and hashing whole files
   would cost as much as loading them N times. */
hil_status hil_source_compare(hil_comm *comm, const hil_source *source);

#endif
