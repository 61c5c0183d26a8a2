/* added.c - added tokens: loading, and leftmost-longest search in text that arrives in fragments.
 */
#include "text/added.h"

#include "base/json.h"
#include "text/unicode/unicode.h"

#include <stdlib.h>
#include <string.h>

static int by_content(const void *left, const void *right)
{
    const hil_text *a = &((const hil_added_token *)left)->content;
    const hil_text *b = &((const hil_added_token *)right)->content;
    int order = memcmp(a->data, b->data, a->size < b->size ? a->size : b->size);
    return order ? order : (a->size > b->size) - (a->size < b->size);
}

static int by_id(const void *left, const void *right, void *context)
{
    const hil_added *added = context;
    int32_t a = added->tokens[*(const uint32_t *)left].id;
    int32_t b = added->tokens[*(const uint32_t *)right].id;
    return (a > b) - (a < b);
}

static hil_status index_ids(hil_added *added)
{
    HIL_TRY(HIL_ALLOC(added->count, &added->by_id));
    for (uint32_t i = 0; i < added->count; ++i) added->by_id[i] = i;
    if (added->count) qsort_r(added->by_id, added->count, sizeof *added->by_id, by_id, added);
    return HIL_OK;
}

static hil_status index_tokens(hil_added *added, const char *what)
{
    if (added->count) qsort(added->tokens, added->count, sizeof *added->tokens, by_content);
    for (size_t i = 0; i < added->count; ++i) {
        const hil_added_token *token = &added->tokens[i];
        if (i && by_content(token - 1, token) == 0)
            return hil_fail(HIL_ERR_INPUT, "%s: the added token \"%.60s\" is there twice", what,
                            token->content.data);
        if (token->content.size > added->longest) added->longest = token->content.size;
        added->any_lstrip |= token->lstrip;
        ++added->first[(unsigned char)token->content.data[0] + 1];
    }
    for (size_t b = 0; b < 256; ++b) added->first[b + 1] += added->first[b];
    return index_ids(added);
}

/* The id that Hugging Face tokenizers gives, which ignores the file's "id": that of the model's
   piece, or the next free one. */
static hil_status take_id(hil_vocab *vocab, const char *text, int64_t *top, const char *what,
                          int32_t *id)
{
    size_t size = strlen(text);
    *id = hil_vocab_id(vocab, text, size);
    if (*id < 0) {
        int64_t fresh = *top >= (int64_t)vocab->entries ? *top + 1 : (int64_t)vocab->entries;
        if (fresh >= HIL_VOCAB_MAX || hil_vocab_has(vocab, fresh))
            return hil_fail(HIL_ERR_INPUT,
                            "%s: the added token \"%.60s\" gets id %lld, which is %s", what, text,
                            (long long)fresh, fresh >= HIL_VOCAB_MAX ? "too large" : "taken");
        *id = (int32_t)fresh;
        HIL_TRY(hil_vocab_name(vocab, text, size, *id));
    }
    if (*id > *top) *top = *id;
    return HIL_OK;
}

static hil_status normal_text(const hil_normalizer *normalizer, const char *text, hil_text *out)
{
    hil_normalizer_state state = {0};
    hil_status status = hil_normalizer_add(normalizer, &state, text, strlen(text), out);
    if (status == HIL_OK) status = hil_normalizer_end(normalizer, &state, out);
    hil_normalizer_state_free(&state);
    return status;
}

static hil_status load_token(hil_added *added, const hil_normalizer *normalizer,
                             const json_t *value, int32_t id, const char *what)
{
    const char *content = json_string_value(json_object_get(value, "content"));
    HIL_TRY(HIL_GROW(&added->tokens, &added->capacity, added->count + 1));
    hil_added_token *token = &added->tokens[added->count++];
    *token = (hil_added_token){.id = id};
    HIL_TRY(hil_json_bool(value, "single_word", what, &token->single_word));
    HIL_TRY(hil_json_bool(value, "lstrip", what, &token->lstrip));
    HIL_TRY(hil_json_bool(value, "rstrip", what, &token->rstrip));
    HIL_TRY(normal_text(normalizer, content, &token->content));
    if (token->content.size == 0)
        return hil_fail(HIL_ERR_INPUT, "%s: the added token \"%.60s\" is normalized to nothing",
                        what, content);
    return HIL_OK;
}

hil_status hil_added_load(hil_added *raw, hil_added *normal, hil_vocab *vocab,
                          const hil_normalizer *normalizer, const json_t *list, const char *what)
{
    static const hil_normalizer none;
    int64_t top = -1;
    for (size_t i = 0; i < json_array_size(list); ++i) {
        const json_t *value = json_array_get(list, i);
        const char *content = NULL;
        bool is_special = false;
        HIL_TRY(hil_json_string(value, "content", what, &content));
        if (!content)
            return hil_fail(HIL_ERR_INPUT, "%s: added token %zu has no \"content\"", what, i);
        if (!*content) continue;
        HIL_TRY(hil_json_bool(value, "special", what, &is_special));
        bool is_normal = !is_special;
        HIL_TRY(hil_json_bool(value, "normalized", what, &is_normal));
        int32_t id;
        HIL_TRY(take_id(vocab, content, &top, what, &id));
        if (vocab->pieces[id].added)
            return hil_fail(HIL_ERR_INPUT, "%s: the added token \"%.60s\" is there twice", what,
                            content);
        vocab->pieces[id].special = is_special;
        vocab->pieces[id].added = true;
        hil_added *added = is_normal ? normal : raw;
        HIL_TRY(load_token(added, is_normal ? normalizer : &none, value, id, what));
        if (strcmp(added->tokens[added->count - 1].content.data, content) != 0) {
            /* Hugging Face tokenizers decodes it to its normalized text, and not as special. */
            vocab->pieces[id].renamed = true;
            vocab->pieces[id].special = false;
        }
    }
    HIL_TRY(index_tokens(raw, what));
    return index_tokens(normal, what);
}

void hil_added_free(hil_added *added)
{
    for (size_t i = 0; i < added->count; ++i) hil_text_free(&added->tokens[i].content);
    hil_free(added->tokens);
    hil_free(added->by_id);
    *added = (hil_added){0};
}

const hil_text *hil_added_content(const hil_added *added, int32_t id)
{
    size_t low = 0, high = added->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (added->tokens[added->by_id[middle]].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == added->count) return NULL;
    const hil_added_token *token = &added->tokens[added->by_id[low]];
    return token->id == id ? &token->content : NULL;
}

/* Tokens [low, high) share their first `depth` bytes: the first whose next byte is >= `byte`. */
static size_t first_from(const hil_added *added, size_t low, size_t high, size_t depth,
                         unsigned byte)
{
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((unsigned char)added->tokens[middle].content.data[depth] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The longest token that `text` begins with, or NULL. */
static const hil_added_token *longest_at(const hil_added *added, const char *text, size_t size)
{
    unsigned char lead = (unsigned char)text[0];
    size_t low = added->first[lead], high = added->first[lead + 1];
    const hil_added_token *best = NULL;
    for (size_t depth = 1; low < high; ++depth) {
        if (added->tokens[low].content.size == depth) best = &added->tokens[low++];
        if (depth == size) break;
        unsigned char next = (unsigned char)text[depth];
        low = first_from(added, low, high, depth, next);
        high = first_from(added, low, high, depth, next + 1u);
    }
    return best;
}

static unsigned flags_at(const char *text, size_t at)
{
    size_t step;
    return hil_unicode_flags(hil_utf8_get(text + at, &step));
}

static bool stands_alone(const hil_added_scan *scan, size_t start, size_t stop)
{
    const hil_text *text = &scan->text;
    bool before = scan->word_before;
    if (start > 0)
        before = flags_at(text->data, hil_utf8_back(text->data, start)) & HIL_UNICODE_WORD;
    bool after = stop < text->size && flags_at(text->data, stop) & HIL_UNICODE_WORD;
    return !before && !after;
}

static size_t spaces_before(const hil_text *text, size_t at, size_t least)
{
    while (at > least) {
        size_t back = hil_utf8_back(text->data, at);
        if (!(flags_at(text->data, back) & HIL_UNICODE_SPACE)) break;
        at = back;
    }
    return at;
}

static size_t spaces_after(const hil_text *text, size_t at)
{
    size_t step;
    while (at < text->size &&
           hil_unicode_flags(hil_utf8_get(text->data + at, &step)) & HIL_UNICODE_SPACE)
        at += step;
    return at;
}

/* The start of the character that contains byte `at`. */
static size_t character_at(const hil_text *text, size_t at)
{
    while (at > 0 && at < text->size && ((unsigned char)text->data[at] & 0xC0) == 0x80) --at;
    return at;
}

hil_status hil_added_add(hil_added_scan *scan, const char *text, size_t size)
{
    size_t done = scan->segment < scan->search ? scan->segment : scan->search;
    done = character_at(&scan->text, done);
    if (done > 0) {
        size_t back = hil_utf8_back(scan->text.data, done);
        scan->word_before = flags_at(scan->text.data, back) & HIL_UNICODE_WORD;
        scan->text.size -= done;
        memmove(scan->text.data, scan->text.data + done, scan->text.size);
        scan->dropped += done;
        scan->segment -= done;
        scan->search -= done;
        scan->blank -= scan->blank < done ? scan->blank : done;
    }
    return hil_text_add(&scan->text, text, size);
}

void hil_added_reset(hil_added_scan *scan)
{
    scan->text.size = scan->dropped = scan->segment = scan->search = scan->blank = 0;
    scan->word_before = scan->strips = scan->passed = false;
}

/* Returns the text up to `end`; size 0 if there is none. */
static hil_added_hit take_text(hil_added_scan *scan, size_t end)
{
    hil_added_hit hit = {-1, scan->text.data, 0};
    if (end <= scan->segment) return hit;
    hit.text = scan->text.data + scan->segment;
    hit.size = end - scan->segment;
    scan->segment = end;
    scan->passed = false;
    return hit;
}

static hil_added_hit take_token(hil_added_scan *scan, const hil_added_token *token, size_t at)
{
    size_t stop = at + token->content.size;
    scan->segment = token->rstrip ? spaces_after(&scan->text, stop) : stop;
    scan->strips = token->rstrip && scan->segment == scan->text.size;
    scan->search = stop;
    scan->blank = 0;
    scan->passed = false;
    return (hil_added_hit){token->id, scan->text.data + at, token->content.size};
}

/* Returns the text up to `end` without the whitespace at its end, which a later token may strip: up
   to HIL_ADDED_WHITESPACE bytes of it are held back. Tests each character once. */
static hil_added_hit take_but_whitespace(hil_added_scan *scan, size_t end)
{
    size_t known = scan->blank > scan->segment ? scan->blank : scan->segment;
    size_t start = spaces_before(&scan->text, end, known);
    if (start == known) start = scan->segment;
    bool passes = scan->passed ? start == scan->segment : start + HIL_ADDED_WHITESPACE < end;
    hil_added_hit hit = take_text(scan, passes ? end : start);
    scan->passed |= passes;
    scan->blank = end;
    return hit;
}

static hil_status fail_blanks(const hil_added_token *token)
{
    return hil_fail(
        HIL_ERR_INPUT,
        "more than %zu MiB of whitespace before the added token \"%.60s\", which strips "
        "the whitespace before it: remove some of it",
        HIL_ADDED_WHITESPACE >> 20, token->content.data);
}

hil_status hil_added_next(const hil_added *added, hil_added_scan *scan, bool last,
                          hil_added_hit *hit)
{
    const hil_text *text = &scan->text;
    if (scan->strips) scan->segment = spaces_after(text, scan->segment);
    scan->strips &= scan->segment == text->size;
    /* A match is certain once the longest token and one more character would fit. */
    size_t margin = last ? 0 : added->longest + 4;
    size_t limit = text->size > margin ? text->size - margin : 0;
    for (; scan->search < limit; ++scan->search) {
        size_t at = scan->search, start = at;
        const hil_added_token *token = longest_at(added, text->data + at, text->size - at);
        if (!token) continue;
        if (token->single_word && !stands_alone(scan, at, at + token->content.size)) {
            scan->search = at + token->content.size - 1;
            continue;
        }
        if (token->lstrip) start = spaces_before(text, at, scan->segment);
        if (token->lstrip && start == scan->segment && scan->passed) return fail_blanks(token);
        *hit = take_text(scan, start);
        if (!hit->size) *hit = take_token(scan, token, at);
        return HIL_OK;
    }
    size_t end = character_at(text, limit);
    *hit = last || !added->any_lstrip ? take_text(scan, end) : take_but_whitespace(scan, end);
    return HIL_OK;
}
