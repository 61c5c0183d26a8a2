/* norm.c - the norm of all gradients of a step. Gradients of units with one use are squared when
   they are rounded; those of units with several uses here, when all are complete. */
#include "store/reduce.h"
#include "store/sweep.h"
#include "store/worker.h"

#include <math.h>

/* Of the time of an update, which reads and writes three times as many bytes in bf16 as the
   gradients of two uses have: measured on 16 cores of a Xeon. */
#define SQUARE_PART 0.22

/* What a rehearsal adds for squaring `count` elements of so many uses. */
static double square_seconds(const hil_store *store, int64_t count, int uses, bool on_device)
{
    const hil_speeds *speeds = store->opening.speeds;
    double numbers = (double)count * uses;
    if (!speeds) return 0;
    if (on_device && speeds->update_device > 0)
        return numbers * (double)hil_dtype_size(store->options.compute) / speeds->memory;
    return SQUARE_PART * numbers / speeds->update;
}

/* Squares a chunk of gradients on the device or on the CPU; on the CPU in a slot, unless it is in
   host memory. */
static hil_status square_chunk(hil_store *store, hil_sweep_chunk *r)
{
    hil_unit *unit = r->unit;
    hil_worker worker = hil_worker_compute(store);
    hil_fence ready = {0};
    for (int i = 0; i < unit->uses; ++i)
        if (unit->sweeping >> i & 1) hil_fence_join(&ready, &unit->use[i].left);
    if (r->here) {
        HIL_TRY(hil_links_follow(store->links, &ready, HIL_WAIT_GRADIENTS));
    } else {
        HIL_TRY(hil_sweep_chunk_fill(store, r, HIL_STAGE_GRADIENTS, NULL, &ready));
        HIL_TRY(hil_links_wait(store->links, &ready, HIL_WAIT_GRADIENTS));
        worker.device = NULL;
    }
    hil_links_compute(store->links, square_seconds(store, r->count, unit->uses, r->here));
    hil_sweep_work job = hil_sweep_chunk_work(store, r);
    if (r->first == 0) HIL_TRY(hil_squares_begin(store, &worker, unit));
    for (int m = 0; m < unit->members; ++m) {
        const hil_member *member = &unit->member[m];
        int64_t from, to;
        if (!hil_member_overlap(member, job.base, job.base + job.count, &from, &to)) continue;
        hil_block block = hil_sweep_work_block(&job, member, from, to);
        if (block.gradients)
            HIL_TRY(hil_squares_add(store, &worker, unit, m, &block, from - member->offset));
    }
    return r->first + r->count == unit->slice ? hil_squares_end(store, &worker, unit) : HIL_OK;
}

/* Squares the gradient of a unit with several uses, whose gradients are added first. The update
   before may still read which uses were given in its step. */
static hil_status square_shared(hil_store *store, hil_unit *unit)
{
    bool here = store->discrete;
    HIL_TRY(hil_links_wait(store->links, &unit->settled, HIL_WAIT_UPDATE));
    hil_unit_note_given(unit);
    HIL_TRY(hil_links_mark(store->links, &store->sweep->marked));
    for (int i = 0; i < unit->uses; ++i)
        if (unit->sweeping >> i & 1) here &= unit->use[i].home.tier == HIL_DEVICE;
    hil_sweep_chunk whole = {.unit = unit, .count = unit->slice, .here = true};
    if (here) return square_chunk(store, &whole);
    for (int64_t c = 0; c * store->plan->chunk < unit->slice; c += store->merge) {
        hil_sweep_chunk chunk = hil_sweep_chunk_of(store, unit, c);
        chunk.count = hil_merged_count(store, unit, c);
        HIL_TRY(square_chunk(store, &chunk));
    }
    return HIL_OK;
}

static bool is_given(const hil_unit *unit)
{
    bool given = false;
    for (int i = 0; i < unit->uses; ++i) given |= unit->use[i].given;
    return given;
}

bool hil_param_is_given(const hil_store *store, const hil_param *param)
{
    for (int64_t t = 0; t < hil_param_tiles(param); ++t) {
        const hil_unit *unit = hil_unit_of(store, param, t);
        for (int i = 0; i < unit->uses; ++i)
            if (unit->use[i].given && (unit->member[param->member].summed >> i & 1)) return true;
    }
    return false;
}

hil_status hil_store_norm(hil_store *store, double *norm)
{
    double sum = 0;
    bool squared = !hil_pool_is_dry(store->opening.pool);
    if (!hil_store_alone(store)) HIL_TRY(hil_reduce_agree(store));
    for (size_t u = 0; u < store->units; ++u)
        if (store->unit[u].uses > 1 && is_given(&store->unit[u]))
            HIL_TRY(square_shared(store, &store->unit[u]));
    if (store->device) HIL_TRY(store->device->queue->finish(store->device));
    for (size_t u = 0; u < store->units; ++u) {
        const hil_unit *unit = &store->unit[u];
        int64_t blocks = squared && is_given(unit) ? hil_unit_blocks(unit) : 0;
        for (int64_t b = 0; b < blocks; ++b) sum += unit->square[b];
    }
    HIL_TRY(hil_comm_sum(store->opening.comm, &sum, 1));
    *norm = sqrt(sum);
    return HIL_OK;
}
