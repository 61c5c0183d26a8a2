/* weights.h - a model's parameters from a folder of tensors. */
#ifndef HIL_FORMAT_WEIGHTS_H
#define HIL_FORMAT_WEIGHTS_H

#include "format/safetensors.h"
#include "store/param.h"
#include "base/pool.h"

/* Fills every parameter of the store from the tensors of the same name. Parameters that files hold
   transposed are turned; names without the leading "transformer." are found too. */
hil_status hil_weights_load(hil_store *store, hil_pool *pool, const hil_safetensors *file);

/* The shape that files give it. */
hil_shape hil_weights_shape(const hil_param *param);

#endif
