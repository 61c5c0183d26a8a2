/* unit.h - units as the planner sees them: bytes, elements, names. */
#ifndef HIL_STORE_UNIT_H
#define HIL_STORE_UNIT_H

#include "store/param.h"

#define HIL_UNIT_NAME 128

int hil_store_ranks(const hil_store *store);
/* Whether some parameters belong to an adapter. */
bool hil_store_adapted(const hil_store *store);
size_t hil_store_units(const hil_store *store);
/* Bytes of this rank's slice of a state; for HIL_GRADIENT those of one use. */
size_t hil_unit_bytes(const hil_store *store, size_t unit, hil_unit_state state);
/* Elements of the whole unit with its padding, and of one rank's slice. */
int64_t hil_unit_elements(const hil_store *store, size_t unit);
int64_t hil_unit_slice(const hil_store *store, size_t unit);
int hil_unit_uses(const hil_store *store, size_t unit);
/* How its weight is kept. */
hil_quant hil_unit_quant(const hil_store *store, size_t unit);
/* Bytes of the window that the update of a whole matrix needs; 0: no matrix is updated so. */
size_t hil_store_matrix_bytes(const hil_store *store);
/* Device bytes for sums of squares, if plan.discrete. */
size_t hil_store_lanes(const hil_store *store);
/* How many units a segment may use; *units: their numbers, ascending, borrowed from the store. */
size_t hil_store_declared(const hil_store *store, int segment, const size_t **units);
/* "name", "name[tile]" or "name..last" into `out`. */
const char *hil_unit_name(const hil_store *store, size_t unit, char out[HIL_UNIT_NAME]);

#endif
