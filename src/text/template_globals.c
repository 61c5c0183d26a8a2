/* template_globals.c - the functions of every template: range, namespace, dict, ... */
#include "text/template_eval.h"

#include <string.h>
#include <time.h>

enum { MOST_RANGE = 100000 };

static hil_status run_range(hil_render *r, const hil_call *call, hil_variant *out)
{
    int64_t bounds[3] = {0, 0, 1};
    size_t count = call->given.count;
    if (count < 1 || count > 3 || call->given.keyword_count)
        return hil_render_fail(r, "range expected 1 to 3 arguments, got %zu", count);
    for (size_t i = 0; i < count; ++i)
        HIL_TRY(hil_argument_integer(r, call->given.values[i], 0, &bounds[count == 1 ? 1 : i]));
    if (bounds[2] == 0) return hil_render_fail(r, "range() arg 3 must not be zero");
    bool up = bounds[2] > 0;
    uint64_t distance = 0, step = up ? (uint64_t)bounds[2] : 0 - (uint64_t)bounds[2];
    if (up && bounds[1] > bounds[0]) distance = (uint64_t)bounds[1] - (uint64_t)bounds[0];
    if (!up && bounds[0] > bounds[1]) distance = (uint64_t)bounds[0] - (uint64_t)bounds[1];
    uint64_t length = distance ? (distance - 1) / step + 1 : 0;
    if (length > MOST_RANGE)
        return hil_render_fail(r,
                               "Range too big. The sandbox blocks ranges larger than MAX_RANGE "
                               "(%d).",
                               MOST_RANGE);
    hil_int_range *range;
    HIL_TRY(HIL_RENDER_NEW(r, 1, &range));
    *range = (hil_int_range){bounds[0], bounds[1], bounds[2], (size_t)length};
    *out = (hil_variant){.type = HIL_V_RANGE, .range = range};
    return HIL_OK;
}

/* dict(mapping or pairs, name=value ...) */
static hil_status fill_dict(hil_render *r, const hil_call *call, hil_dict *dict)
{
    const hil_arguments *given = &call->given;
    if (given->count > 1)
        return hil_render_fail(r, "dict expected at most 1 argument, got %zu", given->count);
    if (given->count == 1 && given->values[0].type == HIL_V_DICT) {
        const hil_dict *from = given->values[0].dict;
        for (size_t i = 0; i < from->count; ++i)
            HIL_TRY(hil_dict_set(r, dict, from->pairs[i].key, from->pairs[i].value));
    } else if (given->count == 1) {
        hil_items *pairs, *pair;
        HIL_TRY(hil_variant_list(r, given->values[0], &pairs));
        for (size_t i = 0; i < pairs->count; ++i) {
            HIL_TRY(hil_variant_list(r, pairs->data[i], &pair));
            if (pair->count != 2)
                return hil_render_fail(
                    r, "dictionary update sequence element #%zu has length %zu; 2 is required", i,
                    pair->count);
            HIL_TRY(hil_dict_set(r, dict, pair->data[0], pair->data[1]));
        }
    }
    for (size_t i = 0; i < given->keyword_count; ++i)
        HIL_TRY(hil_dict_set(r, dict, HIL_TEXT(given->keywords[i].name), given->keywords[i].value));
    return HIL_OK;
}

static hil_status run_dict(hil_render *r, const hil_call *call, hil_variant *out)
{
    hil_dict *dict;
    HIL_TRY(hil_dict_create(r, 0, &dict));
    HIL_TRY(fill_dict(r, call, dict));
    *out = (hil_variant){.type = HIL_V_DICT, .dict = dict};
    return HIL_OK;
}

static hil_status run_namespace(hil_render *r, const hil_call *call, hil_variant *out)
{
    HIL_TRY(run_dict(r, call, out));
    for (size_t i = 0; i < out->dict->count; ++i) {
        hil_variant key = out->dict->pairs[i].key;
        if (key.type == HIL_V_TEXT && key.text->size && key.text->data[0] == '_')
            return hil_render_fail(r, "a namespace cannot have an attribute that begins with '_'");
    }
    out->type = HIL_V_NAMESPACE;
    return HIL_OK;
}

static hil_status run_cycler(hil_render *r, const hil_call *call, hil_variant *out)
{
    if (!call->given.count) return hil_render_fail(r, "at least one item has to be provided");
    hil_cycler *cycler;
    HIL_TRY(HIL_RENDER_NEW(r, 1, &cycler));
    *cycler = (hil_cycler){call->given.values, call->given.count, 0};
    *out = (hil_variant){.type = HIL_V_CYCLER, .cycler = cycler};
    return HIL_OK;
}

static hil_status run_joiner(hil_render *r, const hil_call *call, hil_variant *out)
{
    hil_cycler *joiner;
    hil_variant *separator;
    HIL_TRY(HIL_RENDER_NEW(r, 1, &joiner));
    HIL_TRY(HIL_RENDER_NEW(r, 1, &separator));
    *separator = call->bound[0];
    if (separator->type == HIL_V_ABSENT) HIL_TRY(hil_chars_literal(r, ", ", separator));
    *joiner = (hil_cycler){separator, 1, 0};
    *out = (hil_variant){.type = HIL_V_JOINER, .cycler = joiner};
    return HIL_OK;
}

static hil_status run_raise(hil_render *r, const hil_call *call, hil_variant *out)
{
    (void)out;
    const hil_chars *message;
    HIL_TRY(hil_variant_text(r, call->bound[0], &message));
    return hil_render_fail(r, "%.*s", (int)(message->size < 800 ? message->size : 800),
                           message->data);
}

static hil_status run_strftime_now(hil_render *r, const hil_call *call, hil_variant *out)
{
    const hil_chars *format;
    char *pattern, words[512];
    HIL_TRY(hil_argument_text(r, call->bound[0], &format));
    if (format->size > 200) return hil_render_fail(r, "strftime_now: a format that is too long");
    HIL_TRY(hil_render_alloc(r, format->size + 1, (void **)&pattern));
    memcpy(pattern, format->data, format->size);
    time_t now = r->limits->now ? (time_t)r->limits->now : time(NULL);
    struct tm parts;
    if (!localtime_r(&now, &parts)) return hil_render_fail(r, "strftime_now: no time");
    size_t size = strftime(words, sizeof words, pattern, &parts);
    return hil_chars_copy(r, words, size, out);
}

static const hil_builtin globals[] = {
    {"range", run_range, {NULL}, 0, true},
    {"dict", run_dict, {NULL}, 0, true},
    {"namespace", run_namespace, {NULL}, 0, true},
    {"cycler", run_cycler, {NULL}, 0, true},
    {"joiner", run_joiner, {"sep"}, 0, false},
    {"raise_exception", run_raise, {"message"}, 1, false},
    {"strftime_now", run_strftime_now, {"format"}, 1, false},
    {NULL, NULL, {NULL}, 0, false},
};

const hil_builtin *hil_global_find(const char *name, size_t size)
{
    return hil_builtin_find(globals, name, size);
}
