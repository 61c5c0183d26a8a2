/* finder.c - the search for matches in text that arrives in fragments. */
#include "text/pattern/finder.h"

#include <string.h>

/* Bytes of an unfinished match that are held before its certain part is passed on. */
enum { LONG_MATCH = 1 << 12 };

typedef struct search {
    hil_finder *finder;
    const hil_pattern *regex;
    const char *text; /* the fragment, or what is held with the fragment behind it */
    size_t size;
    bool last;
    const hil_finder_sink *sink;
} search;

void hil_finder_reset(hil_finder *finder)
{
    hil_text held = finder->held;
    held.size = 0;
    *finder = (hil_finder){.held = held};
}

void hil_finder_free(hil_finder *finder)
{
    hil_text_free(&finder->held);
    *finder = (hil_finder){0};
}

/* Continues the candidate at `start`. Returns whether it is decided: finder->matched bytes match,
   or with 0 none do. */
static bool decide(search *s, size_t start)
{
    hil_finder *f = s->finder;
    const hil_pattern *regex = s->regex;
    uint32_t state = f->state ? f->state : HIL_PATTERN_START;
    size_t at = start + f->scanned, matched = f->matched, step;
    while (at < s->size) {
        uint32_t class = hil_pattern_class(regex, s->text + at, &step);
        uint32_t next = hil_pattern_step(regex, state, class);
        if (next & 1) matched = at - start;
        state = next >> 1;
        if (state == HIL_PATTERN_DEAD) break;
        at += step;
    }
    if (state != HIL_PATTERN_DEAD && s->last &&
        hil_pattern_step(regex, state, regex->classes - 1) & 1)
        matched = at - start;
    f->matched = matched;
    f->scanned = at - start;
    f->state = state;
    return state == HIL_PATTERN_DEAD || s->last;
}

static void begin_candidate(hil_finder *f)
{
    f->scanned = f->matched = 0;
    f->state = HIL_PATTERN_DEAD;
    f->open = false;
}

static hil_status pass_gap(search *s, size_t from, size_t to, bool ended)
{
    if (from == to && !(ended && s->finder->gap)) return HIL_OK;
    s->finder->gap = !ended;
    return s->sink->take(s->sink->context, HIL_FOUND_GAP, s->text + from, to - from, ended);
}

/* Passes on everything decided; *rest: where the candidate that is not begins. */
static hil_status run(search *s, size_t *rest)
{
    hil_finder *f = s->finder;
    size_t at = 0, gap = 0;
    while (at < s->size || f->open) {
        if (!decide(s, at)) break;
        size_t matched = f->matched;
        if (matched || f->open) {
            HIL_TRY(pass_gap(s, gap, at, true));
            HIL_TRY(s->sink->take(s->sink->context, HIL_FOUND_MATCH, s->text + at, matched, true));
            at += matched;
            gap = at;
        } else {
            size_t step;
            hil_pattern_class(s->regex, s->text + at, &step);
            at += step;
        }
        begin_candidate(f);
    }
    HIL_TRY(pass_gap(s, gap, at, s->last || f->matched >= LONG_MATCH));
    if (f->matched >= LONG_MATCH) {
        HIL_TRY(s->sink->take(s->sink->context, HIL_FOUND_MATCH, s->text + at, f->matched, false));
        at += f->matched;
        f->scanned -= f->matched;
        f->matched = 0;
        f->open = true;
    }
    *rest = at;
    return HIL_OK;
}

hil_status hil_finder_add(hil_finder *finder, const hil_pattern *regex, const char *text,
                          size_t size, bool last, const hil_finder_sink *sink)
{
    search s = {finder, regex, text, size, last, sink};
    size_t rest;
    bool held = finder->held.size > 0;
    if (held) {
        HIL_TRY(hil_text_add(&finder->held, text, size));
        s.text = finder->held.data;
        s.size = finder->held.size;
    }
    HIL_TRY(run(&s, &rest));
    size_t left = s.size - rest;
    if (!held) return left ? hil_text_add(&finder->held, text + rest, left) : HIL_OK;
    finder->held.size = left;
    if (rest && left) memmove(finder->held.data, finder->held.data + rest, left);
    return HIL_OK;
}
