/* A model larger than the machine's memory is refused with both numbers before anything is taken.
 */
#include "base/memory.h"
#include "check.h"
#include "store/store.h"

int main(void)
{
    hil_pool *pool;
    hil_store *store;
    hil_param *p;
    CHECK_OK(hil_pool_create(&pool, 1));
    CHECK(hil_memory_available() > 0);
    for (int training = 0; training < 2; ++training) {
        CHECK_OK(hil_store_create(&store));
        for (int i = 0; i < 64; ++i) {
            char name[16];
            snprintf(name, sizeof name, "p%d", i);
            hil_param_spec spec = {.name = name, .shape = {2, {1 << 20, 1 << 14}}};
            CHECK_OK(hil_store_add(store, &spec, &p));
        }
        hil_store_options options = {.pool = pool,
                                     .compute = HIL_BF16,
                                     .training = training,
                                     .tile_size = 1 << 20,
                                     .moments = 2};
        CHECK_FAILS(hil_store_allocate(store, &options), HIL_ERR_MEMORY,
                    training ? "needs 16.0 TiB of memory to train" : "needs 2.0 TiB of memory for");
        hil_store_destroy(store);
    }
    hil_pool_destroy(pool);
    return 0;
}
