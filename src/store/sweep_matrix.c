/* sweep_matrix.c - update rules whose scope is a whole matrix.

   [Note: matrix scope] Such a rule (Muon) has two parts that work on blocks, as those of all rules,
   and one that needs the whole matrix. Before the sweep, one matrix after the other: its momentum
   is updated where it is kept, block by block, and Nesterov's momentum takes the gradient's place;
   that of all tiles and ranks is gathered in the window; the device runs the rule's operation on it
   (hil_store_options.matrix); the result takes the place of the gradient at home. The sweep then
   subtracts it from the weight. The products always run on the device and with the whole matrix, so
   the bits do not depend on placement or ranks. All ranks compute the same. */
#include "ops/op_cost.h"
#include "store/gradient.h"
#include "store/home.h"
#include "store/rank_exchange.h"
#include "store/sweep.h"
#include "store/window.h"

typedef struct matrix {
    hil_store *store;
    hil_param *param;
    hil_op_call call;
    char *x, *y;      /* in the window: the operation's input and output */
    hil_fence placed; /* over: all tiles so far are in x, and the next one may be written */
    hil_fence given;  /* over: y was copied to the homes */
} matrix;

/* Elements of x and y: the padding of the last tile may stand after the matrix. */
static int64_t padded(const hil_store *store, const hil_param *p)
{
    int64_t most = 0;
    for (int64_t t = 0; t < hil_param_tiles(p); ++t) {
        const hil_unit *unit = hil_unit_of(store, p, t);
        int64_t end = unit->member[0].first + unit->elements;
        if (end > most) most = end;
    }
    return most;
}

static hil_status open_call(matrix *m)
{
    const hil_param *p = m->param;
    int64_t rows = hil_shape_rows(&p->spec.shape), cols = hil_shape_cols(&p->spec.shape);
    m->call = (hil_op_call){.op = m->store->options.matrix,
                            .pool = m->store->opening.pool,
                            .compute = p->dtype,
                            .device = m->store->device,
                            .ins = 1,
                            .in = {{p->dtype, {2, {rows, cols}}, NULL}}};
    return hil_op_infer(&m->call);
}

size_t hil_store_matrix_bytes(const hil_store *store)
{
    size_t most = 0;
    for (size_t i = 0; i < store->count; ++i) {
        matrix m = {.store = (hil_store *)(uintptr_t)store, .param = store->params[i]};
        if (!hil_param_is_matrix(m.param) || open_call(&m) != HIL_OK) continue;
        size_t one = (size_t)padded(store, m.param) * hil_dtype_size(m.param->dtype);
        size_t bytes = 2 * hil_align_up(one) + hil_align_up(m.call.forward_scratch);
        if (bytes > most) most = bytes;
    }
    return most;
}

static hil_status take_memory(matrix *m)
{
    hil_store *store = m->store;
    size_t bytes = (size_t)padded(store, m->param) * hil_dtype_size(m->param->dtype);
    HIL_TRY(open_call(m));
    HIL_TRY(hil_buffers_take_after(store->window, bytes, (void **)&m->x, &m->placed));
    HIL_TRY(hil_buffers_take(store->window, bytes, (void **)&m->y));
    HIL_TRY(hil_buffers_take(store->window, m->call.forward_scratch, &m->call.scratch));
    m->call.in[0].data = m->x;
    m->call.out[0].data = m->y;
    return HIL_OK;
}

static void give_memory(matrix *m)
{
    hil_buffers *window = m->store->window;
    hil_buffers_give(window, m->call.scratch);
    if (m->x) hil_buffers_give_after(window, m->x, &m->given);
    if (m->y) hil_buffers_give_after(window, m->y, &m->given);
}

static char *at(const matrix *m, char *base, int64_t element)
{
    return base + (size_t)element * hil_dtype_size(m->param->dtype);
}

/* Copies in the device's memory. */
static hil_status copy(const matrix *m, void *to, const void *from, int64_t count)
{
    hil_tensor out = {m->param->dtype, {1, {count}}, to};
    hil_tensor in = {m->param->dtype, {1, {count}}, (void *)(uintptr_t)from};
    return hil_op_convert(m->store->device, m->store->opening.pool, &out, &in, false);
}

/* Elements of the chunk that are the matrix', not padding. */
static int64_t filled(const hil_sweep_work *work)
{
    int64_t rest = work->unit->member[0].count - work->base;
    return rest < 0 ? 0 : rest < work->count ? rest : work->count;
}

/* Updates the momentum of a chunk on the CPU, copies Nesterov's to x, and
   starts the write of the momentum to its home. */
static hil_status momentum_staged(matrix *m, hil_sweep_chunk *r, hil_fence *ready)
{
    hil_store *store = m->store;
    const unsigned momentum = 1u << HIL_STATE1;
    hil_status status = HIL_OK;
    hil_fence over = {0};
    HIL_TRY_DONE(hil_sweep_chunk_fill(store, r, momentum | HIL_STAGE_GRADIENTS, NULL, ready));
    HIL_TRY_DONE(hil_links_wait(store->links, ready, HIL_WAIT_UPDATE));
    hil_sweep_work work = hil_sweep_chunk_work(store, r);
    int use = hil_unit_first_use(r->unit);
    int64_t count = filled(&work);
    work.scope = HIL_SCOPE_MOMENTUM;
    hil_sweep_work_run(&work, store->opening.pool);
    hil_links_compute(store->links, hil_sweep_seconds(store, work.count, false));
    hil_job in = {.link = HIL_LINK_IN, .after = m->placed, .parts = 1, .name = "momentum"};
    in.part[0] = (hil_part){.kind = HIL_PART_COPY,
                            .to = at(m, m->x, r->unit->member[0].first + work.base),
                            .from = work.places.gradient[use],
                            .bytes = (size_t)count * hil_dtype_size(m->param->dtype)};
    if (count) HIL_TRY_DONE(hil_links_submit(store->links, &in, &over));
    hil_fence_join(&m->placed, &over);
    if (r->slot) HIL_TRY_DONE(hil_sweep_chunk_empty(store, r, momentum, ready, &over));
done:
    if (r->slot) hil_fence_join(&r->slot->free, &over);
    hil_fence_join(&r->unit->reading, &over);
    hil_fence_join(&store->sweep->all, &over);
    return status;
}

/* The same on the device, for a whole tile that is kept there. */
static hil_status momentum_here(matrix *m, hil_sweep_chunk *r, const hil_fence *ready)
{
    hil_store *store = m->store;
    HIL_TRY(hil_links_follow(store->links, ready, HIL_WAIT_UPDATE));
    HIL_TRY(hil_links_follow(store->links, &m->placed, HIL_WAIT_UPDATE));
    hil_sweep_work work = hil_sweep_chunk_work(store, r);
    int use = hil_unit_first_use(r->unit);
    int64_t count = filled(&work);
    work.scope = HIL_SCOPE_MOMENTUM;
    hil_links_compute(store->links, hil_sweep_seconds(store, work.count, true));
    if (!store->device || !count) return HIL_OK;
    HIL_TRY(hil_sweep_work_queue(&work, HIL_STREAM_COMPUTE));
    return copy(m, at(m, m->x, r->unit->member[0].first + work.base), work.places.gradient[use],
                count);
}

/* Puts a tile of the momentum into x. */
static hil_status momentum_tile(matrix *m, hil_unit *unit)
{
    hil_store *store = m->store;
    hil_fence ready = unit->reading;
    if (hil_unit_first_use(unit) < 0)
        return hil_fail(HIL_ERR_USAGE,
                        "%s has a gradient for some of its rows only, and muon needs all of them: "
                        "train with --optimizer adamw",
                        m->param->name);
    for (int i = 0; i < unit->uses; ++i)
        if (unit->sweeping >> i & 1) hil_fence_join(&ready, &unit->use[i].left);
    if (hil_unit_stays(store, unit)) {
        hil_sweep_chunk whole = {.unit = unit, .count = unit->slice, .here = true};
        HIL_TRY(momentum_here(m, &whole, &ready));
    } else {
        for (int64_t c = 0; c * store->plan->chunk < unit->slice; c += store->merge) {
            hil_sweep_chunk chunk = hil_sweep_chunk_of(store, unit, c);
            chunk.count = hil_merged_count(store, unit, c);
            HIL_TRY(momentum_staged(m, &chunk, &ready));
        }
    }
    if (hil_store_alone(store)) return HIL_OK;
    return hil_exchange_gather(store, unit, at(m, m->x, unit->member[0].first), false, &m->placed,
                               &m->placed);
}

static hil_status compute_matrix(matrix *m)
{
    hil_store *store = m->store;
    const hil_speeds *speeds = store->opening.speeds;
    HIL_TRY(hil_links_follow(store->links, &m->placed, HIL_WAIT_UPDATE));
    HIL_TRY(hil_op_forward(&m->call));
    if (!speeds) return HIL_OK;
    hil_work work;
    hil_op_work(&m->call, false, (int)speeds->threads, &work);
    hil_links_compute(store->links,
                      work.gemm / speeds->gemm[HIL_BF16] + work.bytes / speeds->memory);
    return HIL_OK;
}

/* This rank's slice of y takes the place of the gradient. */
static hil_status give_tile(matrix *m, hil_unit *unit)
{
    hil_store *store = m->store;
    hil_use *use = &unit->use[hil_unit_first_use(unit)];
    int64_t begin = hil_unit_begin(store, unit), rest = unit->member[0].count - begin;
    char *from = at(m, m->y, unit->member[0].first + begin);
    if (use->home.tier == HIL_DEVICE) {
        int64_t count = rest < unit->slice ? rest : unit->slice;
        return count > 0 ? copy(m, use->home.memory, from, count) : HIL_OK;
    }
    hil_gradient_chunk leaving = {.unit = unit, .use = use};
    HIL_TRY(hil_links_mark(store->links, &leaving.made));
    use->left = (hil_fence){0};
    for (int64_t c = 0; c * store->plan->chunk < unit->slice; c += store->merge) {
        leaving.data = at(m, from, c * store->plan->chunk);
        HIL_TRY(hil_gradient_send(store, &leaving, c));
    }
    hil_fence_join(&m->given, &use->left);
    return HIL_OK;
}

static hil_status update_matrix(hil_store *store, hil_param *param)
{
    matrix m = {.store = store, .param = param};
    hil_status status = HIL_OK;
    HIL_TRY_DONE(take_memory(&m));
    for (int64_t t = 0; t < hil_param_tiles(param); ++t)
        HIL_TRY_DONE(momentum_tile(&m, hil_unit_of(store, param, t)));
    HIL_TRY_DONE(compute_matrix(&m));
    for (int64_t t = 0; t < hil_param_tiles(param); ++t)
        HIL_TRY_DONE(give_tile(&m, hil_unit_of(store, param, t)));
    HIL_TRY_DONE(hil_links_mark(store->links, &m.given));
done:
    hil_fence_join(&m.given, &m.placed);
    give_memory(&m);
    return status;
}

hil_status hil_sweep_matrices(hil_store *store)
{
    bool any = false;
    for (size_t i = 0; i < store->count; ++i) {
        hil_param *p = store->params[i];
        if (!hil_param_is_matrix(p) || !hil_param_is_given(store, p)) continue;
        if (!any) HIL_TRY(hil_window_clear(store));
        if (!any) hil_window_reclaim(store);
        any = true;
        for (int64_t t = 0; t < hil_param_tiles(p); ++t)
            hil_unit_note_given(hil_unit_of(store, p, t));
        HIL_TRY(update_matrix(store, p));
    }
    return any ? hil_links_mark(store->links, &store->sweep->marked) : HIL_OK;
}
