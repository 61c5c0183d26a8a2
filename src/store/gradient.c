/* gradient.c - sums of gradients while micro-batches add to them; then rounding, and copy-out to
   where gradients are kept. */
#include "store/expert.h"
#include "store/gradient.h"
#include "store/home.h"
#include "store/reduce.h"
#include "store/segment.h"
#include "store/window.h"
#include "store/worker.h"

hil_status hil_store_declare_use(hil_store *store, hil_param *param, int segment)
{
    int64_t cols = hil_shape_cols(&param->spec.shape), tile = param->tile_rows * cols;
    int64_t tiles = tile ? (param->elements + tile - 1) / tile : 1;
    for (int64_t t = 0; t < tiles; ++t) {
        hil_unit *unit = hil_unit_of(store, param, t);
        HIL_TRY(hil_segment_declare(store, segment, (size_t)(unit - store->unit)));
        if (!unit->trainable) continue;
        int i = 0;
        while (i < unit->uses && unit->use[i].segment != segment) ++i;
        if (i < unit->uses) continue;
        if (i == HIL_USES)
            return hil_fail(HIL_ERR_USAGE, "parameter %s is used in more than %d segments",
                            param->name, HIL_USES);
        /* A sweep and reductions in flight read unit->use. */
        if (store->open) HIL_TRY(hil_links_wait(store->links, &unit->settled, HIL_WAIT_UPDATE));
        if (store->open) HIL_TRY(hil_reduce_wait(store));
        unit->use[unit->uses++] = (hil_use){.segment = segment};
    }
    return HIL_OK;
}

static hil_status find_use(hil_store *store, hil_param *param, int segment, hil_unit *unit,
                           int *out)
{
    for (*out = 0; *out < unit->uses; ++*out)
        if (unit->use[*out].segment == segment) return HIL_OK;
    HIL_TRY(hil_segment_admit(store, param, hil_entity(store, unit, HIL_OF_WEIGHT)));
    if (!hil_store_alone(store))
        return hil_fail(HIL_ERR_USAGE,
                        "parameter %s is used in segment %d, which did not say so: with several "
                        "ranks declare it there with hil_model_use",
                        param->name, segment);
    return hil_store_declare_use(store, param, segment);
}

/* In a rehearsal: advances the clock by the time of reading and writing `bytes`. */
static void add_time(hil_store *store, int64_t bytes)
{
    if (store->opening.speeds)
        hil_links_compute(store->links, (double)bytes / store->opening.speeds->memory);
}

static hil_status zero(hil_store *store, const hil_use *use, int64_t first, int64_t count)
{
    hil_worker worker = hil_worker_compute(store);
    HIL_TRY(hil_worker_zero(&worker, (float *)use->sum.data + first, count));
    add_time(store, count * 4);
    return HIL_OK;
}

hil_status hil_sum_fill(hil_store *store, hil_unit *unit, int i)
{
    const hil_use *use = &unit->use[i];
    int64_t end = 0;
    for (int m = 0; m <= unit->members; ++m) {
        const hil_member *member = m < unit->members ? &unit->member[m] : NULL;
        if (member && !(member->summed >> i & 1)) continue;
        int64_t next = member ? member->offset : unit->elements;
        if (next > end) {
            HIL_TRY(hil_links_follow(store->links, &use->sum.ready, HIL_WAIT_GRADIENTS));
            HIL_TRY(zero(store, use, end, next - end));
        }
        if (member) end = next + member->count;
    }
    return HIL_OK;
}

/* The spilled copy of a sum that is about to change is out of date. After a renewal its memory is
   kept for the next spill, so that all periods use the same addresses ([Note: renewal]). */
static void invalidate_spilled(hil_store *store, hil_use *use)
{
    if (store->pass && store->pass->seen.renewals)
        hil_movable_set_dirty(&use->sum);
    else
        hil_movable_discard_copy(store->spilled, &use->sum);
}

hil_status hil_store_sum_acquire(hil_store *store, hil_param *param, int segment, int64_t tile,
                                 float **sum, bool *add)
{
    hil_unit *unit = hil_unit_of(store, param, tile);
    hil_member *member = &unit->member[param->member];
    int i;
    HIL_TRY(find_use(store, param, segment, unit, &i));
    hil_use *use = &unit->use[i];
    if (!use->held) {
        HIL_TRY(hil_segment_admit(store, param, hil_entity(store, unit, i)));
        HIL_TRY(hil_window_use(store, hil_entity(store, unit, i)));
    }
    HIL_TRY(hil_links_follow(store->links, &use->sum.ready, HIL_WAIT_GRADIENTS));
    bool written = member->summed >> i & 1;
    if (!written && !add) HIL_TRY(zero(store, use, member->offset, member->count));
    if (add) *add = written;
    if (!use->summing) HIL_TRY(hil_window_start_summing(store, hil_entity(store, unit, i)));
    invalidate_spilled(store, use);
    ++use->pins;
    member->summed |= 1u << i;
    *sum = (float *)use->sum.data + member->offset;
    hil_status status = use->held ? HIL_OK : hil_window_prefetch(store);
    if (status != HIL_OK) --use->pins;
    return status;
}

/* The window reserves the place of the sum as planned. */
hil_status hil_store_sum_idle(hil_store *store, hil_param *param, int segment, int64_t tile,
                              bool *done)
{
    hil_unit *unit = hil_unit_of(store, param, tile);
    hil_use *use = &unit->use[0];
    *done = hil_expert_may_idle(store, unit) && unit->uses == 1 && use->segment == segment &&
            !hil_unit_is_matrix(unit); /* its momentum needs the memory of a gradient */
    if (!*done) return HIL_OK;
    if (!use->held) HIL_TRY(hil_window_use(store, hil_entity(store, unit, 0)));
    use->idle = true;
    ++use->pins;
    hil_status status = use->held ? HIL_OK : hil_window_prefetch(store);
    --use->pins;
    return status;
}

void hil_store_sum_release(hil_store *store, hil_param *param, int segment, int64_t tile)
{
    hil_unit *unit = hil_unit_of(store, param, tile);
    for (int i = 0; i < unit->uses; ++i)
        if (unit->use[i].segment == segment) --unit->use[i].pins;
}

hil_status hil_store_sum_add(hil_store *store, hil_param *param, int segment, int64_t tile,
                             const void *gradient, hil_dtype dtype)
{
    bool written;
    hil_worker worker = hil_worker_compute(store);
    hil_addend a = {.gradient = gradient,
                    .dtype = dtype,
                    .count = hil_unit_of(store, param, tile)->member[param->member].count};
    HIL_TRY(hil_store_sum_acquire(store, param, segment, tile, &a.sum, &written));
    a.first = !written;
    hil_status status = hil_worker_add(&worker, &a);
    hil_store_sum_release(store, param, segment, tile);
    return status;
}

hil_status hil_gradient_send(hil_store *store, const hil_gradient_chunk *leaving, int64_t chunk)
{
    hil_use *use = leaving->use;
    const hil_home *home = &use->home;
    size_t size = hil_dtype_size(leaving->unit->dtype);
    int64_t first = chunk * store->plan->chunk;
    int64_t count = hil_merged_count(store, leaving->unit, chunk);
    hil_job out = {.link = HIL_LINK_OUT, .parts = 1, .name = "gradients"};
    out.part[0] =
        (hil_part){.kind = HIL_PART_COPY, .from = leaving->data, .bytes = (size_t)count * size};
    if (home->tier == HIL_HOST) {
        out.part[0].to = home->memory + (size_t)first * size;
        out.after = leaving->before;
        hil_fence_join(&out.after, &leaving->made);
        return hil_links_submit(store->links, &out, &use->left);
    }
    void *stage;
    hil_fence moved = {0};
    HIL_TRY(hil_ring_take(store->ring, home->extent.page, &stage, &out.after));
    hil_fence_join(&out.after, &leaving->made);
    out.part[0].to = stage;
    hil_status status = hil_links_submit(store->links, &out, &moved);
    hil_job stash = {.link = HIL_LINK_STASH, .after = moved, .parts = 1, .name = "gradients"};
    hil_fence_join(&stash.after, &leaving->before);
    stash.part[0] = (hil_part){.kind = HIL_PART_WRITE,
                               .from = stage,
                               .bytes = (size_t)count * size,
                               .disk = &home->extent,
                               .first = chunk,
                               .count = hil_pages_of(store, count)};
    if (status == HIL_OK) status = hil_links_submit(store->links, &stash, &moved);
    hil_ring_give(store->ring, stage, &moved);
    hil_fence_join(&use->left, &moved);
    return status;
}

static hil_status round_all(hil_store *store, hil_rounding *rounding)
{
    hil_worker worker = hil_worker_compute(store);
    if (rounding->ranges) HIL_TRY(hil_worker_round(&worker, rounding));
    rounding->ranges = 0;
    return HIL_OK;
}

/* Elements of a unit. */
typedef struct range {
    int64_t first, count;
} range;

/* Adds these elements of a sum to `rounding`, which rounds them into `out` (NULL: nowhere) and
   squares the results. A member's padding counts as part of it, so the ranges have no gaps. */
static hil_status add_ranges(hil_store *store, hil_unit *unit, int i, char *out, range part,
                             hil_rounding *rounding)
{
    hil_worker worker = hil_worker_compute(store);
    const float *sum = (const float *)unit->use[i].sum.data + part.first;
    size_t size = hil_dtype_size(unit->dtype);
    int64_t block = 0, first = part.first, last = first + part.count;
    if (rounding->dtype != unit->dtype) HIL_TRY(round_all(store, rounding));
    rounding->dtype = unit->dtype;
    for (int m = 0; m < unit->members; ++m) {
        const hil_member *member = &unit->member[m];
        hil_member whole = {.offset = member->offset, .count = hil_pad(member->count)};
        int64_t from, to;
        if (hil_member_overlap(&whole, first, last, &from, &to)) {
            if (rounding->ranges == HIL_ROUNDING_RANGES) HIL_TRY(round_all(store, rounding));
            hil_rounding_range *s = &rounding->range[rounding->ranges++];
            *s = (hil_rounding_range){.first = from - member->offset,
                                      .count = to - from,
                                      .sum = sum + (from - first),
                                      .out = out ? out + (size_t)(from - first) * size : NULL,
                                      .last = to == whole.offset + whole.count};
            if (unit->uses == 1) {
                s->lanes = hil_squares_lanes(store, &worker) + HIL_SQUARES * block;
                s->square = unit->square + block;
            }
        }
        block += hil_member_blocks(member);
    }
    bool writes = out && (const void *)out != sum;
    add_time(store, part.count * (int64_t)(4 + (writes ? size : 0)));
    return HIL_OK;
}

/* [Note: rounding in place] On a GPU, the rounded numbers of a chunk overwrite the sum of the chunk
   before it, which was rounded already, and are copied out from there. The first chunk needs a
   copy-out buffer: NULL. */
static void *place_rounded(const hil_store *store, const hil_unit *unit, const hil_use *use,
                           int64_t chunk)
{
    if (!store->plan->discrete || chunk == 0) return NULL;
    size_t bytes = (size_t)store->plan->chunk * hil_dtype_size(unit->dtype);
    return (char *)use->sum.data + (size_t)(chunk - 1) * bytes;
}

/* Rounds a chunk of the sum, squares it, and starts its copy-out. */
static hil_status give_chunk(hil_store *store, hil_unit *unit, int i, int64_t chunk,
                             const hil_fence *before)
{
    hil_use *use = &unit->use[i];
    int64_t first = chunk * store->plan->chunk, count = hil_merged_count(store, unit, chunk);
    size_t bytes = (size_t)hil_chunk_count(store, unit, chunk) * hil_dtype_size(unit->dtype);
    void *out = (float *)use->sum.data + first;
    bool own = false; /* `out` is a copy-out buffer */
    if (unit->dtype != HIL_F32) {
        out = place_rounded(store, unit, use, chunk);
        own = !out;
        if (own) HIL_TRY(hil_window_take_outgoing(store, bytes, &out));
    }
    hil_gradient_chunk leaving = {.unit = unit, .use = use, .data = out, .before = *before};
    hil_rounding rounding = {0};
    hil_status status = add_ranges(store, unit, i, out, (range){first, count}, &rounding);
    if (status == HIL_OK) status = round_all(store, &rounding);
    if (status == HIL_OK) status = hil_gradient_send(store, &leaving, chunk);
    if (own) hil_window_give_outgoing(store, out, bytes, &use->left);
    return status;
}

void hil_sum_drop(hil_store *store, hil_unit *unit, int i)
{
    hil_use *use = &unit->use[i];
    if (use->sum.data) hil_window_remove(store, hil_entity(store, unit, i));
    hil_movable_free(store->spilled, &use->sum);
    use->sum = (hil_movable){0};
    use->summing = use->idle = use->visited = false;
}

/* The sum becomes the gradient: [Note: kept sums]. */
static void keep_sum(hil_store *store, hil_unit *unit, int i)
{
    hil_use *use = &unit->use[i];
    hil_window_remove(store, hil_entity(store, unit, i));
    hil_movable_discard_copy(store->spilled, &use->sum);
    use->home.memory = use->sum.data;
    use->kept = true;
    use->sum.data = NULL;
}

void hil_gradient_free_kept(hil_store *store, hil_unit *unit)
{
    for (int i = 0; i < unit->uses; ++i) {
        if (unit->use[i].kept)
            hil_buffers_give_after(store->window, unit->use[i].home.memory, &unit->swept);
        unit->use[i].kept = false;
    }
}

static hil_status end_giving(hil_store *store, hil_unit *unit, int i)
{
    hil_use *use = &unit->use[i];
    --use->pins;
    if (use->home.sum) keep_sum(store, unit, i);
    hil_sum_drop(store, unit, i);
    use->given = true;
    return hil_window_prefetch(store);
}

/* Gradients of a segment that are kept on the device are rounded in one call; until then their sums
   stay pinned. This rounds and unpins them. */
static hil_status round_pinned(hil_store *store, int segment, hil_rounding *rounding)
{
    const size_t *declared;
    size_t count = hil_store_declared(store, segment, &declared);
    HIL_TRY(round_all(store, rounding));
    for (size_t k = 0; k < count; ++k) {
        hil_unit *unit = &store->unit[declared[k]];
        for (int i = 0; i < unit->uses; ++i)
            if (unit->use[i].segment == segment && unit->use[i].pins)
                HIL_TRY(end_giving(store, unit, i));
    }
    return HIL_OK;
}

/* Rounds a sum and starts its copy-out; one that stays on the device is left pinned for round_all.
 */
static hil_status give(hil_store *store, hil_unit *unit, int i, hil_rounding *rounding)
{
    hil_use *use = &unit->use[i];
    bool stays = use->home.tier == HIL_DEVICE;
    assert(!use->given && !use->pins);
    HIL_TRY(hil_window_use(store, hil_entity(store, unit, i)));
    HIL_TRY(hil_links_follow(store->links, &use->sum.ready, HIL_WAIT_GRADIENTS));
    HIL_TRY(hil_sum_fill(store, unit, i));
    hil_fence before = use->left; /* a gradient that was dropped may still be in flight */
    hil_fence_join(&before, &unit->settled);
    use->left = (hil_fence){0};
    if (stays) HIL_TRY(hil_links_follow(store->links, &unit->settled, HIL_WAIT_UPDATE));
    ++use->pins;
    if (use->home.sum && unit->uses > 1) return HIL_OK; /* squared when all are complete */
    if (stays)
        return add_ranges(store, unit, i, use->home.sum ? NULL : use->home.memory,
                          (range){0, unit->elements}, rounding);
    hil_status status = HIL_OK;
    for (int64_t c = 0; c * store->plan->chunk < unit->elements && status == HIL_OK;
         c += store->merge)
        status = give_chunk(store, unit, i, c, &before);
    hil_fence_join(&use->sum.ready, &use->left);
    return status == HIL_OK ? end_giving(store, unit, i) : status;
}

/* Takes and frees the memory that the copy-out of the unit's gradient would need, so that the
   window evicts what it would evict then. */
static hil_status pass_outgoing(hil_store *store, const hil_unit *unit)
{
    for (int64_t c = 0; c * store->plan->chunk < unit->elements; c += store->merge) {
        size_t bytes = (size_t)hil_chunk_count(store, unit, c) * hil_dtype_size(unit->dtype);
        void *out;
        HIL_TRY(hil_window_take_outgoing(store, bytes, &out));
        hil_window_give_outgoing(store, out, bytes, &(hil_fence){0});
    }
    return HIL_OK;
}

/* Gives a gradient of zeros, which is not written: the update knows it. */
static hil_status give_none(hil_store *store, hil_unit *unit, hil_rounding *rounding)
{
    hil_use *use = &unit->use[0];
    bool stays = use->home.tier == HIL_DEVICE;
    if (!use->sum.data || !stays) HIL_TRY(round_pinned(store, use->segment, rounding));
    HIL_TRY(hil_window_use(store, hil_entity(store, unit, 0)));
    ++use->pins;
    hil_status status = HIL_OK;
    if (!stays && unit->dtype != HIL_F32) status = pass_outgoing(store, unit);
    if (status != HIL_OK) return status;
    for (int64_t b = 0; b < hil_unit_blocks(unit); ++b) unit->square[b] = 0;
    unit->member[0].summed |= 1;
    use->none = true;
    if (!stays) store->skipped += (int64_t)use->home.bytes;
    return end_giving(store, unit, 0);
}

/* A sum without additions: only records its use, so that the order stays the same. */
static hil_status skip(hil_store *store, hil_unit *unit, int i)
{
    HIL_TRY(hil_order_use(store->pass, hil_entity(store, unit, i)));
    hil_sum_drop(store, unit, i);
    return hil_window_prefetch(store);
}

/* With several ranks this rank joins the reduction even without a sum, because another rank may
   have one. */
static hil_status give_use(hil_store *store, hil_unit *unit, int i, hil_rounding *rounding)
{
    const hil_use *use = &unit->use[i];
    if (!hil_store_alone(store)) return hil_reduce_give(store, unit, i);
    if (!use->summing && !use->idle) return store->plan->by_segment ? skip(store, unit, i) : HIL_OK;
    if (!use->summing) return give_none(store, unit, rounding);
    if (!use->home.exists) HIL_TRY(hil_home_open_late(store, unit, &unit->use[i].home));
    /* A sum that is not in the window, or needs a copy-out buffer, may need the room of those that
       are pinned. */
    if (!use->sum.data || use->home.tier != HIL_DEVICE)
        HIL_TRY(round_pinned(store, use->segment, rounding));
    return give(store, unit, i, rounding);
}

hil_status hil_store_sum_complete(hil_store *store, hil_param *param, int segment, int64_t tile)
{
    hil_unit *unit = hil_unit_of(store, param, tile);
    hil_rounding rounding = {0};
    int i = 0;
    while (i < unit->uses && unit->use[i].segment != segment) ++i;
    if (!store->plan->by_tile || unit->members > 1 || i == unit->uses) return HIL_OK;
    hil_use *use = &unit->use[i];
    if (!hil_store_alone(store)) return hil_reduce_give(store, unit, i);
    if (!use->home.exists) HIL_TRY(hil_home_open_late(store, unit, &use->home));
    HIL_TRY(give(store, unit, i, &rounding));
    HIL_TRY(round_all(store, &rounding));
    return use->given ? HIL_OK : end_giving(store, unit, i);
}

hil_status hil_store_give_gradients(hil_store *store, int segment)
{
    hil_rounding rounding = {0};
    const size_t *declared;
    size_t count = hil_store_declared(store, segment, &declared);
    for (size_t k = 0; k < count; ++k) {
        hil_unit *unit = &store->unit[declared[k]];
        for (int i = 0; i < unit->uses; ++i)
            if (unit->use[i].segment == segment && !unit->use[i].given)
                HIL_TRY(give_use(store, unit, i, &rounding));
    }
    return round_pinned(store, segment, &rounding);
}

void hil_store_step_end(hil_store *store)
{
    for (size_t u = 0; u < store->units; ++u) {
        hil_unit *unit = &store->unit[u];
        hil_gradient_free_kept(store, unit);
        for (int i = 0; i < unit->uses; ++i) {
            hil_use *use = &unit->use[i];
            hil_sum_drop(store, unit, i);
            use->given = use->none = false;
            use->pins = 0;
            use->held = false;
        }
        for (int m = 0; m < unit->members; ++m) unit->member[m].summed = 0;
    }
    hil_reduce_step_end(store);
}
