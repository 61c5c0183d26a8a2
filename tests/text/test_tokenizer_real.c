/* test_tokenizer_real.c - real tokenizers against ids of Hugging Face tokenizers, if the data is
   present. */
#include "check.h"

#include "text/tokenizer.h"
#include "io/file.h"

#include <jansson.h>

#define SHARED HIL_TESTS "/../../shared/data/"

static const char *const names[] = {"gpt2-bpe", "mistral-v1", "qwen2_5"};
enum { NAMES = sizeof names / sizeof *names };

static hil_tokenizer *open_named(const char *name)
{
    char path[HIL_PATH_MAX];
    snprintf(path, sizeof path, SHARED "tokenizers/%s/tokenizer.json", name);
    hil_tokenizer *tokenizer;
    CHECK_OK(hil_tokenizer_open(&tokenizer, path));
    return tokenizer;
}

static void check_ids(const hil_ids *ids, const json_t *expected, const char *name,
                      const char *text)
{
    bool same = ids->size == json_array_size(expected);
    for (size_t i = 0; same && i < ids->size; ++i)
        same = ids->data[i] == json_integer_value(json_array_get(expected, i));
    if (same) return;
    fprintf(stderr, "%s: \"%s\" gives other ids\n", name, text);
    exit(1);
}

static void check_vector(hil_tokenizer *const *tokenizers, const json_t *vector)
{
    const json_t *text = json_object_get(vector, "text");
    for (int i = 0; i < NAMES; ++i) {
        hil_ids ids = {0};
        hil_text decoded = {0};
        CHECK_OK(hil_tokenizer_encode(tokenizers[i], json_string_value(text),
                                      json_string_length(text), HIL_SPECIAL_NONE, &ids));
        check_ids(&ids, json_object_get(json_object_get(vector, "ids"), names[i]), names[i],
                  json_string_value(text));
        const json_t *back = json_object_get(json_object_get(vector, "decoded"), names[i]);
        if (!back) back = text;
        CHECK_OK(
            hil_tokenizer_decode(tokenizers[i], ids.data, ids.size, HIL_SPECIAL_ADD, &decoded));
        CHECK_INT(decoded.size, json_string_length(back));
        CHECK(memcmp(decoded.data, json_string_value(back), decoded.size) == 0);
        hil_ids_free(&ids);
        hil_text_free(&decoded);
    }
}

static void test_vectors(hil_tokenizer *const *tokenizers, const char *path)
{
    hil_bytes map;
    CHECK_OK(hil_bytes_read(&map, path));
    int count = 0;
    for (const char *line = map.data, *end; line < map.data + map.size; line = end + 1) {
        end = memchr(line, '\n', (size_t)(map.data + map.size - line));
        if (!end) break;
        json_t *vector = json_loadb(line, (size_t)(end - line), JSON_ALLOW_NUL, NULL);
        CHECK(vector);
        check_vector(tokenizers, vector);
        json_decref(vector);
        ++count;
    }
    CHECK(count > 0);
    hil_bytes_free(&map);
}

/* A whole corpus at once and in pieces of an odd size. */
static void test_corpus(const hil_tokenizer *tokenizer, const char *path)
{
    enum { PIECE = 4093 };
    hil_bytes map;
    hil_ids whole = {0}, pieces = {0};
    hil_encoder *encoder;
    hil_text decoded = {0};
    CHECK_OK(hil_bytes_read(&map, path));
    CHECK_OK(hil_tokenizer_encode(tokenizer, map.data, map.size, HIL_SPECIAL_NONE, &whole));
    CHECK_OK(hil_encoder_create(&encoder, tokenizer));
    for (size_t at = 0; at < map.size; at += PIECE) {
        size_t left = map.size - at;
        CHECK_OK(hil_encoder_add(encoder, map.data + at, left < PIECE ? left : PIECE, &pieces));
    }
    CHECK_OK(hil_encoder_end(encoder, &pieces));
    CHECK_INT(pieces.size, whole.size);
    CHECK(memcmp(pieces.data, whole.data, whole.size * sizeof *whole.data) == 0);
    CHECK_OK(hil_tokenizer_decode(tokenizer, whole.data, whole.size, HIL_SPECIAL_ADD, &decoded));
    CHECK_INT(decoded.size, map.size);
    CHECK(memcmp(decoded.data, map.data, map.size) == 0);
    hil_text_free(&decoded);
    hil_encoder_destroy(encoder);
    hil_ids_free(&whole);
    hil_ids_free(&pieces);
    hil_bytes_free(&map);
}

int main(int argc, char **argv)
{
    if (!hil_file_exists(SHARED "tokenizers/vectors.jsonl")) return CHECK_SKIP;
    hil_tokenizer *tokenizers[NAMES];
    for (int i = 0; i < NAMES; ++i) tokenizers[i] = open_named(names[i]);
    const char *vectors = SHARED "tokenizers/vectors.jsonl";
    if (argc > 1) vectors = argv[1];
    test_vectors(tokenizers, vectors);
    for (int i = 0; i < NAMES; ++i) {
        test_corpus(tokenizers[i], SHARED "corpora/botchan.txt");
        test_corpus(tokenizers[i], SHARED "corpora/wagahaiwa_nekodearu.ja.txt");
    }
    for (int i = 0; i < NAMES; ++i) hil_tokenizer_close(tokenizers[i]);
    return 0;
}
