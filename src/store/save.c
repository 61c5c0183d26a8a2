/* save.c - converts states chunk by chunk to fp32 for a checkpoint, while training goes on. */
#include "base/alloc.h"
#include "io/align.h"
#include "store/home.h"
#include "store/save.h"

struct hil_save {
    hil_saving saving;      /* of the last save */
    hil_saving next;        /* of the next sweep; put is NULL: it does not save */
    hil_saved_chunk *chunk; /* the chunks of submitted jobs */
    size_t chunks;
    float *converted; /* a chunk of a state */
    hil_status (*finish)(void *context);
    void *context;
    hil_fence all; /* over: the last save */
};

/* Returns a state as fp32: in place if it is kept as fp32, else converted into `converted`. */
static const float *as_numbers(const hil_store *store, const hil_saved_chunk *c, hil_state state,
                               int64_t at, int64_t count)
{
    const hil_unit *unit = c->unit;
    float *out = store->save->converted;
    const void *part[HIL_GRADIENT];
    for (int s = 0; s < HIL_GRADIENT; ++s)
        part[s] =
            c->state[s] ? c->state[s] + hil_chunk_bytes(store, unit, (hil_unit_state)s, at) : NULL;
    if (state == HIL_MASTER) {
        if (unit->dtype == HIL_F32) return part[HIL_WEIGHT];
        if (unit->dtype == HIL_F16 && part[HIL_REST]) return part[HIL_REST];
        hil_master_join(out, unit->dtype, part[HIL_WEIGHT], part[HIL_REST], count);
        return out;
    }
    const void *moment = part[state == HIL_MOMENT1 ? HIL_STATE1 : HIL_STATE2];
    if (!moment || store->options.codec == HIL_CODEC_F32) return moment;
    hil_q8_decode(out, moment, state == HIL_MOMENT1 ? HIL_Q8_SIGNED : HIL_Q8_UNSIGNED, count);
    return out;
}

/* Runs on the SAVE link's thread. */
static hil_status save_chunk(void *context, int64_t index)
{
    hil_store *store = context;
    const struct hil_save *s = store->save;
    const hil_saved_chunk *c = &s->chunk[index];
    for (int m = 0; m < c->unit->members; ++m) {
        const hil_member *member = &c->unit->member[m];
        int64_t from, to;
        if (!hil_member_overlap(member, c->base, c->base + c->count, &from, &to)) continue;
        for (int state = 0; state < HIL_STATES; ++state) {
            const float *data = as_numbers(store, c, (hil_state)state, from - c->base, to - from);
            if (data)
                HIL_TRY(s->saving.put(s->saving.context, member->param, (hil_state)state,
                                      member->first + from - member->offset, to - from, data));
        }
    }
    return HIL_OK;
}

static uint64_t saved_bytes(const hil_saved_chunk *c)
{
    int states = 1 + (c->state[HIL_STATE1] != NULL) + (c->state[HIL_STATE2] != NULL);
    return (uint64_t)c->count * sizeof(float) * (uint64_t)states;
}

void hil_store_save_next(hil_store *store, const hil_saving *saving)
{
    store->save->next = *saving;
}

bool hil_save_is_asked(const hil_store *store)
{
    return store->save->next.put != NULL;
}

hil_status hil_save_begin(hil_store *store, bool *saves)
{
    struct hil_save *s = store->save;
    *saves = hil_save_is_asked(store);
    if (!*saves) return HIL_OK;
    HIL_TRY(hil_store_saved(store));
    s->saving = s->next;
    s->next = (hil_saving){0};
    s->chunks = 0;
    return HIL_OK;
}

hil_status hil_save_chunk(hil_store *store, const hil_saved_chunk *chunk, const hil_fence *after,
                          hil_fence *over)
{
    struct hil_save *s = store->save;
    s->chunk[s->chunks] = *chunk;
    hil_job job = {.link = HIL_LINK_SAVE,
                   .after = *after,
                   .run = save_chunk,
                   .context = store,
                   .index = (int64_t)s->chunks++,
                   .bytes = saved_bytes(chunk),
                   .name = "save"};
    HIL_TRY(hil_links_submit(store->links, &job, over));
    hil_fence_join(&s->all, over);
    return HIL_OK;
}

static hil_status finish(void *context, int64_t index)
{
    (void)index;
    const struct hil_save *s = context;
    return s->finish(s->context);
}

hil_status hil_store_save_finish(hil_store *store, hil_status (*run)(void *context), void *context)
{
    struct hil_save *s = store->save;
    s->finish = run;
    s->context = context;
    hil_job job = {.link = HIL_LINK_SAVE,
                   .after = s->all,
                   .run = finish,
                   .context = s,
                   .name = "finish a checkpoint"};
    return hil_links_submit(store->links, &job, &s->all);
}

hil_status hil_store_saved(hil_store *store)
{
    return hil_links_wait(store->links, &store->save->all, HIL_WAIT_MEMORY);
}

hil_status hil_save_open(hil_store *store)
{
    struct hil_save *s;
    int64_t chunks = 0;
    HIL_TRY(HIL_ALLOC(1, &s));
    store->save = s;
    if (!store->plan->saves) return HIL_OK;
    for (size_t u = 0; u < store->units; ++u)
        chunks += (store->unit[u].slice + store->plan->chunk - 1) / store->plan->chunk;
    HIL_TRY(HIL_ALLOC(chunks, &s->chunk));
    size_t bytes = hil_align_up((size_t)store->plan->chunk * sizeof(float));
    store->resident[HIL_HOST] += bytes;
    return hil_tiers_take(store->tiers, HIL_HOST, bytes, "saving", (void **)&s->converted);
}

void hil_save_close(hil_store *store)
{
    if (!store->save) return;
    hil_free(store->save->chunk);
    hil_free(store->save);
    store->save = NULL;
}
