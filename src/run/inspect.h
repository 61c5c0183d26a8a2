/* inspect.h - the parts of hilbert inspect. */
#ifndef HIL_RUN_INSPECT_H
#define HIL_RUN_INSPECT_H

#include "base/json.h"

#include <stdio.h>

/* What the manifest of the checkpoint `dir` says of the run and of its files, as text or as the
   member "checkpoint". One that is damaged is worth a line, not a failure. */
hil_status hil_inspect_manifest_print(const char *dir, FILE *out);
hil_status hil_inspect_manifest_add(const char *dir, json_t *root);

#endif
