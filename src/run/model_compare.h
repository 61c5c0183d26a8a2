/* model_compare.h - checks that all ranks read the same model. */
#ifndef HIL_RUN_MODEL_COMPARE_H
#define HIL_RUN_MODEL_COMPARE_H

#include "comm/facts.h"
#include "run/model_source.h"

/* Fails unless config.json, tokenizer, weights and adapter are those of rank 0; ranks may read them
   from different disks. Of every tensor it compares name, dtype, shape and hil_weights_sample. */
hil_status hil_source_compare(hil_comm *comm, const hil_source *source);

#endif
