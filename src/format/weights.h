/* weights.h - loads a model's parameters from a folder of tensors. */
#ifndef HIL_FORMAT_WEIGHTS_H
#define HIL_FORMAT_WEIGHTS_H

#include "format/safetensors.h"
#include "store/param.h"
#include "base/pool.h"

/* Loads every parameter of the store from the tensor of the same name, with or without a leading
   "transformer.". Transposes parameters whose spec says that files store them transposed. */
hil_status hil_weights_load(hil_store *store, hil_pool *pool, const hil_safetensors *file);

/* The parameter's shape in files. */
hil_shape hil_weights_shape(const hil_param *param);

#endif
