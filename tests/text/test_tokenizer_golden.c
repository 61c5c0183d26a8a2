/* test_tokenizer_golden.c - small tokenizers of every family against Hugging Face tokenizers: ids,
   special tokens, decoding, and the same in fragments. */
#include "check.h"
#include "families.h"

#include "text/tokenizer.h"
#include "io/file.h"

#include <jansson.h>

/* Named when a check fails. */
static const char *family;
static int line_number;

static void fail(const char *what)
{
    fprintf(stderr, "%s/cases.jsonl line %d: %s\n", family, line_number, what);
    exit(1);
}

static void same_ids(const hil_ids *ids, const json_t *expected, const char *what)
{
    bool same = ids->size == json_array_size(expected);
    for (size_t i = 0; same && i < ids->size; ++i)
        same = ids->data[i] == json_integer_value(json_array_get(expected, i));
    if (!same) fail(what);
}

static void same_text(const hil_text *text, const json_t *expected, const char *what)
{
    size_t size = json_string_length(expected);
    if (text->size != size || memcmp(text->data, json_string_value(expected), size) != 0)
        fail(what);
}

static void case_bytes(const json_t *item, hil_text *out)
{
    const json_t *text = json_object_get(item, "text");
    if (text) {
        CHECK_OK(hil_text_add(out, json_string_value(text), json_string_length(text)));
        return;
    }
    const char *hex = json_string_value(json_object_get(item, "hex"));
    CHECK(hex);
    for (; *hex; hex += 2) {
        unsigned value;
        CHECK_INT(sscanf(hex, "%2x", &value), 1);
        char byte = (char)value;
        CHECK_OK(hil_text_add(out, &byte, 1));
    }
}

static void check_encode(const hil_tokenizer *tokenizer, const json_t *item)
{
    hil_text text = {0};
    hil_ids ids = {0};
    const json_t *plain = json_object_get(item, "ids"), *special = json_object_get(item, "special");
    CHECK_OK(hil_text_add(&text, "", 0));
    case_bytes(item, &text);
    CHECK_OK(hil_tokenizer_encode(tokenizer, text.data, text.size, HIL_SPECIAL_NONE, &ids));
    same_ids(&ids, plain, "other ids");
    ids.size = 0;
    CHECK_OK(hil_tokenizer_encode(tokenizer, text.data, text.size, HIL_SPECIAL_ADD, &ids));
    same_ids(&ids, special ? special : plain, "other ids with special tokens");
    hil_encoder *encoder;
    CHECK_OK(hil_encoder_create(&encoder, tokenizer));
    for (size_t piece = 1; piece < 9; piece += 2) {
        ids.size = 0;
        for (size_t at = 0; at < text.size; at += piece) {
            size_t size = text.size - at < piece ? text.size - at : piece;
            CHECK_OK(hil_encoder_add(encoder, text.data + at, size, &ids));
        }
        CHECK_OK(hil_encoder_end(encoder, &ids));
        same_ids(&ids, plain, "other ids in pieces");
    }
    hil_encoder_destroy(encoder);
    hil_ids_free(&ids);
    hil_text_free(&text);
}

static void check_decode(const hil_tokenizer *tokenizer, const json_t *item)
{
    hil_ids ids = {0};
    hil_text text = {0};
    const json_t *list = json_object_get(item, "decode");
    if (!list) list = json_object_get(item, "special");
    if (!list) list = json_object_get(item, "ids");
    for (size_t i = 0; i < json_array_size(list); ++i)
        CHECK_OK(hil_ids_add(&ids, (int32_t)json_integer_value(json_array_get(list, i))));
    const json_t *all = json_object_get(item, "all"), *skip = json_object_get(item, "skip");
    CHECK_OK(hil_tokenizer_decode(tokenizer, ids.data, ids.size, HIL_SPECIAL_ADD, &text));
    same_text(&text, all, "other text");
    text.size = 0;
    CHECK_OK(hil_tokenizer_decode(tokenizer, ids.data, ids.size, HIL_SPECIAL_NONE, &text));
    same_text(&text, skip ? skip : all, "other text without special tokens");
    hil_decoder *decoder;
    CHECK_OK(hil_decoder_create(&decoder, tokenizer));
    for (int again = 0; again < 2; ++again) {
        text.size = 0;
        for (size_t i = 0; i < ids.size; ++i)
            CHECK_OK(hil_decoder_add(decoder, ids.data[i], &text));
        CHECK_OK(hil_decoder_end(decoder, &text));
        same_text(&text, skip ? skip : all, "other text one id at a time");
    }
    hil_decoder_destroy(decoder);
    hil_ids_free(&ids);
    hil_text_free(&text);
}

static void check_family(const char *folder)
{
    char path[HIL_PATH_MAX];
    hil_tokenizer *tokenizer;
    CHECK_OK(hil_path_join(path, folder, "tokenizer.json"));
    CHECK_OK(hil_tokenizer_open(&tokenizer, path));
    CHECK_OK(hil_path_join(path, folder, "cases.jsonl"));
    FILE *lines = fopen(path, "r");
    CHECK(lines);
    char *line = NULL;
    size_t capacity = 0;
    ssize_t size;
    for (line_number = 1; (size = getline(&line, &capacity, lines)) > 0; ++line_number) {
        json_t *item = json_loadb(line, (size_t)size, JSON_ALLOW_NUL, NULL);
        CHECK(item);
        if (!json_object_get(item, "decode")) check_encode(tokenizer, item);
        check_decode(tokenizer, item);
        json_decref(item);
    }
    CHECK(line_number > 100);
    free(line);
    fclose(lines);
    hil_tokenizer_close(tokenizer);
}

/* With a folder as argument: the families there, see tools/golden_tokenizers.py. */
int main(int argc, char **argv)
{
    const char *from = argc > 1 ? argv[1] : HIL_TESTS "/golden/tokenizers";
    for (size_t i = 0; i < sizeof families / sizeof *families; ++i) {
        char folder[HIL_PATH_MAX];
        family = families[i];
        CHECK_OK(hil_path_join(folder, from, family));
        check_family(folder);
    }
    return 0;
}
