/* stacked_names.h - names of tensors and parameters in the rows of hil_arch.stacks. */
#ifndef HIL_FORMAT_STACKED_NAMES_H
#define HIL_FORMAT_STACKED_NAMES_H

#include "model/arch.h"

#define HIL_STACKED_NAME 256 /* bytes of a name */

/* Whether the tensor holds a matrix of each expert. */
bool hil_stacked_each(const hil_arch_stack *row);
/* The length of "<blocks>N."; 0: the name does not begin so. */
int hil_stacked_block(const hil_config *config, const char *name);
/* The length of "<blocks>N.", if the name is that and `rest`; 0: it is not. */
size_t hil_stacked_prefix(const hil_config *config, const char *name, const char *rest);
/* The parameter's name, with the first `prefix` bytes of `name`. */
void hil_stacked_param_name(const hil_arch_stack *row, const char *name, int prefix, int64_t expert,
                            char out[HIL_STACKED_NAME]);
/* Whether `name` is that of a parameter of the row: then *prefix is the length of "<blocks>N.", and
 *expert its expert, 0 for a row without experts. */
bool hil_stacked_match(const hil_config *config, const hil_arch_stack *row, const char *name,
                       size_t *prefix, int64_t *expert);

#endif
