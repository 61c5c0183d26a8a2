/* renewal.c - empties the window in the middle of a step; see [Note: renewal] in pass.h. */
#include "base/hash.h"
#include "store/window.h"

hil_status hil_store_pass_renew(hil_store *store)
{
    return hil_window_renew(store);
}

hil_status hil_store_pass_resume(hil_store *store, bool again)
{
    HIL_TRY(again ? hil_order_renew_again(store->pass) : hil_order_renew(store->pass));
    return hil_window_prefetch(store);
}

static void add_word(uint64_t *digest, uint64_t word)
{
    *digest = hil_hash(*digest, &word, sizeof word);
}

/* Adds to the digest whether and where a sum is kept. */
static void add_use(uint64_t *digest, const hil_use *use)
{
    const hil_movable *sum = &use->sum;
    add_word(digest, (uint64_t)use->visited << 1 | (uint64_t)use->summing);
    add_word(digest, (uintptr_t)sum->data);
    add_word(digest, sum->stored ? 1 + (uint64_t)sum->home : 0);
    if (!sum->stored) return;
    if (sum->home != HIL_DISK) add_word(digest, sum->host);
    for (int64_t i = 0; i < sum->extent.pages && sum->home == HIL_DISK; ++i) {
        const hil_page *page = &sum->extent.at[i];
        if (page->head) add_word(digest, page->offset << 8 | (uint64_t)page->drive);
    }
}

void hil_store_pass_state(const hil_store *store, hil_pass_state *out)
{
    const hil_uses_list *seen = &store->pass->seen;
    *out = (hil_pass_state){.uses = seen->count, .marks = seen->marks, .renewals = seen->renewals};
    add_word(&out->digest, store->spilling);
    for (size_t u = 0; u < store->units; ++u) {
        const hil_unit *unit = &store->unit[u];
        for (int i = 0; i < unit->uses; ++i) add_use(&out->digest, &unit->use[i]);
    }
}

hil_status hil_store_pass_repeat(hil_store *store, const hil_pass_state state[2], int64_t times)
{
    const hil_order_range range = {state[0].uses,  state[1].uses,     state[0].marks,
                                   state[1].marks, state[0].renewals, state[1].renewals};
    return hil_order_repeat(&store->order[HIL_PASS_TRAIN], &range, times);
}

hil_status hil_store_pass_compose(hil_store *store, const int32_t *visit, size_t visits,
                                  hil_pass_state *last)
{
    hil_order *order = &store->order[HIL_PASS_TRAIN];
    *last = (hil_pass_state){0};
    HIL_TRY(hil_order_compose(order, visit, visits));
    const hil_uses_list *known = &order->known;
    if (!known->renewals) return HIL_OK;
    last->renewals = known->renewals;
    last->uses = (size_t)known->renewal[known->renewals - 1];
    for (size_t i = 0, marks = 0; i < visits; ++i) {
        if (visit[i] == HIL_ORDER_RENEWAL)
            last->marks = marks;
        else
            ++marks;
    }
    return HIL_OK;
}

hil_status hil_store_pass_cut(hil_store *store, const hil_pass_state *state)
{
    return hil_order_cut(&store->order[HIL_PASS_TRAIN], state->uses, state->marks);
}

hil_status hil_store_pass_restore(hil_store *store)
{
    return hil_order_restore(&store->order[HIL_PASS_TRAIN]);
}
