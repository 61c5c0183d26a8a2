/* Added tokens that strip adjacent whitespace: the ids do not depend on where fragments are cut,
   and long whitespace takes bounded memory and linear time. */
#include "check.h"
#include "text/added.h"
#include "text/tokenizer.h"

#include <ctype.h>
#include <sys/resource.h>
#include <time.h>

#define MIB ((size_t)1 << 20)
#define LONG ((CHECK_SLOW ? 2 : 6) * MIB)

static const struct {
    const char *content;
    bool lstrip, rstrip, single_word;
} known[] = {{"L", true, false, false},
             {"R", false, true, false},
             {"B", true, true, false},
             {"W", true, true, true},
             {"  ", false, false, false}};
enum { KNOWN = sizeof known / sizeof *known, FIRST = 4 };

static const char *truth(bool value)
{
    return value ? "true" : "false";
}

/* A tokenizer with the characters a, b, space and newline as ids 0 to 3, and the first `kinds` of
   the tokens above. Special ones are searched in raw text, others in normalized text. */
static hil_tokenizer *make(bool special, int kinds)
{
    hil_text json = {0};
    hil_tokenizer *tokenizer;
    CHECK_OK(hil_text_print(&json, "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, "
                                   "\"b\": 1, \" \": 2, \"\\n\": 3}, \"merges\": []}, "
                                   "\"added_tokens\": ["));
    for (int i = 0; i < kinds; ++i)
        CHECK_OK(hil_text_print(&json,
                                "%s{\"id\": %d, \"content\": \"%s\", \"special\": %s, "
                                "\"lstrip\": %s, \"rstrip\": %s, \"single_word\": %s}",
                                i ? ", " : "", FIRST + i, known[i].content, truth(special),
                                truth(known[i].lstrip), truth(known[i].rstrip),
                                truth(known[i].single_word)));
    CHECK_OK(hil_text_print(&json, "]}"));
    CHECK_OK(hil_tokenizer_parse(&tokenizer, json.data, json.size, "blanks"));
    hil_text_free(&json);
    return tokenizer;
}

/* Characters that the model lacks are dropped. */
static void add_plain(hil_ids *ids, const char *text, size_t from, size_t to)
{
    static const char model[] = "ab \n";
    for (size_t i = from; i < to; ++i) {
        const char *found = strchr(model, text[i]);
        if (found) CHECK_OK(hil_ids_add(ids, (int32_t)(found - model)));
    }
}

/* The algorithm of Hugging Face tokenizers, on the whole text. */
static void search(const char *text, size_t size, hil_ids *ids)
{
    size_t done = 0;
    for (size_t at = 0; at < size;) {
        int found = -1;
        for (int i = 0; i < KNOWN; ++i)
            if (strncmp(text + at, known[i].content, strlen(known[i].content)) == 0) found = i;
        if (found < 0) {
            ++at;
            continue;
        }
        size_t start = at, stop = at + strlen(known[found].content);
        at = stop;
        bool apart = (start == 0 || !isalpha(text[start - 1])) && !isalpha(text[stop]);
        if (known[found].single_word && !apart) continue;
        if (known[found].lstrip)
            while (start > done && isspace(text[start - 1])) --start;
        if (known[found].rstrip)
            while (isspace(text[stop])) ++stop;
        if (done < start) add_plain(ids, text, done, start);
        CHECK_OK(hil_ids_add(ids, FIRST + found));
        done = stop;
    }
    if (done < size) add_plain(ids, text, done, size);
}

static unsigned state = 1;

static unsigned draw(unsigned below)
{
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % below;
}

static void check_pieces(bool special, int rounds)
{
    hil_tokenizer *tokenizer = make(special, KNOWN);
    hil_encoder *encoder;
    hil_ids expected = {0}, ids = {0};
    CHECK_OK(hil_encoder_create(&encoder, tokenizer));
    for (int i = 0; i < rounds; ++i) {
        char text[65];
        size_t size = draw(sizeof text);
        for (size_t k = 0; k < size; ++k)
            text[k] = draw(3) ? " \n"[draw(4) == 0] : "abLRBW"[draw(6)];
        text[size] = 0;
        expected.size = ids.size = 0;
        search(text, size, &expected);
        for (size_t at = 0, part; at < size; at += part) {
            part = 1 + draw(12);
            if (part > size - at) part = size - at;
            CHECK_OK(hil_encoder_add(encoder, text + at, part, &ids));
        }
        CHECK_OK(hil_encoder_end(encoder, &ids));
        bool same = ids.size == expected.size &&
                    (!ids.size || memcmp(ids.data, expected.data, 4 * ids.size) == 0);
        if (!same) fprintf(stderr, "text %d: \"%s\"\n", i, text);
        CHECK(same);
    }
    hil_encoder_destroy(encoder);
    hil_tokenizer_close(tokenizer);
    hil_ids_free(&expected);
    hil_ids_free(&ids);
}

static const char *blanks(size_t size)
{
    static char text[1 << 16];
    for (size_t i = 0; i < size; ++i) text[i] = " \n"[draw(2)];
    return text;
}

/* Encodes `begin`, `size` blanks, `end`; returns the number of ids. */
static hil_status count(const hil_tokenizer *tokenizer, const char *begin, size_t size,
                        const char *end, size_t *out)
{
    hil_encoder *encoder;
    hil_ids ids = {0};
    hil_status status;
    *out = 0;
    CHECK_OK(hil_encoder_create(&encoder, tokenizer));
    CHECK_OK(hil_encoder_add(encoder, begin, strlen(begin), &ids));
    for (size_t at = 0, part; at < size; at += part) {
        part = 1 + draw(1 << 16);
        if (part > size - at) part = size - at;
        CHECK_OK(hil_encoder_add(encoder, blanks(part), part, &ids));
        *out += ids.size;
        ids.size = 0;
    }
    HIL_TRY_DONE(hil_encoder_add(encoder, end, strlen(end), &ids));
    HIL_TRY_DONE(hil_encoder_end(encoder, &ids));
    *out += ids.size;
done:
    hil_encoder_destroy(encoder);
    hil_ids_free(&ids);
    return status;
}

/* With LONG blanks between the two texts there are so many ids. */
static void check_long(hil_tokenizer *tokenizer, const char *before, const char *after,
                       size_t expected)
{
    size_t ids;
    CHECK_OK(count(tokenizer, before, LONG, after, &ids));
    CHECK_INT(ids, expected);
}

static void check_many(bool special)
{
    hil_tokenizer *tokenizer = make(special, KNOWN - 1);
    size_t ids;
    check_long(tokenizer, "a", "b", LONG + 2);
    check_long(tokenizer, "a", "", LONG + 1);
    check_long(tokenizer, "aR", "L", 3); /* all are R's */
    check_long(tokenizer, "a", "bL", LONG + 3);
    check_long(tokenizer, "a", "R", LONG + 2); /* does not take them */
    CHECK_OK(count(tokenizer, "a", HIL_ADDED_WHITESPACE, "L", &ids));
    CHECK_INT(ids, 2);
    CHECK_FAILS(count(tokenizer, "a", HIL_ADDED_WHITESPACE + (1 << 17), "L", &ids), HIL_ERR_INPUT,
                "more than 1 MiB of whitespace before the added token \"L\"");
    CHECK_FAILS(count(tokenizer, "", LONG, " B", &ids), HIL_ERR_INPUT, "added token \"B\"");
    CHECK_OK(count(tokenizer, "", LONG, "aW", &ids)); /* is part of a word */
    hil_tokenizer_close(tokenizer);
}

static size_t peak(void)
{
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    return (size_t)usage.ru_maxrss << 10;
}

int main(void)
{
    check_pieces(true, 20000);
    check_pieces(false, 20000);
    size_t before = peak();
    clock_t began = clock();
    check_many(true);
    check_many(false);
    double seconds = (double)(clock() - began) / CLOCKS_PER_SEC;
    printf("blanks: %.2f s of processor time, %zu KiB more\n", seconds, (peak() - before) >> 10);
    CHECK(CHECK_SLOW || (seconds < 30 && peak() - before < 16 * MIB));
    return 0;
}
