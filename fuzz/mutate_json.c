/* mutate_json.c - JSON text with members deleted, doubled, exchanged, nested, renamed or replaced.
 */
#include "mutate.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 4096, DEPTH = 256 };

/* A value of the text; `from` is where its key begins, or the value itself. */
typedef struct node {
    size_t from, begin, end;
} node;

typedef struct scan {
    const char *text;
    size_t at, size, nodes;
    node node[NODES];
} scan;

uint64_t mutate_next(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static size_t pick(uint64_t *state, size_t below)
{
    return below ? (size_t)(mutate_next(state) % below) : 0;
}

/* Puts `size` bytes in the place of those from `begin` to `end`; too much is left out. */
static size_t splice(uint8_t *bytes, size_t old, size_t most, const node *place, const char *with,
                     size_t size)
{
    size_t rest = old - place->end;
    if (place->begin + size + rest > most) return old;
    memmove(bytes + place->begin + size, bytes + place->end, rest);
    memcpy(bytes + place->begin, with, size);
    return place->begin + size + rest;
}

size_t mutate_bytes(uint8_t *bytes, size_t size, size_t most, uint64_t seed)
{
    uint64_t state = seed;
    size_t at = pick(&state, size), count = 1 + pick(&state, 8);
    char noise[8];
    for (size_t i = 0; i < sizeof noise; ++i) noise[i] = (char)mutate_next(&state);
    node place = {at, at, at};
    switch (pick(&state, 4)) {
    case 0: /* a bit */
        if (size) bytes[at] ^= (uint8_t)(1u << pick(&state, 8));
        return size;
    case 1: /* other bytes */
        place.end = at + count < size ? at + count : size;
        return splice(bytes, size, most, &place, noise, place.end - at);
    case 2: /* more bytes */
        return splice(bytes, size, most, &place, noise, count);
    default: /* fewer */
        place.end = at + count < size ? at + count : size;
        return splice(bytes, size, most, &place, "", 0);
    }
}

static void skip_space(scan *s)
{
    while (s->at < s->size && s->text[s->at] && strchr(" \t\r\n", s->text[s->at])) ++s->at;
}

static bool skip_string(scan *s)
{
    if (s->at >= s->size || s->text[s->at] != '"') return false;
    for (++s->at; s->at < s->size && s->text[s->at] != '"'; ++s->at)
        if (s->text[s->at] == '\\') ++s->at;
    return s->at < s->size && ++s->at;
}

/* A value and all in it; false where the text is no JSON. Stops noting nodes when there are many.
 */
static bool scan_value(scan *s, size_t from, int depth)
{
    skip_space(s);
    if (s->at >= s->size || depth > DEPTH) return false;
    size_t begin = s->at, mine = s->nodes < NODES ? s->nodes++ : NODES;
    char open = s->text[s->at];
    if (open == '"') {
        if (!skip_string(s)) return false;
    } else if (open == '{' || open == '[') {
        char close = open == '{' ? '}' : ']';
        ++s->at;
        skip_space(s);
        while (s->at < s->size && s->text[s->at] != close) {
            size_t member = s->at;
            if (open == '{') {
                if (!skip_string(s)) return false;
                skip_space(s);
                if (s->at >= s->size || s->text[s->at++] != ':') return false;
            }
            if (!scan_value(s, member, depth + 1)) return false;
            skip_space(s);
            if (s->at < s->size && s->text[s->at] == ',') ++s->at;
            skip_space(s);
        }
        if (s->at++ >= s->size) return false;
    } else {
        while (s->at < s->size && !strchr(",]} \t\r\n", s->text[s->at])) ++s->at;
        if (s->at == begin) return false;
    }
    if (mine < NODES) s->node[mine] = (node){from == SIZE_MAX ? begin : from, begin, s->at};
    return true;
}

static const char *const numbers[] = {"0",
                                      "-0",
                                      "1",
                                      "-1",
                                      "2",
                                      "3",
                                      "7",
                                      "8",
                                      "63",
                                      "64",
                                      "65",
                                      "127",
                                      "128",
                                      "255",
                                      "256",
                                      "32767",
                                      "65535",
                                      "65536",
                                      "2147483647",
                                      "2147483648",
                                      "-2147483648",
                                      "4294967295",
                                      "4294967296",
                                      "9007199254740993",
                                      "9223372036854775807",
                                      "9223372036854775808",
                                      "-9223372036854775808",
                                      "18446744073709551615",
                                      "18446744073709551616",
                                      "1e0",
                                      "1E400",
                                      "-1e400",
                                      "1e-400",
                                      "0.5",
                                      "1.0",
                                      "1e5",
                                      "0.1e1",
                                      "1.7976931348623157e308",
                                      "5e-324",
                                      "99999999999999999999999999",
                                      "01",
                                      "1.",
                                      ".5",
                                      "+1",
                                      "NaN",
                                      "Infinity",
                                      "0x10",
                                      "1e"};
static const char *const values[] = {"null",
                                     "true",
                                     "false",
                                     "\"\"",
                                     "\"a\"",
                                     "{}",
                                     "[]",
                                     "[[]]",
                                     "[{}]",
                                     "{\"a\":1}",
                                     "[1,2,3]",
                                     "\"\\u0000\"",
                                     "\"\\ud800\"",
                                     "\"\\ud83d\\ude00\"",
                                     "\"\\uFFFF\"",
                                     "\"\xC3\xA9\"",
                                     "\"\xFF\"",
                                     "\"\xF0\x9F\x98\x80\"",
                                     "\"..\"",
                                     "\"../x\"",
                                     "\"/\"",
                                     "\"a/b\"",
                                     "\"\\\"\"",
                                     "\"\\\\\"",
                                     "\"1\"",
                                     "\"BF16\"",
                                     "\"F32\"",
                                     "\"llama\"",
                                     "\"ByteLevel\"",
                                     "\"BPE\"",
                                     "nul",
                                     "\"",
                                     "{",
                                     "]"};

#define ANY(list) list[pick(state, sizeof list / sizeof *list)]

static size_t put(char *to, const char *text)
{
    size_t size = strlen(text);
    memcpy(to, text, size);
    return size;
}

/* The value inside many arrays or objects, or a long string. */
static size_t inflate(uint8_t *bytes, size_t size, size_t most, const node *place, uint64_t *state)
{
    size_t levels = (size_t)1 << pick(state, 12), had = place->end - place->begin;
    const char *open = pick(state, 2) ? "[" : "{\"a\":", *close = *open == '[' ? "]" : "}";
    bool string = bytes[place->begin] == '"' && pick(state, 2);
    if (string) open = pick(state, 2) ? "a" : "\\u00e9", close = "";
    char *text = malloc(levels * (strlen(open) + strlen(close)) + had + 1);
    if (!text) return size;
    size_t at = 0;
    if (string) text[at++] = '"';
    for (size_t i = 0; i < levels; ++i) at += put(text + at, open);
    memcpy(text + at, bytes + place->begin + string, had - string);
    at += had - string;
    for (size_t i = 0; i < levels; ++i) at += put(text + at, close);
    size = splice(bytes, size, most, place, text, at);
    free(text);
    return size;
}

/* A member with the comma that belongs to it. */
static node with_comma(const uint8_t *bytes, size_t size, const node *n)
{
    node whole = {n->from, n->from, n->end};
    size_t at = n->end;
    while (at < size && strchr(" \t\r\n", bytes[at]) && bytes[at]) ++at;
    if (at < size && bytes[at] == ',') {
        whole.end = at + 1;
        return whole;
    }
    for (at = n->from; at > 0 && bytes[at - 1] && strchr(" \t\r\n", bytes[at - 1]);) --at;
    if (at > 0 && bytes[at - 1] == ',') whole.begin = at - 1;
    return whole;
}

/* The text of a node in the place of another, or both exchanged. */
static size_t cross(uint8_t *bytes, size_t size, size_t most, const node pair[2], bool both)
{
    const node *a = &pair[0], *b = &pair[1];
    if (a->begin > b->begin) a = &pair[1], b = &pair[0];
    size_t left = a->end - a->begin, right = b->end - b->begin;
    char *text = malloc(left + right + 1);
    if (!text) return size;
    memcpy(text, bytes + a->begin, left);
    memcpy(text + left, bytes + b->begin, right);
    if (both && a->end <= b->begin) /* the later first, so that the earlier stays where it is */
        size = splice(bytes, size, most, b, text, left);
    size = splice(bytes, size, most, a, text + left, right);
    free(text);
    return size;
}

/* Other characters in a string or a key. */
static size_t respell(uint8_t *bytes, size_t size, size_t most, const node *n, uint64_t *state)
{
    static const char *const parts[] = {"\\u0041",      "\\u0000",  "\\n",    "\\/",
                                        "\xE2\x96\x81", "\xCC\x81", "_",      " ",
                                        "\\ud800",      "\xFF",     "weight", ".0."};
    size_t length = n->end - n->begin;
    if (length < 2) return size;
    size_t at = n->begin + 1 + pick(state, length - 1);
    const char *part = ANY(parts);
    node place = {at, at, at + (pick(state, 2) && at + 1 < n->end ? 1u : 0u)};
    return splice(bytes, size, most, &place, part, strlen(part));
}

static size_t change(uint8_t *bytes, size_t size, size_t most, const scan *s, uint64_t *state)
{
    const node *n = &s->node[pick(state, s->nodes)], *other = &s->node[pick(state, s->nodes)];
    node whole = with_comma(bytes, size, n), key = {n->from, n->from, n->begin};
    bool numeric = strchr("-0123456789", bytes[n->begin]) != NULL;
    const char *value = numeric && pick(state, 8) ? ANY(numbers) : ANY(values);
    switch (pick(state, 9)) {
    case 0:
        return splice(bytes, size, most, &whole, "", 0);
    case 1: { /* twice */
        node after = {whole.end, whole.end, whole.end};
        return cross(bytes, size, most, (node[2]){after, whole}, false);
    }
    case 2:
        return cross(bytes, size, most, (node[2]){*n, *other}, true);
    case 3:
        return cross(bytes, size, most, (node[2]){*n, *other}, false);
    case 4:
        return inflate(bytes, size, most, n, state);
    case 5:
        return respell(bytes, size, most, n, state);
    case 6:
        if (n->from < n->begin) return respell(bytes, size, most, &key, state);
        return splice(bytes, size, most, n, value, strlen(value));
    default:
        return splice(bytes, size, most, n, value, strlen(value));
    }
}

size_t mutate_json(uint8_t *bytes, size_t size, size_t most, uint64_t seed)
{
    static scan s;
    uint64_t state = seed;
    size_t changes = 1 + pick(&state, 3);
    for (size_t i = 0; i < changes; ++i) {
        s.text = (const char *)bytes;
        s.at = s.nodes = 0;
        s.size = size;
        if (!scan_value(&s, SIZE_MAX, 0)) return mutate_bytes(bytes, size, most, state);
        size = change(bytes, size, most, &s, &state);
    }
    return size;
}

/* One line of it, or the lines themselves. */
size_t mutate_jsonl(uint8_t *bytes, size_t size, size_t most, uint64_t seed)
{
    uint64_t state = seed;
    size_t at = pick(&state, size), begin = at, end = at;
    while (begin > 0 && bytes[begin - 1] != '\n') --begin;
    while (end < size && bytes[end] != '\n') ++end;
    node line = {begin, begin, end < size ? end + 1 : end};
    switch (pick(&state, 6)) {
    case 0:
        return splice(bytes, size, most, &line, "", 0);
    case 1:
        return cross(bytes, size, most, (node[2]){{line.end, line.end, line.end}, line}, false);
    case 2:
        return mutate_bytes(bytes, size, most, state);
    default:
        break;
    }
    uint8_t *text = malloc(most + 1);
    if (!text) return size;
    memcpy(text, bytes + begin, end - begin);
    line.end = end;
    size_t changed = mutate_json(text, end - begin, most, state);
    size = splice(bytes, size, most, &line, (const char *)text, changed);
    free(text);
    return size;
}
