/* template_collection.c - texts, lists and dicts of a rendering, and iteration over them. */
#include "base/hash.h"
#include "text/template_render.h"
#include "text/unicode/unicode.h"

#include <math.h>
#include <string.h>

enum { SMALL_DICT = 8 };

size_t hil_chars_length(const char *data, size_t size)
{
    size_t length = 0;
    for (size_t i = 0; i < size; ++i) length += ((unsigned char)data[i] & 0xC0) != 0x80;
    return length;
}

hil_status hil_chars_borrow(hil_render *r, const char *data, size_t size, hil_variant *out)
{
    hil_chars *text;
    HIL_TRY(hil_render_step(r, size / 64));
    HIL_TRY(HIL_RENDER_NEW(r, 1, &text));
    *text = (hil_chars){data, size, hil_chars_length(data, size), false};
    *out = HIL_TEXT(text);
    return HIL_OK;
}

hil_status hil_chars_copy(hil_render *r, const char *data, size_t size, hil_variant *out)
{
    char *copy;
    HIL_TRY(hil_render_alloc(r, size + 1, (void **)&copy));
    if (size) memcpy(copy, data, size);
    return hil_chars_borrow(r, copy, size, out);
}

hil_status hil_chars_literal(hil_render *r, const char *words, hil_variant *out)
{
    return hil_chars_borrow(r, words, strlen(words), out);
}

hil_status hil_chars_mark(hil_render *r, const hil_chars *text, bool safe, hil_variant *out)
{
    *out = HIL_TEXT(text);
    if (text->safe == safe) return HIL_OK;
    hil_chars *copy;
    HIL_TRY(HIL_RENDER_NEW(r, 1, &copy));
    *copy = *text;
    copy->safe = safe;
    *out = HIL_TEXT(copy);
    return HIL_OK;
}

size_t hil_chars_offset(const hil_chars *text, size_t index)
{
    if (text->length == text->size) return index;
    if (index >= text->length) return text->size;
    size_t at = 0;
    for (; index > 0; --index) {
        do ++at;
        while (((unsigned char)text->data[at] & 0xC0) == 0x80);
    }
    return at;
}

bool hil_chars_is(const hil_chars *text, const char *word)
{
    return text->size == strlen(word) && memcmp(text->data, word, text->size) == 0;
}

hil_status hil_items_create(hil_render *r, size_t capacity, hil_items **out)
{
    HIL_TRY(HIL_RENDER_NEW(r, 1, out));
    if (capacity) HIL_TRY(HIL_RENDER_NEW(r, capacity, &(*out)->data));
    (*out)->capacity = capacity;
    return HIL_OK;
}

hil_status hil_items_add(hil_render *r, hil_items *items, hil_variant value)
{
    if (items->count == items->capacity) {
        size_t capacity = items->capacity ? items->capacity * 2 : 4;
        hil_variant *data;
        HIL_TRY(HIL_RENDER_NEW(r, capacity, &data));
        if (items->count) memcpy(data, items->data, items->count * sizeof *data);
        items->data = data;
        items->capacity = capacity;
    }
    items->data[items->count++] = value;
    return HIL_OK;
}

hil_variant hil_items_list(const hil_items *items)
{
    return (hil_variant){.type = HIL_V_LIST, .items = items};
}

hil_variant hil_items_tuple(const hil_items *items)
{
    return (hil_variant){.type = HIL_V_TUPLE, .items = items};
}

hil_status hil_pair_tuple(hil_render *r, hil_variant a, hil_variant b, hil_variant *out)
{
    hil_items *items;
    HIL_TRY(hil_items_create(r, 2, &items));
    items->data[0] = a;
    items->data[1] = b;
    items->count = 2;
    *out = hil_items_tuple(items);
    return HIL_OK;
}

hil_status hil_iterator_create(hil_render *r, hil_variant source, const char *type,
                               hil_variant *out)
{
    hil_iterator *iterator;
    HIL_TRY(HIL_RENDER_NEW(r, 1, &iterator));
    *iterator = (hil_iterator){{source, 0}, type};
    *out = (hil_variant){.type = HIL_V_ITERATOR, .iterator = iterator};
    return HIL_OK;
}

/* Equal keys have equal hashes: 1, 1.0 and True are one key. */
static hil_status hash_key(hil_render *r, hil_variant key, uint64_t *hash)
{
    switch (key.type) {
    case HIL_V_TEXT:
        *hash = hil_hash(1, key.text->data, key.text->size);
        return hil_render_step(r, key.text->size / 64);
    case HIL_V_BOOL:
    case HIL_V_INT: {
        int64_t integer = hil_variant_integer(key);
        *hash = hil_hash(2, &integer, sizeof integer);
        return HIL_OK;
    }
    case HIL_V_REAL: {
        int64_t integer = key.real >= -0x1p63 && key.real < 0x1p63 ? (int64_t)key.real : (int64_t)0;
        bool whole = (double)integer == key.real;
        *hash =
            whole ? hil_hash(2, &integer, sizeof integer) : hil_hash(3, &key.real, sizeof key.real);
        return HIL_OK;
    }
    case HIL_V_TUPLE:
        HIL_TRY(hil_render_enter(r));
        *hash = 4;
        for (size_t i = 0; i < key.items->count; ++i) {
            uint64_t one;
            HIL_TRY(hil_render_step(r, 1));
            HIL_TRY(hash_key(r, key.items->data[i], &one));
            *hash = hil_hash(*hash, &one, sizeof one);
        }
        hil_render_leave(r);
        return HIL_OK;
    case HIL_V_LIST:
    case HIL_V_DICT:
        return hil_render_fail(r, "unhashable type: '%s'", hil_variant_type_name(key));
    default:
        *hash = hil_hash(5, &key.type, sizeof key.type);
        return HIL_OK;
    }
}

hil_status hil_dict_create(hil_render *r, size_t capacity, hil_dict **out)
{
    HIL_TRY(HIL_RENDER_NEW(r, 1, out));
    if (capacity) HIL_TRY(HIL_RENDER_NEW(r, capacity, &(*out)->pairs));
    (*out)->capacity = capacity;
    return HIL_OK;
}

static hil_status find_hashed(hil_render *r, const hil_dict *dict, hil_variant key, uint64_t hash,
                              hil_pair **out)
{
    *out = NULL;
    bool equal = false;
    if (!dict->slots) {
        for (size_t i = 0; i < dict->count && !equal; ++i) {
            *out = &dict->pairs[i];
            if ((*out)->hash == hash) HIL_TRY(hil_variant_equal(r, (*out)->key, key, &equal));
        }
        if (!equal) *out = NULL;
        return HIL_OK;
    }
    for (size_t i = hash & (dict->slot_count - 1);; i = (i + 1) & (dict->slot_count - 1)) {
        if (!dict->slots[i]) break;
        *out = &dict->pairs[dict->slots[i] - 1];
        if ((*out)->hash == hash) HIL_TRY(hil_variant_equal(r, (*out)->key, key, &equal));
        if (equal) return HIL_OK;
    }
    *out = NULL;
    return HIL_OK;
}

static void place(hil_dict *dict, size_t index)
{
    size_t i = dict->pairs[index].hash & (dict->slot_count - 1);
    while (dict->slots[i]) i = (i + 1) & (dict->slot_count - 1);
    dict->slots[i] = (uint32_t)index + 1;
}

static hil_status make_room(hil_render *r, hil_dict *dict)
{
    if (dict->count == dict->capacity) {
        size_t capacity = dict->capacity ? dict->capacity * 2 : 4;
        hil_pair *pairs;
        HIL_TRY(HIL_RENDER_NEW(r, capacity, &pairs));
        if (dict->count) memcpy(pairs, dict->pairs, dict->count * sizeof *pairs);
        dict->pairs = pairs;
        dict->capacity = capacity;
    }
    if (dict->count < SMALL_DICT || dict->slot_count >= 2 * (dict->count + 1)) return HIL_OK;
    if (dict->count >= UINT32_MAX / 4) return hil_render_fail(r, "a dict with too many keys");
    dict->slot_count = dict->slot_count ? dict->slot_count * 2 : SMALL_DICT * 4;
    HIL_TRY(HIL_RENDER_NEW(r, dict->slot_count, &dict->slots));
    for (size_t i = 0; i < dict->count; ++i) place(dict, i);
    return HIL_OK;
}

hil_status hil_dict_set(hil_render *r, hil_dict *dict, hil_variant key, hil_variant value)
{
    uint64_t hash = 0;
    hil_pair *pair;
    HIL_TRY(hash_key(r, key, &hash));
    HIL_TRY(find_hashed(r, dict, key, hash, &pair));
    if (pair) {
        pair->value = value;
        return HIL_OK;
    }
    HIL_TRY(make_room(r, dict));
    dict->pairs[dict->count] = (hil_pair){key, value, hash};
    if (dict->slots) place(dict, dict->count);
    ++dict->count;
    return HIL_OK;
}

hil_status hil_dict_find(hil_render *r, const hil_dict *dict, hil_variant key, hil_pair **out)
{
    uint64_t hash = 0;
    HIL_TRY(hash_key(r, key, &hash));
    return find_hashed(r, dict, key, hash, out);
}

bool hil_variant_is_iterable(hil_variant value)
{
    return value.type == HIL_V_UNDEFINED ||
           (value.type >= HIL_V_TEXT && value.type <= HIL_V_ITERATOR) || value.type == HIL_V_LOOP;
}

hil_status hil_cursor_open(hil_render *r, hil_variant source, hil_cursor *cursor)
{
    if (source.type == HIL_V_LOOP || !hil_variant_is_iterable(source))
        return hil_render_fail(r, "'%s' object is not iterable", hil_variant_type_name(source));
    *cursor = (hil_cursor){source, 0};
    return HIL_OK;
}

static hil_status next_character(hil_render *r, hil_cursor *cursor, hil_variant *out)
{
    const hil_chars *text = cursor->source.text;
    if (cursor->at >= text->size) return HIL_OK;
    size_t size;
    hil_utf8_get(text->data + cursor->at, &size);
    hil_chars *character;
    HIL_TRY(HIL_RENDER_NEW(r, 1, &character));
    *character = (hil_chars){text->data + cursor->at, size, 1, text->safe};
    cursor->at += size;
    *out = HIL_TEXT(character);
    return HIL_OK;
}

static hil_status next_in_view(hil_render *r, hil_cursor *cursor, hil_variant *out)
{
    const hil_dict_view *view = cursor->source.view;
    if (cursor->at >= view->dict->count) return HIL_OK;
    const hil_pair *pair = &view->dict->pairs[cursor->at++];
    if (view->kind == HIL_VIEW_ITEMS) return hil_pair_tuple(r, pair->key, pair->value, out);
    *out = view->kind == HIL_VIEW_KEYS ? pair->key : pair->value;
    return HIL_OK;
}

hil_status hil_cursor_next(hil_render *r, hil_cursor *cursor, hil_variant *out)
{
    HIL_TRY(hil_render_step(r, 1));
    while (cursor->source.type == HIL_V_ITERATOR) cursor = &cursor->source.iterator->cursor;
    *out = (hil_variant){0};
    hil_variant source = cursor->source;
    switch (source.type) {
    case HIL_V_TEXT:
        return next_character(r, cursor, out);
    case HIL_V_LIST:
    case HIL_V_TUPLE:
        if (cursor->at < source.items->count) *out = source.items->data[cursor->at++];
        return HIL_OK;
    case HIL_V_DICT:
        if (cursor->at < source.dict->count) *out = source.dict->pairs[cursor->at++].key;
        return HIL_OK;
    case HIL_V_RANGE:
        if (cursor->at < source.range->count)
            *out = HIL_INT(source.range->start + (int64_t)cursor->at++ * source.range->step);
        return HIL_OK;
    case HIL_V_VIEW:
        return next_in_view(r, cursor, out);
    default:
        return HIL_OK;
    }
}

hil_status hil_variant_list(hil_render *r, hil_variant value, hil_items **out)
{
    hil_cursor cursor;
    HIL_TRY(hil_cursor_open(r, value, &cursor));
    HIL_TRY(hil_items_create(r, 0, out));
    for (;;) {
        hil_variant item;
        HIL_TRY(hil_cursor_next(r, &cursor, &item));
        if (item.type == HIL_V_ABSENT) return HIL_OK;
        HIL_TRY(hil_items_add(r, *out, item));
    }
}

typedef struct sorting {
    hil_variant *values, *keys;
    hil_variant *spare_values, *spare_keys;
    bool reverse;
} sorting;

/* Merges [begin, middle) and [middle, end); stable. */
static hil_status merge(hil_render *r, sorting *s, size_t begin, size_t middle, size_t end)
{
    size_t a = begin, b = middle;
    for (size_t i = begin; i < end; ++i) {
        bool second = a == middle;
        if (a < middle && b < end) {
            int order;
            if (s->reverse)
                HIL_TRY(hil_variant_compare(r, s->keys[a], s->keys[b], "<", &order));
            else
                HIL_TRY(hil_variant_compare(r, s->keys[b], s->keys[a], "<", &order));
            second = order == -1;
        }
        size_t from = second ? b++ : a++;
        s->spare_values[i] = s->values[from];
        s->spare_keys[i] = s->keys[from];
    }
    memcpy(s->values + begin, s->spare_values + begin, (end - begin) * sizeof *s->values);
    memcpy(s->keys + begin, s->spare_keys + begin, (end - begin) * sizeof *s->keys);
    return HIL_OK;
}

hil_status hil_items_sort(hil_render *r, hil_items *items, const hil_items *keys, bool reverse)
{
    size_t count = items->count;
    if (count < 2) return HIL_OK;
    sorting s = {.values = items->data, .reverse = reverse};
    HIL_TRY(HIL_RENDER_NEW(r, count, &s.keys));
    HIL_TRY(HIL_RENDER_NEW(r, count, &s.spare_values));
    HIL_TRY(HIL_RENDER_NEW(r, count, &s.spare_keys));
    memcpy(s.keys, keys->data, count * sizeof *s.keys);
    for (size_t width = 1; width < count; width *= 2) {
        HIL_TRY(hil_render_step(r, count));
        for (size_t begin = 0; begin + width < count; begin += 2 * width) {
            size_t end = begin + 2 * width < count ? begin + 2 * width : count;
            HIL_TRY(merge(r, &s, begin, begin + width, end));
        }
    }
    return HIL_OK;
}
