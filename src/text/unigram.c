/* unigram.c - the best pieces of a word, by Viterbi's algorithm, in bounded memory.

   [Note: certain pieces] All pieces that begin before place `start` were tried. The best pieces of
   the whole word have a first border at or after `start`; up to there they are the best that are
   known now. So whatever follows, the borders that the best ways to all such places have in common
   are certain, and so are the pieces before the last of them. Scores are sums from the beginning of
   the word, so they are kept as they are when the text before is dropped. */
#include "text/unigram.h"

#include "text/unicode/unicode.h"

#include <string.h>

enum { WINDOW = 1 << 14 };

void hil_unigram_drop(hil_unigram_work *work)
{
    work->text.size = work->start = work->search = work->unknown.size = 0;
    work->unknown_long = false;
}

void hil_unigram_work_free(hil_unigram_work *work)
{
    hil_text_free(&work->text);
    hil_text_free(&work->unknown);
    hil_free(work->nodes);
    hil_free(work->path);
    *work = (hil_unigram_work){0};
}

static void reach(hil_unigram_work *work, size_t from, size_t to, double score, int32_t id)
{
    hil_unigram_node *node = &work->nodes[to];
    score += work->nodes[from].score;
    if (node->size == 0 || score > node->score)
        *node = (hil_unigram_node){score, id, (uint32_t)(to - from)};
}

/* The child of a node for a byte, or 0. */
static uint32_t child_of(const hil_unigram *unigram, uint32_t node, unsigned char byte)
{
    uint32_t low = unigram->first[node], end = unigram->first[node + 1], high = end;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (unigram->bytes[middle] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low < end && unigram->bytes[low] == byte ? low : 0;
}

/* Tries all pieces that begin at work->start, and goes to the next character. */
static hil_status try_pieces(const hil_unigram *unigram, hil_unigram_work *work)
{
    const unsigned char *text = (const unsigned char *)work->text.data + work->start;
    size_t left = work->text.size - work->start, step, from = work->start;
    bool single = false;
    hil_utf8_get((const char *)text, &step);
    uint32_t node = unigram->root[*text];
    for (size_t size = 1; node; ++size) {
        int32_t id = unigram->ids[node];
        if (id >= 0) reach(work, from, from + size, unigram->scores[id], id);
        single |= id >= 0 && size == step;
        node = size < left ? child_of(unigram, node, text[size]) : 0;
    }
    if (!single && unigram->unk_id < 0)
        return hil_fail(HIL_ERR_INPUT,
                        "tokenizer: a character is not in the vocabulary, and there is no unknown "
                        "token");
    if (!single) reach(work, from, from + step, unigram->unknown_score, unigram->unk_id);
    work->start += step;
    return HIL_OK;
}

static hil_status add_bytes(const hil_unigram *unigram, const hil_text *text, hil_ids *ids)
{
    for (size_t i = 0; i < text->size; ++i)
        HIL_TRY(hil_ids_add(ids, unigram->byte_ids[(unsigned char)text->data[i]]));
    return HIL_OK;
}

static bool is_spelled(const hil_unigram *unigram, const hil_text *text)
{
    for (size_t i = 0; i < text->size; ++i)
        if (unigram->byte_ids[(unsigned char)text->data[i]] < 0) return false;
    return unigram->byte_fallback;
}

/* Unknown characters in a row are one text: a piece of that text, its bytes, or one unknown token.
 */
static hil_status end_unknown(const hil_unigram *unigram, hil_unigram_work *work, hil_ids *ids)
{
    hil_text *text = &work->unknown;
    bool is_long = work->unknown_long;
    work->unknown_long = false;
    if (text->size == 0) return HIL_OK;
    int32_t id = is_long ? -1 : hil_vocab_find(unigram->vocab, text->data, text->size);
    hil_status status = HIL_OK;
    if (id < 0 && is_spelled(unigram, text))
        status = add_bytes(unigram, text, ids);
    else if (!is_long)
        status = hil_ids_add(ids, id < 0 ? unigram->unk_id : id);
    text->size = 0;
    return status;
}

/* Text that is longer than all pieces needs not be held, unless some bytes have no id. */
static hil_status add_unknown(const hil_unigram *unigram, hil_unigram_work *work, const char *text,
                              size_t size, hil_ids *ids)
{
    hil_text *unknown = &work->unknown;
    HIL_TRY(hil_text_add(unknown, text, size));
    if (unknown->size <= unigram->longest) return HIL_OK;
    if (unigram->byte_fallback && !unigram->all_bytes) return HIL_OK;
    if (unigram->byte_fallback)
        HIL_TRY(add_bytes(unigram, unknown, ids));
    else if (!work->unknown_long)
        HIL_TRY(hil_ids_add(ids, unigram->unk_id));
    work->unknown_long = true;
    unknown->size = 0;
    return HIL_OK;
}

/* Appends the ids of the pieces up to `end` and drops their text. */
static hil_status take_pieces(const hil_unigram *unigram, hil_unigram_work *work, size_t end,
                              hil_ids *ids)
{
    size_t count = 0, at = 0;
    HIL_TRY(HIL_GROW(&work->path, &work->path_capacity, end + 1));
    for (size_t place = end; place > 0; place -= work->nodes[place].size)
        work->path[count++] = work->nodes[place].size;
    while (count-- > 0) {
        uint32_t size = work->path[count];
        int32_t id = work->nodes[at + size].id;
        if (id == unigram->unk_id) {
            HIL_TRY(add_unknown(unigram, work, work->text.data + at, size, ids));
        } else {
            HIL_TRY(end_unknown(unigram, work, ids));
            HIL_TRY(hil_ids_add(ids, id));
        }
        at += size;
    }
    work->text.size -= end;
    work->start -= end;
    memmove(work->text.data, work->text.data + end, work->text.size);
    memmove(work->nodes, work->nodes + end, (work->text.size + 1) * sizeof *work->nodes);
    return HIL_OK;
}

/* The last border that the best ways to all places from work->start on have in common. */
static hil_status find_common(const hil_unigram *unigram, hil_unigram_work *work, size_t *common)
{
    size_t count = 0, last = work->start + unigram->longest;
    if (last > work->text.size) last = work->text.size;
    HIL_TRY(HIL_GROW(&work->path, &work->path_capacity, last - work->start + 1));
    for (size_t place = work->start; place <= last; ++place)
        if (work->nodes[place].size) work->path[count++] = (uint32_t)place;
    while (count > 1) {
        /* The list is sorted: the last place goes back to where its piece began. */
        uint32_t place = work->path[count - 1], before = place - work->nodes[place].size;
        size_t at = count - 1;
        while (at > 0 && work->path[at - 1] > before) --at;
        if (at > 0 && work->path[at - 1] == before) {
            --count;
            continue;
        }
        memmove(work->path + at + 1, work->path + at, (count - 1 - at) * sizeof *work->path);
        work->path[at] = before;
    }
    *common = count ? work->path[0] : 0;
    return HIL_OK;
}

hil_status hil_unigram_add(const hil_unigram *unigram, hil_unigram_work *work, const char *text,
                           size_t size, hil_ids *ids)
{
    size_t before = work->text.size, common;
    if (size == 0) return HIL_OK;
    HIL_TRY(hil_text_add(&work->text, text, size));
    if (work->text.size >= UINT32_MAX)
        return hil_fail(HIL_ERR_INPUT, "tokenizer: a word of %zu bytes is too long",
                        work->text.size);
    HIL_TRY(HIL_GROW(&work->nodes, &work->node_capacity, work->text.size + 1));
    if (before == 0 && work->start == 0 && work->search == 0)
        work->nodes[0] = (hil_unigram_node){.id = -1};
    memset(work->nodes + before + 1, 0, size * sizeof *work->nodes);
    while (work->start + unigram->longest <= work->text.size && work->start < work->text.size)
        HIL_TRY(try_pieces(unigram, work));
    size_t window = work->window ? work->window : WINDOW;
    if (work->search == 0) work->search = window;
    if (work->text.size < work->search) return HIL_OK;
    HIL_TRY(find_common(unigram, work, &common));
    if (common) HIL_TRY(take_pieces(unigram, work, common, ids));
    work->search = work->text.size > window / 2 ? 2 * work->text.size + 1 : window;
    return HIL_OK;
}

hil_status hil_unigram_end(const hil_unigram *unigram, hil_unigram_work *work, hil_ids *ids)
{
    while (work->start < work->text.size) HIL_TRY(try_pieces(unigram, work));
    if (work->text.size) HIL_TRY(take_pieces(unigram, work, work->text.size, ids));
    HIL_TRY(end_unknown(unigram, work, ids));
    hil_unigram_drop(work);
    return HIL_OK;
}
