/* weights.h - loads a model's parameters from a folder of tensors. */
#ifndef HIL_FORMAT_WEIGHTS_H
#define HIL_FORMAT_WEIGHTS_H

#include "format/peft.h"
#include "format/safetensors.h"
#include "store/state.h"
#include "base/pool.h"

/* Loads every parameter of the store, but those of an adapter, from the tensor of the same name,
   with or without a leading "transformer.". Transposes parameters whose spec says that files store
   them transposed. */
hil_status hil_weights_load(hil_store *store, hil_pool *pool, const hil_safetensors *file);

/* Loads one state of every parameter that has it, from tensors of the same names. */
hil_status hil_weights_load_state(hil_store *store, hil_pool *pool, const hil_safetensors *file,
                                  hil_state state);

/* The tensor of a parameter, by its name with or without a leading "transformer." or
   "model."; NULL: none. */
const hil_entry *hil_weights_find(const hil_safetensors *file, const char *name);
/* [Note: samples] A checksum of four blocks of 4 KiB spread over a tensor's data, of all data up to
   16 KiB. A rank loads only its own slices; hashing whole files would cost as much as loading them
   on every rank. */
hil_status hil_weights_sample(const hil_entry *entry, uint64_t *hash);
/* A digest of names, dtypes, shapes and samples of all tensors, which does not depend on how they
   are divided into files. */
hil_status hil_weights_digest(const hil_safetensors *file, uint64_t *out);

/* Opens adapter_model.safetensors of a folder, or else adapter_model.bin. */
hil_status hil_weights_open_adapter(hil_safetensors **out, const char *folder);
/* Loads the tensors of an adapter, over those of the base. Refuses one that no parameter takes. */
hil_status hil_weights_load_adapter(hil_store *store, hil_pool *pool, const hil_peft *peft,
                                    const hil_safetensors *file);

/* Elements [first, first + count) of a parameter, from the tensor of its file. */
typedef struct hil_weights_range {
    hil_param *param;
    const hil_entry *entry;
    hil_pool *pool;
    int64_t first, count;
} hil_weights_range;
hil_status hil_weights_read(const hil_weights_range *range, float *out);

/* The parameter's shape in files. */
hil_shape hil_weights_shape(const hil_param *param);

#endif
