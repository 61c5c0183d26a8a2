/* test_normalize.c - normalizers against Hugging Face tokenizers, for the whole text and in
   fragments. */
#include "check.h"

#include "fragment.h"
#include "text/normalize.h"

/* Normalizes `text` in fragments of up to `most` characters; 0: whole. */
static void normalize(const hil_normalizer *normalizer, const char *text, unsigned most,
                      hil_normalizer_state *states, hil_text *out)
{
    size_t size = strlen(text);
    out->size = 0;
    for (size_t at = 0, to; at < size; at = to) {
        to = fragment_end(text, size, at, most);
        CHECK_OK(hil_normalizer_add(normalizer, states, text + at, to - at, out));
    }
    CHECK_OK(hil_normalizer_end(normalizer, states, out));
}

static void check_pair(const hil_normalizer *normalizer, const json_t *pair, int line)
{
    const char *text = json_string_value(json_array_get(pair, 0));
    const char *expected = json_string_value(json_array_get(pair, 1));
    hil_normalizer_state states = {0};
    hil_text out = {0};
    for (unsigned most = 0; most < 4; ++most) {
        normalize(normalizer, text, most * most, &states, &out);
        if (out.size == strlen(expected) && (!out.size || !memcmp(out.data, expected, out.size)))
            continue;
        fprintf(stderr, "line %d, fragments of %u: \"%s\" becomes \"%.*s\", expected \"%s\"\n",
                line, most * most, text, (int)out.size, out.data ? out.data : "", expected);
        exit(1);
    }
    hil_normalizer_state_free(&states);
    hil_text_free(&out);
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : HIL_TESTS "/golden/tokenizers/normalizers.jsonl";
    FILE *lines = fopen(path, "r");
    CHECK(lines);
    char *line = NULL;
    size_t capacity = 0, pairs = 0;
    ssize_t size;
    int number = 0;
    while ((size = getline(&line, &capacity, lines)) > 0) {
        json_t *item = json_loadb(line, (size_t)size, 0, NULL);
        const json_t *list = json_object_get(item, "texts");
        hil_normalizer normalizer = {0};
        CHECK(list);
        ++number;
        CHECK_OK(hil_normalizer_load(&normalizer, json_object_get(item, "normalizer"), "t"));
        for (size_t i = 0; i < json_array_size(list); ++i)
            check_pair(&normalizer, json_array_get(list, i), number);
        pairs += json_array_size(list);
        hil_normalizer_free(&normalizer);
        json_decref(item);
    }
    printf("%d normalizers, %zu texts\n", number, pairs);
    CHECK(number > 10);
    free(line);
    fclose(lines);
    return 0;
}
