/* rank_facts.h - what decides the numbers of a run beside its options, compared between ranks. */
#ifndef HIL_TRAIN_RANK_FACTS_H
#define HIL_TRAIN_RANK_FACTS_H

#include "comm/facts.h"
#include "train/plan.h"
#include "train/source.h"

/* The model that this rank reads, perhaps from a disk of its own, is that of rank 0: config.json,
   the tokenizer and the weights. [Note: samples] Of every tensor its name, dtype and shape count,
   and four blocks of 4 KiB spread over its data (all of it up to 16 KiB): a rank reads only its
   slices, and hashing whole files would cost as much as loading them N times. */
hil_status hil_ranks_compare_model(hil_comm *comm, const hil_source *source);

/* See [Note: one plan] in ranks.h: all ranks came to the same one. */
hil_status hil_ranks_compare_plan(hil_comm *comm, const hil_planned *planned);

#endif
