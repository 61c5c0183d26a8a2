/* template_attribute.c - object.name, object[key] and object[a:b:c]. */
#include "text/template_eval.h"

#include <stdio.h>
#include <string.h>

hil_status hil_undefined_member(hil_render *r, hil_variant object, hil_variant name,
                                hil_variant *out)
{
    hil_unknown *unknown;
    HIL_TRY(HIL_RENDER_NEW(r, 1, &unknown));
    unknown->owner = hil_variant_type_name(object);
    unknown->name = name;
    *out = (hil_variant){.type = HIL_V_UNDEFINED, .unknown = unknown};
    return HIL_OK;
}

hil_status hil_undefined_hint(hil_render *r, const char *hint, hil_variant *out)
{
    hil_unknown *unknown;
    HIL_TRY(HIL_RENDER_NEW(r, 1, &unknown));
    unknown->hint = hint;
    *out = (hil_variant){.type = HIL_V_UNDEFINED, .unknown = unknown};
    return HIL_OK;
}

/* The result of an access that the sandbox forbids: undefined. */
static hil_status undefined_unsafe(hil_render *r, hil_variant object, const hil_chars *name,
                                   hil_variant *out)
{
    char *words;
    size_t most = name->size + 100;
    HIL_TRY(hil_render_alloc(r, most, (void **)&words));
    snprintf(words, most, "access to attribute '%.*s' of '%s' object is unsafe.", (int)name->size,
             name->data, hil_variant_type_name(object));
    return hil_undefined_hint(r, words, out);
}

/* A method, or an attribute of a loop, namespace or similar object; ABSENT if there is none. */
static hil_status own_attribute(hil_render *r, hil_variant object, const hil_chars *name,
                                hil_variant *out)
{
    *out = (hil_variant){0};
    if (object.type == HIL_V_NAMESPACE) {
        hil_pair *pair;
        HIL_TRY(hil_dict_find(r, object.dict, HIL_TEXT(name), &pair));
        if (pair) *out = pair->value;
        return HIL_OK;
    }
    if (object.type == HIL_V_MACRO && hil_chars_is(name, "name")) {
        *out = HIL_TEXT(object.macro->signature->name);
        return HIL_OK;
    }
    if (object.type == HIL_V_LOOP) {
        HIL_TRY(hil_loop_attribute(r, object.loop, name, out));
        if (out->type != HIL_V_ABSENT) return HIL_OK;
    }
    if (object.type == HIL_V_CYCLER && hil_chars_is(name, "current")) {
        *out = object.cycler->values[object.cycler->at];
        return HIL_OK;
    }
    if (name->size > 4 && memcmp(name->data, "__", 2) == 0 &&
        memcmp(name->data + name->size - 2, "__", 2) == 0)
        return undefined_unsafe(r, object, name, out);
    bool safe;
    const hil_builtin *builtin = hil_method_find(object, name->data, name->size, &safe);
    if (!builtin) return HIL_OK;
    if (!safe) return undefined_unsafe(r, object, name, out);
    hil_method *method;
    HIL_TRY(HIL_RENDER_NEW(r, 1, &method));
    *method = (hil_method){object, builtin};
    *out = (hil_variant){.type = HIL_V_METHOD, .method = method};
    return HIL_OK;
}

static hil_status index_text(hil_render *r, const hil_chars *text, size_t index, hil_variant *out)
{
    size_t begin = hil_chars_offset(text, index), end = begin + 1;
    HIL_TRY(hil_render_step(r, text->length == text->size ? 0 : begin / 64));
    while (end < text->size && ((unsigned char)text->data[end] & 0xC0) == 0x80) ++end;
    hil_chars *character;
    HIL_TRY(HIL_RENDER_NEW(r, 1, &character));
    *character = (hil_chars){text->data + begin, end - begin, 1, text->safe};
    *out = HIL_TEXT(character);
    return HIL_OK;
}

/* object[key]; ABSENT if Python would raise a TypeError or a LookupError. */
static hil_status own_item(hil_render *r, hil_variant object, hil_variant key, hil_variant *out)
{
    *out = (hil_variant){0};
    if (object.type == HIL_V_DICT) {
        hil_pair *pair;
        if (key.type == HIL_V_LIST || key.type == HIL_V_DICT) return HIL_OK;
        HIL_TRY(hil_dict_find(r, object.dict, key, &pair));
        if (pair) *out = pair->value;
        return HIL_OK;
    }
    size_t length;
    if ((key.type != HIL_V_INT && key.type != HIL_V_BOOL) ||
        (object.type != HIL_V_TEXT && object.type != HIL_V_LIST && object.type != HIL_V_TUPLE &&
         object.type != HIL_V_RANGE))
        return HIL_OK;
    HIL_TRY(hil_variant_length(r, object, &length));
    int64_t index = hil_variant_integer(key);
    if (index < 0) index += (int64_t)length;
    if (index < 0 || index >= (int64_t)length) return HIL_OK;
    if (object.type == HIL_V_TEXT) return index_text(r, object.text, (size_t)index, out);
    *out = object.type == HIL_V_RANGE ? HIL_INT(object.range->start + index * object.range->step)
                                      : object.items->data[index];
    return HIL_OK;
}

hil_status hil_variant_attribute(hil_render *r, hil_variant object, const hil_chars *name,
                                 hil_variant *out)
{
    if (object.type == HIL_V_UNDEFINED) return hil_render_undefined(r, object);
    HIL_TRY(own_attribute(r, object, name, out));
    if (out->type != HIL_V_ABSENT) return HIL_OK;
    HIL_TRY(own_item(r, object, HIL_TEXT(name), out));
    if (out->type != HIL_V_ABSENT) return HIL_OK;
    return hil_undefined_member(r, object, HIL_TEXT(name), out);
}

hil_status hil_variant_item(hil_render *r, hil_variant object, hil_variant key, hil_variant *out)
{
    if (object.type == HIL_V_UNDEFINED) return hil_render_undefined(r, object);
    HIL_TRY(own_item(r, object, key, out));
    if (out->type != HIL_V_ABSENT) return HIL_OK;
    if (key.type == HIL_V_TEXT) {
        HIL_TRY(own_attribute(r, object, key.text, out));
        if (out->type != HIL_V_ABSENT) return HIL_OK;
    }
    return hil_undefined_member(r, object, key, out);
}

/* A bound of a slice: an integer, or `absent` if it is omitted. */
static hil_status slice_bound(hil_render *r, hil_variant value, int64_t absent, int64_t *out)
{
    *out = absent;
    if (value.type == HIL_V_ABSENT || value.type == HIL_V_NONE) return HIL_OK;
    if (value.type != HIL_V_INT && value.type != HIL_V_BOOL)
        return hil_render_fail(r, "slice indices must be integers or None");
    *out = hil_variant_integer(value);
    return HIL_OK;
}

typedef struct slice {
    int64_t start, stop, step;
    size_t count;
} slice;

static int64_t clamp(int64_t bound, int64_t length, int64_t least, int64_t most)
{
    if (bound < 0) bound += length;
    return bound < least ? least : bound > most ? most : bound;
}

static hil_status resolve(hil_render *r, const hil_variant bounds[3], size_t size, slice *s)
{
    int64_t length = (int64_t)size;
    HIL_TRY(slice_bound(r, bounds[2], 1, &s->step));
    if (s->step == 0) return hil_render_fail(r, "slice step cannot be zero");
    bool down = s->step < 0;
    int64_t least = down ? -1 : 0, most = down ? length - 1 : length;
    HIL_TRY(slice_bound(r, bounds[0], INT64_MAX, &s->start));
    HIL_TRY(slice_bound(r, bounds[1], INT64_MAX, &s->stop));
    bool no_start = bounds[0].type == HIL_V_ABSENT || bounds[0].type == HIL_V_NONE;
    bool no_stop = bounds[1].type == HIL_V_ABSENT || bounds[1].type == HIL_V_NONE;
    s->start = no_start ? (down ? most : least) : clamp(s->start, length, least, most);
    s->stop = no_stop ? (down ? least : most) : clamp(s->stop, length, least, most);
    int64_t distance = down ? s->start - s->stop : s->stop - s->start;
    uint64_t stride = down ? 0 - (uint64_t)s->step : (uint64_t)s->step;
    s->count = distance <= 0 ? 0 : (size_t)(((uint64_t)distance - 1) / stride + 1);
    return HIL_OK;
}

static hil_status slice_text(hil_render *r, const hil_chars *text, const slice *s, hil_variant *out)
{
    if (s->step == 1) {
        size_t begin = hil_chars_offset(text, (size_t)s->start);
        size_t end = s->count ? hil_chars_offset(text, (size_t)s->start + s->count) : begin;
        HIL_TRY(hil_render_step(r, text->size / 64));
        HIL_TRY(hil_chars_borrow(r, text->data + begin, end - begin, out));
        return hil_chars_mark(r, out->text, text->safe, out);
    }
    size_t mark;
    size_t *offsets; /* of every character */
    HIL_TRY(HIL_RENDER_NEW(r, text->length + 1, &offsets));
    HIL_TRY(hil_render_step(r, text->length));
    for (size_t at = 0, i = 0; at <= text->size; ++at)
        if (at == text->size || ((unsigned char)text->data[at] & 0xC0) != 0x80) offsets[i++] = at;
    hil_capture_begin(r, &mark);
    for (size_t i = 0; i < s->count; ++i) {
        size_t at = (size_t)(s->start + (int64_t)i * s->step);
        HIL_TRY(hil_render_add(r, text->data + offsets[at], offsets[at + 1] - offsets[at]));
    }
    HIL_TRY(hil_capture_end(r, mark, out));
    return hil_chars_mark(r, out->text, text->safe, out);
}

static hil_status slice_range(hil_render *r, const hil_int_range *range, const slice *s,
                              hil_variant *out)
{
    hil_int_range *made;
    HIL_TRY(HIL_RENDER_NEW(r, 1, &made));
    made->count = s->count;
    if (__builtin_mul_overflow(range->step, s->step, &made->step) ||
        __builtin_mul_overflow(range->step, s->start, &made->start) ||
        __builtin_add_overflow(range->start, made->start, &made->start) ||
        __builtin_mul_overflow(range->step, s->stop, &made->stop) ||
        __builtin_add_overflow(range->start, made->stop, &made->stop))
        return hil_render_fail(r, "a range beyond 64 bits, which is not supported");
    *out = (hil_variant){.type = HIL_V_RANGE, .range = made};
    return HIL_OK;
}

hil_status hil_variant_slice(hil_render *r, hil_variant object, const hil_variant bounds[3],
                             hil_variant *out)
{
    slice s = {0};
    size_t length;
    if (object.type == HIL_V_UNDEFINED) return hil_render_undefined(r, object);
    if (object.type != HIL_V_TEXT && object.type != HIL_V_LIST && object.type != HIL_V_TUPLE &&
        object.type != HIL_V_RANGE)
        return object.type == HIL_V_DICT ? hil_render_fail(r, "unhashable type: 'slice'")
                                         : hil_render_fail(r, "'%s' object is not subscriptable",
                                                           hil_variant_type_name(object));
    HIL_TRY(hil_variant_length(r, object, &length));
    HIL_TRY(resolve(r, bounds, length, &s));
    if (object.type == HIL_V_TEXT) return slice_text(r, object.text, &s, out);
    if (object.type == HIL_V_RANGE) return slice_range(r, object.range, &s, out);
    hil_items *items;
    HIL_TRY(hil_items_create(r, s.count, &items));
    HIL_TRY(hil_render_step(r, s.count));
    for (size_t i = 0; i < s.count; ++i)
        items->data[items->count++] = object.items->data[s.start + (int64_t)i * s.step];
    *out = object.type == HIL_V_TUPLE ? hil_items_tuple(items) : hil_items_list(items);
    return HIL_OK;
}
