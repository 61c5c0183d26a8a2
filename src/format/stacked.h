/* stacked.h - files that name or stack tensors otherwise than the model does, in both directions.
   See [Note: stacked tensors]. */
#ifndef HIL_FORMAT_STACKED_H
#define HIL_FORMAT_STACKED_H

#include "format/export.h"
#include "format/peft.h"
#include "model/arch.h"

/* Opens the weights of a model folder, under the names and with the shapes of the model: parts of
   stacked tensors are entries, whose numbers are read from where they are. Keeps nothing of
   `config`. */
hil_status hil_stacked_open(hil_safetensors **out, const char *folder, const hil_config *config);

/* Whether folders hold the transpose of this parameter of a checkpoint, even if the one that it was
   read from did not. */
bool hil_stacked_transposed(const hil_config *config, const char *name);

/* An export with the tensors that files of the architecture have, each read in pieces from the
   tensors of the model. */
typedef struct hil_stacked hil_stacked;
/* `plain` has the tensors of the model, or those of its adapter and `peft` its config; borrowed, as
   is all it borrows. */
hil_status hil_stacked_create(hil_stacked **out, const hil_export *plain, const hil_config *config,
                              const hil_peft *peft);
const hil_export *hil_stacked_export(const hil_stacked *stacked);
void hil_stacked_destroy(hil_stacked *stacked);

#endif
