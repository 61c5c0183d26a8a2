/* bpe_merge.c - merges by rank: the pair of the lowest rank first, the leftmost of equals. */
#include "text/bpe_work.h"

/* Words up to this many symbols are merged by scanning, which beats a heap there. */
enum { SHORT = 48 };

static const hil_merge *merge_of(const hil_bpe *bpe, int32_t left, int32_t right)
{
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    for (size_t at = hil_vocab_hash_mix(key) & bpe->merge_mask;; at = (at + 1) & bpe->merge_mask) {
        const hil_merge *merge = &bpe->merges[at];
        if (merge->key == key) return merge;
        if (merge->key == UINT64_MAX) return NULL;
    }
}

static hil_status merge_short(const hil_bpe *bpe, hil_ids *symbols)
{
    const hil_merge *found[SHORT];
    int32_t *id = symbols->data;
    size_t count = symbols->size;
    for (size_t i = 0; i + 1 < count; ++i) found[i] = merge_of(bpe, id[i], id[i + 1]);
    for (;;) {
        const hil_merge *best = NULL;
        size_t at = 0;
        for (size_t i = 0; i + 1 < count; ++i) {
            if (found[i] && (!best || found[i]->rank < best->rank)) {
                best = found[i];
                at = i;
            }
        }
        if (!best) break;
        id[at] = best->id;
        --count;
        for (size_t i = at + 1; i < count; ++i) {
            id[i] = id[i + 1];
            found[i - 1] = found[i];
        }
        if (at + 1 < count) found[at] = merge_of(bpe, id[at], id[at + 1]);
        if (at > 0) found[at - 1] = merge_of(bpe, id[at - 1], id[at]);
    }
    symbols->size = count;
    return HIL_OK;
}

static hil_status heap_push(hil_bpe_work *work, const hil_merge *merge, uint32_t place)
{
    HIL_TRY(HIL_GROW(&work->heap, &work->heap_capacity, work->heap_size + 1));
    hil_bpe_candidate added = {(uint64_t)merge->rank << 32 | place, merge->id};
    size_t at = work->heap_size++;
    for (; at > 0 && work->heap[(at - 1) / 2].order > added.order; at = (at - 1) / 2)
        work->heap[at] = work->heap[(at - 1) / 2];
    work->heap[at] = added;
    return HIL_OK;
}

static hil_bpe_candidate heap_pop(hil_bpe_work *work)
{
    hil_bpe_candidate top = work->heap[0], last = work->heap[--work->heap_size];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= work->heap_size) break;
        if (child + 1 < work->heap_size && work->heap[child + 1].order < work->heap[child].order)
            ++child;
        if (work->heap[child].order >= last.order) break;
        work->heap[at] = work->heap[child];
        at = child;
    }
    work->heap[at] = last;
    return top;
}

static hil_status push_pair(const hil_bpe *bpe, hil_bpe_work *work, uint32_t left)
{
    uint32_t right = left == HIL_BPE_NOWHERE ? HIL_BPE_NOWHERE : work->chain[left].next;
    if (right == HIL_BPE_NOWHERE) return HIL_OK;
    const hil_merge *merge = merge_of(bpe, work->chain[left].id, work->chain[right].id);
    return merge ? heap_push(work, merge, left) : HIL_OK;
}

hil_status hil_bpe_chain(const hil_bpe *bpe, hil_bpe_work *work, const int32_t *symbols,
                         size_t size)
{
    if (size >= INT32_MAX)
        return hil_fail(HIL_ERR_INPUT, "tokenizer: a word of %zu characters is too long", size);
    uint32_t count = (uint32_t)size;
    HIL_TRY(HIL_GROW(&work->chain, &work->chain_capacity, count));
    for (uint32_t i = 0; i < count; ++i)
        work->chain[i] = (hil_bpe_symbol){symbols[i], i ? i - 1 : HIL_BPE_NOWHERE,
                                          i + 1 < count ? i + 1 : HIL_BPE_NOWHERE};
    work->heap_size = 0;
    for (uint32_t i = 0; i + 1 < count; ++i) HIL_TRY(push_pair(bpe, work, i));
    while (work->heap_size) {
        hil_bpe_candidate top = heap_pop(work);
        uint32_t place = (uint32_t)top.order;
        hil_bpe_symbol *left = &work->chain[place];
        if (left->id < 0 || left->next == HIL_BPE_NOWHERE) continue;
        hil_bpe_symbol *right = &work->chain[left->next];
        const hil_merge *merge = merge_of(bpe, left->id, right->id);
        if (!merge || merge->id != top.id) continue;
        left->id = merge->id;
        right->id = -1;
        left->next = right->next;
        if (right->next != HIL_BPE_NOWHERE) work->chain[right->next].previous = place;
        HIL_TRY(push_pair(bpe, work, left->previous));
        HIL_TRY(push_pair(bpe, work, place));
    }
    return HIL_OK;
}

hil_status hil_bpe_merge(const hil_bpe *bpe, hil_bpe_work *work, hil_ids *symbols)
{
    if (symbols->size <= SHORT) return merge_short(bpe, symbols);
    size_t count = symbols->size;
    HIL_TRY(hil_bpe_chain(bpe, work, symbols->data, count));
    symbols->size = 0;
    for (size_t i = 0; i < count; ++i)
        if (work->chain[i].id >= 0) symbols->data[symbols->size++] = work->chain[i].id;
    return HIL_OK;
}
