/* Many added tokens load and match in bounded time; the leftmost, longest token wins. */
#include "check.h"
#include "text/tokenizer.h"

#include <time.h>

#define MANY 200000

/* A tokenizer whose model has the characters a, b and x, and these added tokens. Special ones
   are searched first, in raw text. */
static hil_tokenizer *make(char *const *tokens, size_t count, bool mixed)
{
    hil_text json = {0};
    hil_tokenizer *tokenizer;
    CHECK_OK(hil_text_print(&json,
                            "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, "
                            "\"x\": 2}, \"merges\": []}, \"added_tokens\": ["));
    for (size_t i = 0; i < count; ++i)
        CHECK_OK(hil_text_print(&json, "%s{\"id\": %zu, \"content\": \"%s\", \"special\": %s}",
                                i ? ", " : "", i + 3, tokens[i],
                                mixed && i % 2 ? "true" : "false"));
    CHECK_OK(hil_text_print(&json, "]}"));
    CHECK_OK(hil_tokenizer_parse(&tokenizer, json.data, json.size, "many"));
    hil_text_free(&json);
    return tokenizer;
}

static void check_many(void)
{
    static char *token[MANY];
    hil_text text = {0}, back = {0};
    hil_ids ids = {0};
    for (size_t i = 0; i < MANY; ++i) {
        token[i] = malloc(32);
        CHECK(token[i] != NULL);
        snprintf(token[i], 32, "<extra_token_%zu>", i);
    }
    clock_t began = clock();
    hil_tokenizer *tokenizer = make(token, MANY, true);
    /* Every token once, and many texts that share the beginning of a token. */
    for (size_t i = 0; i < MANY; ++i) {
        size_t n = i * 7919 % MANY;
        CHECK_OK(hil_text_print(&text, "%sx<<<extra_token_a", token[n]));
    }
    CHECK_OK(hil_tokenizer_encode(tokenizer, text.data, text.size, HIL_SPECIAL_NONE, &ids));
    CHECK_INT(ids.size, 5 * MANY); /* the token, x, and of the rest x, a, a */
    for (size_t i = 0; i < MANY; ++i) {
        CHECK_INT(ids.data[5 * i], i * 7919 % MANY + 3);
        CHECK(ids.data[5 * i + 1] == 2 && ids.data[5 * i + 4] == 0);
        CHECK_INT(hil_tokenizer_id(tokenizer, token[i]), i + 3);
    }
    CHECK_OK(hil_tokenizer_decode(tokenizer, ids.data, ids.size, HIL_SPECIAL_ADD, &back));
    double seconds = (double)(clock() - began) / CLOCKS_PER_SEC;
    printf("%d added tokens: %.2f s of processor time\n", MANY, seconds);
    CHECK(CHECK_SLOW || seconds < 10);
    hil_tokenizer_close(tokenizer);
    for (size_t i = 0; i < MANY; ++i) free(token[i]);
    hil_text_free(&text);
    hil_text_free(&back);
    hil_ids_free(&ids);
}

static unsigned state = 1;

static unsigned draw(unsigned below)
{
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % below;
}

static void draw_word(char *out, size_t size)
{
    for (size_t i = 0; i < size; ++i) out[i] = "ab"[draw(2)];
    out[size] = 0;
}

/* At each place the longest token that matches there, or else the character. */
static void search(char *const *tokens, size_t count, const char *text, hil_ids *ids)
{
    while (*text) {
        int32_t best = *text == 'a' ? 0 : 1;
        size_t longest = 1;
        for (size_t i = 0; i < count; ++i) {
            size_t size = strlen(tokens[i]);
            if (size <= longest || strncmp(text, tokens[i], size) != 0) continue;
            longest = size;
            best = (int32_t)i + 3;
        }
        CHECK_OK(hil_ids_add(ids, best));
        text += longest;
    }
}

static void check_longest(void)
{
    for (int round = 0; round < 200; ++round) {
        char word[40][16], *tokens[40], text[400];
        size_t count = 0, asked = 1 + draw(40);
        for (size_t i = 0; i < asked; ++i) {
            draw_word(word[count], 2 + draw(10));
            bool fresh = true;
            for (size_t k = 0; k < count; ++k) fresh &= strcmp(word[k], word[count]) != 0;
            tokens[count] = word[count];
            count += fresh;
        }
        draw_word(text, draw(399));
        hil_ids expected = {0}, ids = {0};
        search(tokens, count, text, &expected);
        hil_tokenizer *tokenizer = make(tokens, count, false);
        CHECK_OK(hil_tokenizer_encode(tokenizer, text, strlen(text), HIL_SPECIAL_NONE, &ids));
        CHECK_INT(ids.size, expected.size);
        for (size_t i = 0; i < ids.size; ++i) CHECK_INT(ids.data[i], expected.data[i]);
        hil_tokenizer_close(tokenizer);
        hil_ids_free(&ids);
        hil_ids_free(&expected);
    }
}

int main(void)
{
    check_many();
    check_longest();
    return 0;
}
