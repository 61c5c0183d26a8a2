/* normalize.c - text through the steps of a normalizer. */
#include "text/normalize.h"

#include "text/template_text.h"
#include "text/unicode/unicode.h"

#include <string.h>

void hil_normalizer_free(hil_normalizer *normalizer)
{
    for (size_t i = 0; i < normalizer->count; ++i) {
        hil_text_free(&normalizer->steps[i].pattern);
        hil_text_free(&normalizer->steps[i].content);
        hil_charsmap_free(&normalizer->steps[i].charsmap);
        if (normalizer->steps[i].find) hil_pattern_free(normalizer->steps[i].find);
        hil_free(normalizer->steps[i].find);
    }
    *normalizer = (hil_normalizer){0};
}

void hil_normalizer_state_free(hil_normalizer_state *state)
{
    for (size_t i = 0; i < HIL_NORMAL_MAX; ++i) {
        hil_text_free(&state->holds[i].held);
        hil_finder_free(&state->holds[i].finder);
        hil_text_free(&state->scratch[i]);
    }
    *state = (hil_normalizer_state){0};
}

static void drop_front(hil_text *text, size_t size)
{
    text->size -= size;
    if (size && text->size) memmove(text->data, text->data + size, text->size);
}

/* Appends `text` with replacements; unless `last`, stops where a match may begin. *used: the bytes
   of `text` consumed. */
static hil_status replace(const struct hil_normal_step *step, const hil_text *text, bool last,
                          hil_text *out, size_t *used)
{
    const char *pattern = step->pattern.data;
    size_t length = step->pattern.size, at = 0;
    while (text->size - at >= length) {
        const char *from = text->data + at;
        const char *found = memmem(from, text->size - at, pattern, length);
        size_t plain = found ? (size_t)(found - from) : text->size - at - length + 1;
        while (!found && plain > 0 && ((unsigned char)from[plain] & 0xC0) == 0x80) --plain;
        HIL_TRY(hil_text_add(out, from, plain));
        at += plain;
        if (!found) break;
        HIL_TRY(hil_text_add(out, step->content.data, step->content.size));
        at += length;
    }
    if (last) {
        HIL_TRY(hil_text_add(out, text->data + at, text->size - at));
        at = text->size;
    }
    *used = at;
    return HIL_OK;
}

static hil_status run_held(const struct hil_normal_step *step, hil_text *held, bool last,
                           hil_text *out)
{
    size_t used = held->size;
    if (used == 0) return HIL_OK;
    if (step->kind == HIL_NORMAL_REPLACE) {
        HIL_TRY(replace(step, held, last, out, &used));
    } else if (step->kind == HIL_NORMAL_CHARSMAP) {
        HIL_TRY(hil_charsmap_add(&step->charsmap, held, last, out, &used));
    } else {
        if (!last) used = hil_normal_form_stable(step->form, held->data, held->size);
        HIL_TRY(hil_normal_form_add(step->form, held->data, used, out));
    }
    drop_front(held, used);
    return HIL_OK;
}

static hil_status add_lower(uint32_t point, hil_text *out)
{
    uint32_t points[HIL_CASE_MOST];
    size_t count = hil_case_lower(point, points);
    if (count == 1 && points[0] == point) points[0] = hil_unicode_to_lower(point);
    for (size_t i = 0; i < count; ++i) {
        char bytes[4];
        HIL_TRY(hil_text_add(out, bytes, hil_utf8_put(bytes, points[i])));
    }
    return HIL_OK;
}

/* Lower case, or no accents. */
static hil_status map_points(hil_normal_kind kind, const hil_text *in, hil_text *out)
{
    for (size_t i = 0, step; i < in->size; i += step) {
        uint32_t point = hil_utf8_get(in->data + i, &step);
        if (kind == HIL_NORMAL_LOWERCASE)
            HIL_TRY(add_lower(point, out));
        else if (!hil_unicode_is_accent(point))
            HIL_TRY(hil_text_add(out, in->data + i, step));
    }
    return HIL_OK;
}

static bool is_space(const char *text, size_t *step)
{
    return hil_unicode_flags(hil_utf8_get(text, step)) & HIL_UNICODE_SPACE;
}

/* Whitespace waits for what follows it, if it may be at the end. */
static hil_status strip(const struct hil_normal_step *step, struct hil_normal_hold *hold,
                        const hil_text *in, bool last, hil_text *out)
{
    size_t from = 0, end = in->size, size;
    while (step->left && !hold->started && from < in->size && is_space(in->data + from, &size))
        from += size;
    hold->started = (hold->started || from < in->size) && !last;
    while (step->right && end > from) {
        size_t back = hil_utf8_back(in->data, end);
        if (!is_space(in->data + back, &size)) break;
        end = back;
    }
    if (end > from) {
        if (hold->held.size) HIL_TRY(hil_text_add(out, hold->held.data, hold->held.size));
        HIL_TRY(hil_text_add(out, in->data + from, end - from));
        hold->held.size = 0;
    }
    HIL_TRY(hil_text_add(&hold->held, in->data + end, in->size - end));
    if (last) hold->held.size = 0;
    return HIL_OK;
}

typedef struct target {
    const hil_text *content;
    hil_text *out;
} target;

static hil_status take_found(void *context, hil_found found, const char *text, size_t size,
                             bool ended)
{
    const target *to = context;
    if (found == HIL_FOUND_GAP) return hil_text_add(to->out, text, size);
    return ended ? hil_text_add(to->out, to->content->data, to->content->size) : HIL_OK;
}

/* One step on a fragment, or with `last` at the end of the text. */
static hil_status run_step(const struct hil_normal_step *step, struct hil_normal_hold *hold,
                           const hil_text *in, bool last, hil_text *out)
{
    target to = {&step->content, out};
    const hil_finder_sink sink = {take_found, &to};
    switch (step->kind) {
    case HIL_NORMAL_PREPEND:
        if (in->size && !hold->started)
            HIL_TRY(hil_text_add(out, step->content.data, step->content.size));
        hold->started = (hold->started || in->size) && !last;
        return hil_text_add(out, in->data, in->size);
    case HIL_NORMAL_LOWERCASE:
    case HIL_NORMAL_STRIP_ACCENTS:
        return map_points(step->kind, in, out);
    case HIL_NORMAL_STRIP:
        return strip(step, hold, in, last, out);
    case HIL_NORMAL_FIND:
        return hil_finder_add(&hold->finder, step->find, in->data, in->size, last, &sink);
    case HIL_NORMAL_FORM:
    case HIL_NORMAL_REPLACE:
    case HIL_NORMAL_CHARSMAP:
        break;
    }
    HIL_TRY(hil_text_add(&hold->held, in->data, in->size));
    return run_held(step, &hold->held, last, out);
}

static hil_status run(const hil_normalizer *normalizer, hil_normalizer_state *state, hil_text in,
                      bool last, hil_text *out)
{
    for (size_t i = 0; i < normalizer->count; ++i) {
        hil_text *next = i + 1 < normalizer->count ? &state->scratch[i] : out;
        if (next != out) next->size = 0;
        HIL_TRY(run_step(&normalizer->steps[i], &state->holds[i], &in, last, next));
        if (next != out) in = next->size ? *next : (hil_text){.data = ""};
    }
    return HIL_OK;
}

hil_status hil_normalizer_add(const hil_normalizer *normalizer, hil_normalizer_state *state,
                              const char *text, size_t size, hil_text *out)
{
    if (size == 0) return HIL_OK;
    if (normalizer->count == 0) return hil_text_add(out, text, size);
    return run(normalizer, state, (hil_text){.data = (char *)text, .size = size}, false, out);
}

hil_status hil_normalizer_end(const hil_normalizer *normalizer, hil_normalizer_state *state,
                              hil_text *out)
{
    return run(normalizer, state, (hil_text){.data = ""}, true, out);
}
