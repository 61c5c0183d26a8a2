/* pretokenize.c - text through the steps of a pre-tokenizer. */
#include "text/pretokenize.h"

#include "text/bpe.h"

#include <string.h>

typedef struct hil_pretoken_hold hold;

/* One step of a text on its way; the last one gives words to the sink. */
typedef struct chain {
    const hil_pretokenizer *pretokenizer;
    hil_pretokenizer_state *state;
    const hil_pretokenizer_sink *sink;
    size_t at;
} chain;

static hil_status run_step(const chain *before, const char *text, size_t size, bool ended);

void hil_pretokenizer_reset(hil_pretokenizer_state *state)
{
    for (size_t i = 0; i < HIL_PRETOKEN_MAX; ++i) {
        hold *h = &state->holds[i];
        hil_finder_reset(&h->finder);
        h->started = h->inside = h->waits = false;
    }
    state->begun = false;
}

void hil_pretokenizer_state_free(hil_pretokenizer_state *state)
{
    for (size_t i = 0; i < HIL_PRETOKEN_MAX; ++i) {
        hil_finder_free(&state->holds[i].finder);
        hil_text_free(&state->holds[i].replaced);
        hil_text_free(&state->holds[i].mapped);
    }
    *state = (hil_pretokenizer_state){0};
}

/* Passes part of a word to the next step. */
static hil_status pass(const chain *c, const char *text, size_t size, bool ended)
{
    hil_text *mapped = &c->state->holds[c->at].mapped;
    if (c->pretokenizer->steps[c->at].maps && size) {
        mapped->size = 0;
        for (size_t i = 0; i < size; ++i) {
            char bytes[4];
            uint32_t point = hil_bpe_byte_char((unsigned char)text[i]);
            HIL_TRY(hil_text_add(mapped, bytes, hil_utf8_put(bytes, point)));
        }
        text = mapped->data;
        size = mapped->size;
    }
    return run_step(c, text, size, ended);
}

/* Whether two things found one after the other are one word. */
static bool joins(hil_behavior behavior, hil_found before, hil_found now)
{
    if (behavior == HIL_BEHAVIOR_CONTIGUOUS) return before == now;
    if (behavior == HIL_BEHAVIOR_WITH_PREVIOUS) return before < now;
    return behavior == HIL_BEHAVIOR_WITH_NEXT && before > now;
}

static hil_status take_found(void *context, hil_found found, const char *text, size_t size,
                             bool ended)
{
    const chain *c = context;
    const hil_pretoken_step *step = &c->pretokenizer->steps[c->at];
    hold *h = &c->state->holds[c->at];
    hil_behavior behavior = step->behavior;
    if (step->invert) found = found == HIL_FOUND_GAP ? HIL_FOUND_MATCH : HIL_FOUND_GAP;
    if (behavior == HIL_BEHAVIOR_REMOVED && found == HIL_FOUND_MATCH) {
        c->state->begun = true;
        return HIL_OK;
    }
    if (h->waits && !h->inside && !joins(behavior, h->before, found))
        HIL_TRY(pass(c, text, 0, true));
    h->inside = !ended;
    h->before = found;
    h->waits =
        ended && (joins(behavior, found, HIL_FOUND_GAP) || joins(behavior, found, HIL_FOUND_MATCH));
    return pass(c, text, size, ended && !h->waits);
}

/* The fragment after its prefix and with other spaces, in h->replaced. */
static hil_status replace(const chain *c, const char *text, size_t size, hold *h)
{
    const hil_pretoken_step *step = &c->pretokenizer->steps[c->at];
    size_t space = strlen(step->space);
    h->replaced.size = 0;
    if (!h->started) {
        bool wanted = step->prefix == HIL_PREFIX_ALWAYS ||
                      (step->prefix == HIL_PREFIX_FIRST && !c->state->begun);
        bool there = *text == ' ' || (size >= space && memcmp(text, step->space, space) == 0);
        if (wanted && !there) HIL_TRY(hil_text_add(&h->replaced, step->space, space));
    }
    while (step->replaces && size) {
        const char *found = memchr(text, ' ', size);
        size_t plain = found ? (size_t)(found - text) : size;
        HIL_TRY(hil_text_add(&h->replaced, text, plain));
        if (found) HIL_TRY(hil_text_add(&h->replaced, step->space, space));
        text += plain + (found != NULL);
        size -= plain + (found != NULL);
    }
    return hil_text_add(&h->replaced, text, size);
}

static hil_status run_step(const chain *before, const char *text, size_t size, bool ended)
{
    chain c = *before;
    if (++c.at == c.pretokenizer->count) {
        c.state->begun |= size > 0;
        return c.sink->take(c.sink->context, text, size, ended);
    }
    const hil_pretoken_step *step = &c.pretokenizer->steps[c.at];
    hold *h = &c.state->holds[c.at];
    if (size && (step->prefix || step->replaces)) {
        HIL_TRY(replace(&c, text, size, h));
        text = h->replaced.data;
        size = h->replaced.size;
    }
    h->started = (h->started || size) && !ended;
    if (step->regex.states == 0) return pass(&c, text, size, ended);
    const hil_finder_sink sink = {take_found, &c};
    HIL_TRY(hil_finder_add(&h->finder, &step->regex, text, size, ended, &sink));
    if (!ended || !h->waits) return HIL_OK;
    h->waits = false;
    return pass(&c, text, 0, true);
}

hil_status hil_pretokenizer_add(const hil_pretokenizer *pretokenizer, hil_pretokenizer_state *state,
                                const char *text, size_t size, bool last,
                                const hil_pretokenizer_sink *sink)
{
    const chain c = {pretokenizer, state, sink, SIZE_MAX};
    return run_step(&c, text, size, last);
}
