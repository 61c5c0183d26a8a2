/* Long words through the whole encoder: every family gives the ids of the word held whole, wherever
   runs of letters, numbers, marks, spaces and lines end and fragments are cut. */
#include "check.h"
#include "families.h"
#include "text/tokenizer_parts.h"
#include "io/file.h"

static unsigned state = 1;

static unsigned draw(unsigned below)
{
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % below;
}

static void add(hil_text *text, const char *part)
{
    CHECK_OK(hil_text_add(text, part, strlen(part)));
}

/* Runs of one kind of characters, most of them short, separated by other characters. */
static void draw_text(hil_text *text, unsigned longest)
{
    static const char *const kinds[][6] = {
        {"a", "b", "the", "in", "\xC3\xA4", "\xE4\xBD\xA0"},
        {"1", "2", "70", "3", "\xD9\xA3", "\xE2\x85\xA7"},
        {".", ",", "''", "!", "\xE2\x80\x93", "\xF0\x9F\x98\x80"},
        {" ", " ", "  ", " ", "\t", "\xC2\xA0"},
        {"\n", "\n", "\r\n", " ", "\n\n", "  "},
        {"a", " ", "\n", "'s", "1", "."},
    };
    unsigned runs = 1 + draw(20);
    text->size = 0;
    for (unsigned i = 0; i < runs; ++i) {
        const char *const *kind = kinds[draw(6)];
        unsigned size = draw(4) ? draw(6) : draw(longest);
        bool same = draw(2);
        const char *first = kind[draw(6)];
        for (unsigned k = 0; k < size; ++k) add(text, same ? first : kind[draw(6)]);
    }
}

static void encode(const hil_tokenizer *tokenizer, const hil_text *text, unsigned most,
                   hil_ids *ids)
{
    hil_encoder *encoder;
    CHECK_OK(hil_encoder_create(&encoder, tokenizer));
    ids->size = 0;
    for (size_t at = 0, part; at < text->size; at += part) {
        part = 1 + draw(most);
        if (part > text->size - at) part = text->size - at;
        CHECK_OK(hil_encoder_add(encoder, text->data + at, part, ids));
    }
    CHECK_OK(hil_encoder_end(encoder, ids));
    hil_encoder_destroy(encoder);
}

static void check_texts(hil_tokenizer *tokenizer, const char *family, int rounds, unsigned longest)
{
    size_t usual = tokenizer->bpe.long_word, low = tokenizer->bpe.ignore_merges ? usual : 16;
    hil_text text = {0};
    hil_ids whole = {0}, parts = {0};
    for (int i = 0; i < rounds; ++i) {
        draw_text(&text, longest);
        tokenizer->bpe.long_word = SIZE_MAX;
        encode(tokenizer, &text, 1 << 20, &whole);
        tokenizer->bpe.long_word = longest < 1000 ? low : usual;
        encode(tokenizer, &text, longest < 1000 ? 40 : 100000, &parts);
        bool same = whole.size == parts.size &&
                    (!whole.size || memcmp(whole.data, parts.data, 4 * whole.size) == 0);
        if (!same) fprintf(stderr, "%s, text %d\n", family, i);
        CHECK(same);
    }
    tokenizer->bpe.long_word = usual;
    hil_text_free(&text);
    hil_ids_free(&whole);
    hil_ids_free(&parts);
}

int main(void)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; ++i) {
        char path[HIL_PATH_MAX];
        snprintf(path, sizeof path, HIL_TESTS "/golden/tokenizers/%s/tokenizer.json", families[i]);
        hil_tokenizer *tokenizer;
        CHECK_OK(hil_tokenizer_open(&tokenizer, path));
        check_texts(tokenizer, families[i], CHECK_SLOW ? 50 : 400, 100);
        check_texts(tokenizer, families[i], 2, 60000);
        hil_tokenizer_close(tokenizer);
    }
    return 0;
}
