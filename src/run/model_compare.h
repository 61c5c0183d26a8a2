/* model_compare.h - checks that all ranks read the same model. */
#ifndef HIL_RUN_MODEL_COMPARE_H
#define HIL_RUN_MODEL_COMPARE_H

#include "comm/facts.h"
#include "run/model_source.h"

/* Fails unless config.json, tokenizer and weights are those of rank 0; ranks may read them from
   different disks.

   [Note: samples] Of every tensor it compares name, dtype and shape, and a checksum of four blocks
   of 4 KiB spread over its data (of all data up to 16 KiB). A rank loads only its own slices;
   hashing whole files would cost as much as loading them on every rank. */
hil_status hil_source_compare(hil_comm *comm, const hil_source *source);

#endif
