/* weights.h - a model's parameters from a folder of tensors. */
#ifndef HIL_FORMAT_WEIGHTS_H
#define HIL_FORMAT_WEIGHTS_H

#include "format/safetensors.h"
#include "store/store.h"

/* Fills every parameter of the store from the tensors of the same name. Parameters that files hold
   transposed are turned; names without the leading "transformer." are found too. */
hil_status hil_weights_load(hil_store *store, hil_pool *pool, const hil_safetensors *file);

/* Elements [first, first + count) of a parameter in the order in which files hold it, as fp32. Of
   one that files hold transposed, every call reads the whole: ask for large pieces. */
hil_status hil_weights_read(hil_store *store, hil_param *param, hil_state state, int64_t first,
                            int64_t count, float *out);
/* The shape that files give it. */
hil_shape hil_weights_shape(const hil_param *param);

#endif
