/* state_access.c - reads and writes states as fp32 numbers, for files and initialisation, one chunk
   at a time. Reads block; pages of a write are written to disk by the WRITE link. */
#include "base/alloc.h"
#include "base/normal.h"
#include "base/philox.h"
#include "io/align.h"
#include "store/home.h"
#include "store/quantizer.h"
#include "store/save.h"
#include "store/sweep.h"
#include "store/window.h"

#include <math.h>
#include <string.h>

#define TASK 16384 /* elements; a multiple of HIL_PAD */

/* Elements [at, at + count) of this rank's slice of a unit, all in one chunk and of one member. */
typedef struct span {
    hil_store *store;
    hil_unit *unit;
    const hil_member *member;
    int64_t at, count;
} span;

/* Returns the next span of a parameter from element *first on; count 0: none is left. */
static span find_span(const hil_param *p, int64_t *first)
{
    hil_store *store = p->store;
    int64_t tile = p->stride, chunk = store->plan->chunk;
    while (*first < p->kept) {
        hil_unit *unit = hil_unit_of(store, p, tile ? *first / tile : 0);
        const hil_member *member = &unit->member[p->member];
        int64_t start = member->offset - hil_unit_begin(store, unit); /* in the slice */
        int64_t at = start + *first - member->first, last = start + member->count;
        if (at < 0) at = 0;
        if (last > unit->slice) last = unit->slice;
        if (at < last) {
            int64_t end = (at / chunk + 1) * chunk;
            *first = member->first + at - start;
            return (span){store, unit, member, at, (end < last ? end : last) - at};
        }
        *first = member->first + member->count;
    }
    return (span){.store = store};
}

int64_t hil_param_held(const hil_param *param, int64_t *first)
{
    return find_span(param, first).count;
}

int64_t hil_store_range(const hil_store *store)
{
    int64_t most = 1;
    for (size_t u = 0; u < store->units; ++u)
        if (store->unit[u].slice > most) most = store->unit[u].slice;
    return most < store->plan->chunk ? most : store->plan->chunk;
}

bool hil_param_has(const hil_param *param, hil_state state)
{
    const hil_unit *unit = &param->store->unit[param->unit];
    hil_unit_state states[] = {HIL_WEIGHT, HIL_STATE1, HIL_STATE2};
    return hil_unit_bytes(param->store, (size_t)(unit - param->store->unit), states[state]) > 0;
}

bool hil_param_is_saved(const hil_param *param, hil_state state)
{
    const hil_unit *unit = &param->store->unit[param->unit];
    return hil_unit_is_saved(param->store, unit) && hil_param_has(param, state);
}

/* The bytes of a state around a span, in memory that the CPU can access: at home; the whole page
   from disk, in the staging ring; or the groups of HIL_PAD elements from a GPU, in a hil_stage. */
typedef struct view {
    char *base;    /* element `first` of the slice */
    int64_t first; /* the first element of the chunk, of the group, or 0 */
    bool staged;   /* in the staging ring */
    hil_part page; /* its page on disk */
    char *device;  /* its address on the GPU; NULL: not on a GPU */
    size_t bytes;
} view;

/* Whether the span covers its page, which then need not be read before it is written. Elements
   after the last member do not count. */
static bool is_whole(const span *s)
{
    int64_t chunk = s->store->plan->chunk, begin = s->at / chunk * chunk, end = begin + chunk;
    const hil_member *last = &s->unit->member[s->unit->members - 1];
    int64_t filled = last->offset + last->count - hil_unit_begin(s->store, s->unit);
    return s->at == begin && s->at + s->count >= (end < filled ? end : filled);
}

static hil_status read_page(hil_store *store, const view *v)
{
    hil_disk_transfer page = {
        .extent = v->page.disk, .first = v->page.first, .count = 1, .memory = v->base};
    HIL_TRY(hil_store_finish_writes(store));
    HIL_TRY(hil_disk_start(store->tiers->disk, &page));
    return hil_disk_wait(store->tiers->disk, &page);
}

static hil_status open_page(const span *s, const hil_home *home, bool write, view *v)
{
    hil_fence after;
    HIL_TRY(hil_ring_take(s->store->ring, home->extent.page, (void **)&v->base, &after));
    v->staged = true;
    HIL_TRY(hil_links_wait(s->store->links, &after, HIL_WAIT_MEMORY));
    int64_t chunk = s->at / s->store->plan->chunk;
    v->first = chunk * s->store->plan->chunk;
    v->page = (hil_part){.kind = HIL_PART_WRITE,
                         .from = v->base,
                         .bytes = home->extent.page,
                         .disk = &home->extent,
                         .first = chunk,
                         .count = 1};
    if (!write || !is_whole(s)) return read_page(s->store, v);
    memset(v->base, 0, home->extent.page); /* the padding of the last group enters its scale */
    return HIL_OK;
}

/* Whether the span covers all groups around it, which then need not be read before they are
   written. The padding after a member is zero. */
static bool fills_groups(const span *s)
{
    int64_t end = s->at + s->count, first = hil_unit_begin(s->store, s->unit);
    bool last = end + first == s->member->offset + s->member->count;
    return s->at % HIL_PAD == 0 && (last || end % HIL_PAD == 0);
}

/* Takes the next part of the stage's memory for the view, and copies the state there from the
   device unless all of it will be overwritten. */
static hil_status open_stage(const span *s, hil_unit_state state, bool write, view *v,
                             hil_stage *stage)
{
    hil_device *device = s->store->device;
    int64_t end = (s->at + s->count + HIL_PAD - 1) / HIL_PAD * HIL_PAD;
    v->first = s->at / HIL_PAD * HIL_PAD;
    v->base = stage->memory;
    v->bytes = hil_chunk_bytes(s->store, s->unit, state, end - v->first);
    v->device = s->unit->home[state].memory + hil_chunk_bytes(s->store, s->unit, state, v->first);
    stage->memory += hil_align_up(v->bytes);
    if (write && fills_groups(s)) {
        size_t last = hil_chunk_bytes(s->store, s->unit, state, HIL_PAD);
        memset(v->base + v->bytes - last, 0, last);
        return HIL_OK;
    }
    HIL_TRY(device->queue->copy(device, HIL_STREAM_COMPUTE, v->base, v->device, v->bytes));
    HIL_TRY(hil_stage_end(s->store, stage));
    return device->events->wait(device, stage->used);
}

static hil_status open_view(const span *s, hil_unit_state state, bool write, view *v,
                            hil_stage *stage)
{
    const hil_home *home = &s->unit->home[state];
    *v = (view){.base = home->memory};
    if (home->tier == HIL_DISK) return open_page(s, home, write, v);
    if (home->tier == HIL_HOST || !s->store->device) return HIL_OK;
    if (!stage->memory) HIL_TRY(hil_stage_begin(s->store, stage));
    return open_stage(s, state, write, v, stage);
}

/* Writes the view back, unless `status` is a failure, which is returned. The copy to a device and
   the write of a page are only queued. */
static hil_status close_view(const span *s, view *v, bool write, hil_status status)
{
    hil_device *device = s->store->device;
    if (v->device && write && status == HIL_OK)
        status = device->queue->copy(device, HIL_STREAM_COMPUTE, v->device, v->base, v->bytes);
    if (!v->staged) return status;
    hil_fence written = {0};
    hil_job job = {.link = HIL_LINK_WRITE, .name = "states", .parts = 1, .part = {v->page}};
    if (write && status == HIL_OK) status = hil_links_submit(s->store->links, &job, &written);
    hil_ring_give(s->store->ring, v->base, &written);
    hil_fence_join(&s->store->written, &written);
    return status;
}

/* Conversion of a span, in tasks that start at multiples of HIL_PAD of the slice. */
typedef struct conversion {
    const span *span;
    hil_state state;
    char *weight, *rest, *moment; /* each from element *_first of the slice on */
    int64_t weight_first, rest_first, moment_first;
    size_t size;    /* of one number of the caller: fp32, or a byte of a quantized weight */
    const char *in; /* NULL: reads */
    char *out;
} conversion;

static void put_master(const conversion *c, int64_t at, int64_t count, const void *numbers)
{
    hil_dtype dtype = c->span->unit->dtype;
    const float *in = numbers;
    char *weight = c->weight + (size_t)(at - c->weight_first) * hil_dtype_size(dtype);
    char *rest = c->rest ? c->rest + hil_rest_bytes(dtype, at - c->rest_first) : NULL;
    if (dtype == HIL_U8) {
        memcpy(weight, numbers, (size_t)count);
        return;
    }
    if (dtype != HIL_BF16) {
        hil_dtype_from_f32(weight, in, dtype, count);
        if (rest) memcpy(rest, in, (size_t)count * 4);
        return;
    }
    uint16_t *high = (uint16_t *)(void *)weight, *low = (uint16_t *)(void *)rest;
    for (int64_t i = 0; i < count; ++i) high[i] = hil_bf16_high(in[i]);
    if (!low) return;
    /* Weights that came in bf16 have no rest. Writing zeros to new memory would fault it in, which
       takes longer than all else here. */
    uint16_t changes = 0;
    for (int64_t i = 0; i < count; ++i) changes |= hil_bf16_low(in[i]) ^ low[i];
    for (int64_t i = 0; changes && i < count; ++i) low[i] = hil_bf16_low(in[i]);
}

void hil_master_join(float *out, hil_dtype dtype, const void *weight, const void *rest,
                     int64_t count)
{
    if (!rest) {
        hil_dtype_to_f32(out, weight, dtype, count);
    } else if (dtype == HIL_BF16) {
        const uint16_t *high = weight, *low = rest;
        for (int64_t i = 0; i < count; ++i) out[i] = hil_bf16_join(high[i], low[i]);
    } else {
        memcpy(out, rest, (size_t)count * 4);
    }
}

static void get_master(const conversion *c, int64_t at, int64_t count, void *out)
{
    hil_dtype dtype = c->span->unit->dtype;
    const char *weight = c->weight + (size_t)(at - c->weight_first) * hil_dtype_size(dtype);
    const char *rest = c->rest ? c->rest + hil_rest_bytes(dtype, at - c->rest_first) : NULL;
    if (dtype == HIL_U8)
        memcpy(out, weight, (size_t)count);
    else
        hil_master_join(out, dtype, weight, rest, count);
}

/* Moments are encoded in groups: decodes the groups around [at, at + count); to write, changes and
   encodes them again. */
static void move_moment(const conversion *c, int64_t at, int64_t count, int64_t from)
{
    const hil_store *store = c->span->store;
    hil_codec codec = store->options.codec;
    hil_q8_kind kind = c->state == HIL_MOMENT1 ? HIL_Q8_SIGNED : HIL_Q8_UNSIGNED;
    float group[HIL_PAD];
    for (int64_t done = 0; done < count;) {
        int64_t begin = (at + done) / HIL_PAD * HIL_PAD, skip = at + done - begin;
        int64_t n = HIL_PAD - skip < count - done ? HIL_PAD - skip : count - done;
        char *coded = c->moment + hil_codec_bytes(codec, begin - c->moment_first);
        bool q8 = codec == HIL_CODEC_Q8;
        if (q8)
            hil_q8_decode(group, coded, kind, HIL_PAD);
        else
            memcpy(group, coded, sizeof group);
        if (c->out) {
            memcpy(c->out + (from + done) * 4, group + skip, (size_t)n * 4);
        } else {
            memcpy(group + skip, c->in + (from + done) * 4, (size_t)n * 4);
            if (q8)
                hil_q8_encode(coded, group, kind, HIL_PAD);
            else
                memcpy(coded, group, sizeof group);
        }
        done += n;
    }
}

static void convert_task(void *context, int64_t i, int thread)
{
    (void)thread;
    const conversion *c = context;
    int64_t start = c->span->at / HIL_PAD * HIL_PAD;
    int64_t from = start + i * TASK, to = from + TASK, end = c->span->at + c->span->count;
    if (from < c->span->at) from = c->span->at;
    if (to > end) to = end;
    int64_t skip = from - c->span->at;
    if (c->state != HIL_MASTER)
        move_moment(c, from, to - from, skip);
    else if (c->out)
        get_master(c, from, to - from, c->out + (size_t)skip * c->size);
    else
        put_master(c, from, to - from, c->in + (size_t)skip * c->size);
}

static void run_conversion(conversion *c)
{
    int64_t start = c->span->at / HIL_PAD * HIL_PAD, end = c->span->at + c->span->count;
    hil_pool_run(c->span->store->opening.pool, convert_task, c, (end - start + TASK - 1) / TASK);
}

static hil_status move_span(const span *s, conversion *c)
{
    hil_unit_state state[2] = {HIL_WEIGHT, HIL_REST};
    int states = s->unit->home[HIL_REST].exists ? 2 : 1;
    if (c->state != HIL_MASTER) {
        state[0] = c->state == HIL_MOMENT1 ? HIL_STATE1 : HIL_STATE2;
        states = 1;
    }
    view v[2] = {0};
    hil_stage stage = {0};
    size_t pages = 0;
    for (int i = 0; i < states; ++i)
        if (s->unit->home[state[i]].tier == HIL_DISK)
            pages += hil_align_up(s->unit->home[state[i]].extent.page);
    hil_status status = hil_ring_fit(s->store->ring, pages);
    for (int i = 0; i < states && status == HIL_OK; ++i)
        status = open_view(s, state[i], c->in != NULL, &v[i], &stage);
    c->span = s;
    if (c->state != HIL_MASTER) {
        c->moment = v[0].base;
        c->moment_first = v[0].first;
    } else {
        c->weight = v[0].base;
        c->weight_first = v[0].first;
        c->rest = states == 2 ? v[1].base : NULL;
        c->rest_first = states == 2 ? v[1].first : 0;
    }
    if (status == HIL_OK) run_conversion(c);
    for (int i = 0; i < states; ++i) status = close_view(s, &v[i], c->in != NULL, status);
    if (status == HIL_OK && stage.memory) status = hil_stage_end(s->store, &stage);
    return status;
}

hil_status hil_store_finish_writes(hil_store *store)
{
    return hil_links_wait(store->links, &store->written, HIL_WAIT_UPDATE);
}

/* Whether the write comes after the last one in the order of states, parameters and elements, and
   so to other pages: jobs of the WRITE link that write the same page may overlap. */
static bool is_next(hil_store *store, const hil_param *p, int64_t first, int64_t count,
                    hil_state state)
{
    hil_written last = store->last;
    store->last = (hil_written){state, p->index, first + count};
    if (state != last.state) return state > last.state;
    return p->index > last.param || (p->index == last.param && first >= last.end);
}

/* Waits for the sweep; before a write, also for the transfers that read these states. Kernels that
   use them are queued on the compute stream, ahead of the copies that follow. */
static hil_status wait_for_states(hil_store *store, const hil_param *p, int64_t first,
                                  int64_t count, const conversion *c)
{
    int64_t tile = p->stride;
    for (int64_t at = first; at < first + count; at = (at / tile + 1) * tile) {
        hil_unit *unit = hil_unit_of(store, p, at / tile);
        HIL_TRY(hil_links_wait(store->links, &unit->settled, HIL_WAIT_UPDATE));
        if (!c->in) continue;
        if (c->state == HIL_MASTER) {
            hil_window_forget(store, unit);
            store->rewritten = true;
        }
        HIL_TRY(hil_links_wait(store->links, &unit->reading, HIL_WAIT_WEIGHTS));
    }
    return HIL_OK;
}

static hil_status move(hil_store *store, hil_param *param, int64_t first, int64_t count,
                       conversion *c)
{
    assert(first >= 0 && count >= 0 && first + count <= param->kept);
    if (!c->in || !is_next(store, param, first, count, c->state))
        HIL_TRY(hil_store_finish_writes(store));
    HIL_TRY(wait_for_states(store, param, first, count, c));
    const char *in = c->in;
    char *out = c->out;
    int64_t end = first + count;
    for (int64_t at = first;;) {
        span s = find_span(param, &at);
        if (!s.count || at >= end) return HIL_OK;
        if (s.count > end - at) s.count = end - at;
        if (in) c->in = in + (size_t)(at - first) * c->size;
        if (out) c->out = out + (size_t)(at - first) * c->size;
        HIL_TRY(move_span(&s, c));
        at += s.count;
    }
}

hil_status hil_store_read(hil_store *store, hil_param *param, hil_state state, int64_t first,
                          int64_t count, float *out)
{
    assert(!param->quant);
    conversion c = {.state = state, .size = sizeof *out, .out = (char *)out};
    return move(store, param, first, count, &c);
}

/* Elements of other ranks are zero bits here, so the bitwise OR of all ranks is the whole state. */
hil_status hil_store_read_whole(hil_store *store, hil_param *param, hil_state state, float *out)
{
    size_t bytes = (size_t)param->elements * sizeof *out;
    int64_t tile = param->tile_rows * hil_shape_cols(&param->spec.shape);
    if (param->quant) {
        for (int64_t first = 0; first < param->elements; first += tile)
            HIL_TRY(hil_store_read_expanded(store, param, first / tile, out + first));
        return HIL_OK;
    }
    memset(out, 0, bytes);
    HIL_TRY(hil_store_read(store, param, state, 0, param->elements, out));
    return hil_comm_any(store->opening.comm, (unsigned char *)out, bytes);
}

hil_status hil_store_write(hil_store *store, hil_param *param, hil_state state, int64_t first,
                           int64_t count, const float *in)
{
    assert(!param->quant);
    conversion c = {.state = state, .size = sizeof *in, .in = (const char *)in};
    return move(store, param, first, count, &c);
}

hil_status hil_store_read_quantized(hil_store *store, hil_param *param, int64_t first,
                                    int64_t count, void *out)
{
    assert(param->quant);
    conversion c = {.state = HIL_MASTER, .size = 1, .out = out};
    return move(store, param, first, count, &c);
}

hil_status hil_store_write_quantized(hil_store *store, hil_param *param, int64_t first,
                                     int64_t count, const void *in)
{
    assert(param->quant);
    conversion c = {.state = HIL_MASTER, .size = 1, .in = in};
    ++param->writes;
    return move(store, param, first, count, &c);
}

/* Element i of parameter p is number i of the stream (seed, p). */
typedef struct filling {
    const hil_param *param;
    uint64_t seed;
    int64_t first, count;
    float *out;
} filling;

/* Numbers 4g to 4g + 3 are made of the four words of counter (g, p). */
#define LOG_LEAST 0.01f

#define STEP_LEAST 1e-3f
#define STEP_MOST 1e-1f

/* `unit` is drawn from [0, 1). */
static float value_of(hil_init init, float unit, float bound)
{
    if (init == HIL_INIT_UNIFORM) return (2 * unit - 1) * bound;
    if (init == HIL_INIT_LOG) return logf(LOG_LEAST + unit * (bound - LOG_LEAST));
    float step = STEP_LEAST * expf(unit * logf(STEP_MOST / STEP_LEAST));
    return step + logf(-expm1f(-step));
}

static void fill_uniform(const filling *f, int64_t from, int64_t end)
{
    float bound = (float)f->param->spec.bound;
    uint32_t word[4];
    for (int64_t i = from; i < end; ++i) {
        if (i == from || i % 4 == 0)
            hil_philox(f->seed, (uint64_t)i / 4, (uint64_t)f->param->index, word);
        float unit = hil_philox_unit(word[i % 4]);
        f->out[i - f->first] = value_of(f->param->spec.init, unit, bound);
    }
}

static void fill_task(void *context, int64_t task, int thread)
{
    (void)thread;
    const filling *f = context;
    const hil_param_spec *spec = &f->param->spec;
    int64_t from = f->first + task * TASK, end = f->first + f->count;
    if (end > from + TASK) end = from + TASK;
    float *out = f->out - f->first;
    switch (spec->init) {
    case HIL_INIT_ZERO:
    case HIL_INIT_ONE:
        for (int64_t i = from; i < end; ++i) out[i] = spec->init == HIL_INIT_ONE ? 1.0f : 0.0f;
        break;
    case HIL_INIT_STD:
        for (int64_t i = from; i < end; ++i) out[i] = (float)spec->std;
        break;
    case HIL_INIT_NORMAL:
        hil_normal_fill(f->seed, (uint64_t)f->param->index, from, end - from, (float)spec->std,
                        out + from);
        break;
    case HIL_INIT_LOG_COUNT:
        for (int64_t i = from; i < end; ++i) out[i] = logf((float)(i + 1));
        break;
    case HIL_INIT_UNIFORM:
    case HIL_INIT_LOG:
    case HIL_INIT_STEP:
        fill_uniform(f, from, end);
        break;
    }
}

static hil_status fill(void *context, int64_t first, int64_t count, float *out)
{
    filling *f = context;
    f->first = first;
    f->count = count;
    f->out = out;
    hil_pool_run(f->param->store->opening.pool, fill_task, f, (count + TASK - 1) / TASK);
    return HIL_OK;
}

hil_status hil_param_initialise(hil_param *p, uint64_t seed)
{
    hil_store *store = p->store;
    float *buffer = NULL;
    filling f = {.param = p, .seed = seed};
    hil_status status;
    hil_quant_draw draw = {.key = seed, .high = (uint64_t)p->index, .scale = (float)p->spec.std};
    hil_quantizer quantizer = {fill, &f, p->spec.init == HIL_INIT_NORMAL ? &draw : NULL};
    if (p->quant) return hil_quantizer_fill(p, &quantizer);
    HIL_TRY_DONE(HIL_ALLOC(hil_store_range(store), &buffer));
    for (int64_t first = 0, count; (count = hil_param_held(p, &first)); first += count) {
        HIL_TRY_DONE(fill(&f, first, count, buffer));
        HIL_TRY_DONE(hil_store_write(store, p, HIL_MASTER, first, count, buffer));
    }
done:
    hil_free(buffer);
    return status;
}

hil_status hil_store_initialise(hil_store *store, uint64_t seed)
{
    for (size_t i = 0; i < store->count; ++i) HIL_TRY(hil_param_initialise(store->params[i], seed));
    return hil_store_finish_writes(store);
}
