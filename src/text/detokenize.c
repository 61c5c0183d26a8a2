/* detokenize.c - ByteLevel, ByteFallback, Fuse, Strip, Replace, Metaspace and sequences of them. */
#include "text/detokenize.h"

#include "text/bpe.h"
#include "text/unicode/unicode.h"

#include <string.h>

typedef struct hil_detoken_step step;
typedef struct hil_detoken_hold hold;

/* The steps of one text; the last appends to `out`. */
typedef struct chain {
    const hil_detokenizer *detokenizer;
    hil_detokenizer_state *state;
    hil_text *out;
} chain;

static hil_status push(chain *c, size_t at, const char *piece, size_t size);

static hil_status add_point(hil_text *out, uint32_t point)
{
    char bytes[4];
    return hil_text_add(out, bytes, hil_utf8_put(bytes, point));
}

static hil_status replace(const step *s, hold *h, const char *piece, size_t size)
{
    h->scratch.size = 0;
    while (size) {
        const char *found = memmem(piece, size, s->pattern.data, s->pattern.size);
        size_t plain = found ? (size_t)(found - piece) : size;
        HIL_TRY(hil_text_add(&h->scratch, piece, plain));
        if (!found) break;
        HIL_TRY(hil_text_add(&h->scratch, s->content.data, s->content.size));
        piece += plain + s->pattern.size;
        size -= plain + s->pattern.size;
    }
    return HIL_OK;
}

static hil_status metaspace(const step *s, hold *h, const char *piece, size_t size)
{
    bool drop = s->drop_first && !h->started;
    h->started = true;
    h->scratch.size = 0;
    for (size_t i = 0, length; i < size; i += length) {
        hil_utf8_get(piece + i, &length);
        bool space = length == s->pattern.size && memcmp(piece + i, s->pattern.data, length) == 0;
        if (!space) HIL_TRY(hil_text_add(&h->scratch, piece + i, length));
        if (space && !drop) HIL_TRY(hil_text_add(&h->scratch, " ", 1));
    }
    return HIL_OK;
}

static bool begins_with(const step *s, const char *piece, size_t size)
{
    return size >= s->pattern.size && memcmp(piece, s->pattern.data, s->pattern.size) == 0;
}

/* Strips both ends of a whole piece. */
static void strip(const step *s, const char **piece, size_t *size)
{
    size_t length = s->pattern.size;
    for (int64_t i = 0; i < s->start && begins_with(s, *piece, *size); ++i) {
        *piece += length;
        *size -= length;
    }
    for (int64_t i = 0; i < s->stop && *size >= length; ++i) {
        if (!begins_with(s, *piece + *size - length, length)) break;
        *size -= length;
    }
}

/* Strips the beginning of a text that arrives in fragments of whole characters. */
static void strip_stream(const step *s, hold *h, const char **piece, size_t *size)
{
    while (!h->stripped && *size) {
        if (h->taken == s->start || !begins_with(s, *piece, *size)) {
            h->stripped = true;
            break;
        }
        ++h->taken;
        *piece += s->pattern.size;
        *size -= s->pattern.size;
    }
}

/* Appends the bytes of a byte-level piece; a piece with characters that represent no byte is
   appended as text. */
static hil_status add_bytes(hil_text *held, const char *piece, size_t size)
{
    size_t before = held->size;
    for (size_t i = 0, length; i < size; i += length) {
        int byte = hil_bpe_char_byte(hil_utf8_get(piece + i, &length));
        if (byte < 0) {
            held->size = before;
            return hil_text_add(held, piece, size);
        }
        char value = (char)byte;
        HIL_TRY(hil_text_add(held, &value, 1));
    }
    return HIL_OK;
}

/* Passes whole characters of the held bytes to the next step, with U+FFFD for invalid UTF-8. */
static hil_status flush_bytes(chain *c, size_t at, bool last)
{
    hil_text *held = &c->state->holds[at].held, *ready = &c->state->holds[at].scratch;
    bool streams = c->detokenizer->steps[at].streams;
    if ((!last && !streams) || held->size == 0) return HIL_OK;
    size_t used = 0;
    ready->size = 0;
    while (used < held->size) {
        size_t bad, valid = hil_utf8_check(held->data + used, held->size - used, &bad);
        HIL_TRY(hil_text_add(ready, held->data + used, valid));
        used += valid;
        if (bad == 0 && last) bad = held->size - used;
        if (bad == 0) break;
        HIL_TRY(add_point(ready, 0xFFFD));
        used += bad;
    }
    held->size -= used;
    memmove(held->data, held->data + used, held->size);
    return ready->size ? push(c, at + 1, ready->data, ready->size) : HIL_OK;
}

static int hex(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The value of "<0x..>", or -1. */
static int byte_piece(const char *piece, size_t size)
{
    if (size != 6 || memcmp(piece, "<0x", 3) != 0 || piece[5] != '>') return -1;
    int high = hex(piece[3]), low = hex(piece[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* A run of byte pieces is one piece of text if all of it is valid UTF-8, else U+FFFD for each. */
static hil_status flush_run(chain *c, size_t at)
{
    hil_text *held = &c->state->holds[at].held;
    size_t size = held->size, bad;
    if (size == 0) return HIL_OK;
    held->size = 0;
    if (hil_utf8_check(held->data, size, &bad) == size) return push(c, at + 1, held->data, size);
    for (size_t i = 0; i < size; ++i) HIL_TRY(push(c, at + 1, "\xEF\xBF\xBD", 3));
    return HIL_OK;
}

static hil_status push_fallback(chain *c, size_t at, const char *piece, size_t size)
{
    int byte = byte_piece(piece, size);
    if (byte >= 0) {
        char value = (char)byte;
        return hil_text_add(&c->state->holds[at].held, &value, 1);
    }
    HIL_TRY(flush_run(c, at));
    return push(c, at + 1, piece, size);
}

static hil_status push(chain *c, size_t at, const char *piece, size_t size)
{
    if (at == c->detokenizer->count) return hil_text_add(c->out, piece, size);
    const step *s = &c->detokenizer->steps[at];
    hold *h = &c->state->holds[at];
    switch (s->kind) {
    case HIL_DETOKEN_JOIN:
        if (h->started) HIL_TRY(push(c, at + 1, " ", 1));
        h->started = true;
        return push(c, at + 1, piece, size);
    case HIL_DETOKEN_BYTE_LEVEL:
        HIL_TRY(add_bytes(&h->held, piece, size));
        return flush_bytes(c, at, false);
    case HIL_DETOKEN_BYTE_FALLBACK:
        return push_fallback(c, at, piece, size);
    case HIL_DETOKEN_FUSE:
        return s->streams ? push(c, at + 1, piece, size) : hil_text_add(&h->held, piece, size);
    case HIL_DETOKEN_STRIP:
        if (s->streams)
            strip_stream(s, h, &piece, &size);
        else
            strip(s, &piece, &size);
        return push(c, at + 1, piece, size);
    case HIL_DETOKEN_REPLACE:
        HIL_TRY(replace(s, h, piece, size));
        return push(c, at + 1, h->scratch.data, h->scratch.size);
    case HIL_DETOKEN_METASPACE:
        HIL_TRY(metaspace(s, h, piece, size));
        return push(c, at + 1, h->scratch.data, h->scratch.size);
    }
    return HIL_OK;
}

hil_status hil_detokenizer_add(const hil_detokenizer *detokenizer, hil_detokenizer_state *state,
                               const char *piece, size_t size, hil_text *out)
{
    chain c = {detokenizer, state, out};
    return push(&c, 0, piece, size);
}

static hil_status end_step(chain *c, size_t at)
{
    const step *s = &c->detokenizer->steps[at];
    hil_text *held = &c->state->holds[at].held;
    if (s->kind == HIL_DETOKEN_BYTE_LEVEL) return flush_bytes(c, at, true);
    if (s->kind == HIL_DETOKEN_BYTE_FALLBACK) return flush_run(c, at);
    if (s->kind == HIL_DETOKEN_FUSE && held->size) return push(c, at + 1, held->data, held->size);
    return HIL_OK;
}

hil_status hil_detokenizer_end(const hil_detokenizer *detokenizer, hil_detokenizer_state *state,
                               hil_text *out)
{
    chain c = {detokenizer, state, out};
    hil_status status = HIL_OK;
    for (size_t i = 0; i < detokenizer->count && status == HIL_OK; ++i) status = end_step(&c, i);
    for (size_t i = 0; i < HIL_DETOKEN_MAX; ++i) {
        hold *h = &state->holds[i];
        h->held.size = 0;
        h->taken = 0;
        h->started = h->stripped = false;
    }
    return status;
}

void hil_detokenizer_state_free(hil_detokenizer_state *state)
{
    for (size_t i = 0; i < HIL_DETOKEN_MAX; ++i) {
        hil_text_free(&state->holds[i].held);
        hil_text_free(&state->holds[i].scratch);
    }
    *state = (hil_detokenizer_state){0};
}

void hil_detokenizer_free(hil_detokenizer *detokenizer)
{
    for (size_t i = 0; i < detokenizer->count; ++i) {
        hil_text_free(&detokenizer->steps[i].pattern);
        hil_text_free(&detokenizer->steps[i].content);
    }
    *detokenizer = (hil_detokenizer){0};
}
