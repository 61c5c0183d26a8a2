/* Ranges cover a parameter in order; each starts at a chunk boundary of a tile and ends at the
   tile's end. */
#include "check.h"
#include "store_open.h"
#include "store/state.h"
#include "store/store.h"

#define CHUNK (1 << 20)

/* With one rank every element is held. */
static int64_t held(const hil_param *p, int64_t first)
{
    int64_t at = first, count = hil_param_held(p, &at);
    CHECK_INT(at, first);
    return count;
}

static void check_ranges(const hil_param *p, int64_t tile)
{
    int64_t elements = hil_param_elements(p);
    for (int64_t first = 0, count; first < elements; first += count) {
        count = held(p, first);
        CHECK(count > 0 && count <= CHUNK);
        CHECK_INT(first % tile % CHUNK, 0);
        CHECK_INT((first + count - 1) / tile, first / tile);
        CHECK(first + count <= elements);
        CHECK_INT(held(p, first + count / 2), count - count / 2);
    }
    CHECK_INT(held(p, elements), 0);
}

int main(void)
{
    hil_store *store;
    hil_pool *pool;
    hil_param *matrix, *vector, *empty;
    hil_param_spec spec[] = {{.name = "matrix", .shape = {2, {3000, 1000}}},
                             {.name = "vector", .shape = {1, {5}}},
                             {.name = "empty", .shape = {2, {4, 0}}}};
    CHECK_OK(hil_pool_create(&pool, 1));
    CHECK_OK(hil_store_create(&store));
    CHECK_OK(hil_store_add(store, &spec[0], &matrix));
    CHECK_OK(hil_store_add(store, &spec[1], &vector));
    CHECK_OK(hil_store_add(store, &spec[2], &empty));
    hil_store_options options = {.compute = HIL_F32, .tile_size = 1280 * 4000};
    store_rig rig;
    store_rig_open(&rig, store, pool, &options);
    CHECK_INT(hil_param_tile_rows(matrix), 1280);
    check_ranges(matrix, 1280000);
    CHECK_INT(held(matrix, 1280000 - 3), 3);
    check_ranges(vector, 5);
    CHECK_INT(held(vector, 0), 5);
    CHECK_INT(held(empty, 0), 0);
    CHECK(hil_store_range(store) >= held(matrix, 0));
    store_rig_close(&rig);
    hil_pool_destroy(pool);
    return 0;
}
