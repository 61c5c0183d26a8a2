/* range.c - in which pieces files read and write the states of a parameter. */
#include "store/store.h"

#define CHUNK ((int64_t)1 << 20)

int64_t hil_param_chunk(const hil_param *param)
{
    (void)param;
    return CHUNK;
}

int64_t hil_param_range(const hil_param *param, int64_t first)
{
    int64_t elements = hil_param_elements(param), chunk = hil_param_chunk(param);
    int64_t tile = hil_param_tile_rows(param) * hil_shape_cols(&hil_param_spec_of(param)->shape);
    if (first >= elements) return 0;
    int64_t end = first / tile * tile + tile; /* of the tile */
    if (end > elements) end = elements;
    int64_t rest = chunk - first % tile % chunk;
    return rest < end - first ? rest : end - first;
}

int64_t hil_store_range(const hil_store *store)
{
    int64_t most = 1;
    for (size_t i = 0; i < hil_store_count(store); ++i) {
        const hil_param *p = hil_store_at(store, i);
        int64_t elements = hil_param_elements(p), chunk = hil_param_chunk(p);
        int64_t longest = elements < chunk ? elements : chunk;
        if (longest > most) most = longest;
    }
    return most;
}
