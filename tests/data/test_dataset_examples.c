/* Examples in windows: whole if they fit, placed by best fit, truncated and counted if longer, and
   started with the same ids as generation. */
#include "base/hash.h"
#include "data/fixture.h"

#include "base/philox.h"

#include <jansson.h>

#define EXAMPLE(prompt, completion)                                                                \
    "{\"prompt\": \"" prompt "\", \"completion\": \"" completion "\"}\n"

static void check_packing(const hil_dataset *dataset, hil_packing expected)
{
    const hil_packing *got = hil_dataset_packing(dataset);
    CHECK_INT(got->seq, expected.seq);
    CHECK_INT(got->windows, expected.windows);
    CHECK_INT(got->examples, expected.examples);
    CHECK_INT(got->cut, expected.cut);
    CHECK_INT(got->cut_tokens, expected.cut_tokens);
    CHECK_INT(got->left_out, expected.left_out);
    CHECK_INT(got->padding, expected.padding);
    CHECK_INT(got->learned, expected.learned);
}

/* Lengths 5, 6, 2, 3, 4 in windows of 8: the 2 goes to the 6, so that the 3 fits beside the 5. */
static void check_best_fit(void)
{
    const char *path =
        fixture_text("fit.jsonl", EXAMPLE("aa", "bb") EXAMPLE("ccc", "dd") EXAMPLE("e", "")
                                      EXAMPLE("", "") EXAMPLE("f", "g") EXAMPLE("hh", "i"));
    hil_dataset_options options = fixture_options(8);
    hil_dataset *dataset;
    CHECK_OK(hil_dataset_open(&dataset, &path, 1, &options));
    CHECK_INT(hil_dataset_windows(dataset), 3);
    CHECK_INT(hil_dataset_tokens(dataset), 20);
    check_packing(dataset, (hil_packing){8, 3, 6, 0, 0, 1, 4, 11, 0});
    CHECK_TEXT(fixture_window(dataset, 8, 0), "99>-1@0/0 99>-1@1/0 99>100@2/0 100>100@3/0 "
                                              "100>256@4/0 256>-1@5/0 101>256@0/6 256>-1@1/6");
    CHECK_TEXT(fixture_window(dataset, 8, 1), "97>-1@0/0 97>98@1/0 98>98@2/0 98>256@3/0 256>-1@4/0 "
                                              "102>103@0/5 103>256@1/5 256>-1@2/5");
    CHECK_TEXT(fixture_window(dataset, 8, 2), "104>-1@0/0 104>105@1/0 105>256@2/0 256>-1@3/0 "
                                              "256>-1@0/4 256>-1@1/4 256>-1@2/4 256>-1@3/4");
    hil_dataset_close(dataset);
}

/* A window holds 4: "abcdef" loses two letters and its end, "ghij" its whole completion. */
static void check_cut(void)
{
    const char *path =
        fixture_text("cut.jsonl", EXAMPLE("ab", "cdef") EXAMPLE("ghij", "k") EXAMPLE("l", "mn"));
    hil_dataset_options options = fixture_options(4);
    hil_dataset *dataset;
    CHECK_OK(hil_dataset_open(&dataset, &path, 1, &options));
    check_packing(dataset, (hil_packing){4, 2, 3, 1, 3, 1, 0, 5, 0});
    CHECK_TEXT(fixture_window(dataset, 4, 0), "97>-1@0/0 98>99@1/0 99>100@2/0 100>-1@3/0");
    CHECK_TEXT(fixture_window(dataset, 4, 1), "108>109@0/0 109>110@1/0 110>256@2/0 256>-1@3/0");
    hil_dataset_close(dataset);
    options.seq = 1;
    CHECK_FAILS(
        hil_dataset_open(&dataset, &path, 1, &options), HIL_ERR_INPUT,
        "cut.jsonl has no token to learn: in all 3 examples the prompt fills a window of 1");
}

/* Text fills windows of its own, as if there were no examples between. */
static void check_mixed(void)
{
    const char *paths[] = {
        fixture_text("m.jsonl", "{\"text\": \"ab\"}\n" EXAMPLE("x", "y") "{\"text\": \"cd\"}\n"),
        fixture_text("m.txt", "ef")};
    hil_dataset_options options = fixture_options(4);
    hil_dataset *dataset, *held;
    CHECK_OK(hil_dataset_open(&dataset, paths, 2, &options));
    CHECK_INT(hil_dataset_windows(dataset), 3);
    CHECK_INT(hil_dataset_tokens(dataset), 8 + 3);
    check_packing(dataset, (hil_packing){4, 1, 1, 0, 0, 0, 1, 2, 0});
    CHECK_TEXT(fixture_window(dataset, 4, 0), "97>98@0/0 98>256@1/0 256>99@2/0 99>-1@0/3");
    CHECK_TEXT(fixture_window(dataset, 4, 1), "100>256@0/0 256>101@1/0 101>102@0/2 102>-1@1/2");
    CHECK_TEXT(fixture_window(dataset, 4, 2), "120>121@0/0 121>256@1/0 256>-1@2/0 256>-1@0/3");
    CHECK_OK(hil_dataset_hold_out(dataset, 0.3, &held));
    hil_dataset_close(dataset);
    CHECK_TEXT(fixture_window(held, 4, 0), "120>121@0/0 121>256@1/0 256>-1@2/0 256>-1@0/3");
    hil_dataset_close(held);
}

/* A completion may end with end-of-text or another stop id of its own. */
static void check_ends(void)
{
    const char *path = fixture_text("ends.jsonl", EXAMPLE("a", "b!") EXAMPLE("c", "d"));
    hil_dataset_options options = fixture_options(6);
    options.stops = (int64_t[]){256, '!', -1};
    CHECK_TEXT(fixture_tokens(&path, 1, &options), "97 98 33 99 100 256");
    options.stops = NULL;
    options.eot = '!';
    CHECK_TEXT(fixture_tokens(&path, 1, &options), "97 98 33 99 100 33");
    options.eot = -1; /* no end of examples; padding is 0 */
    CHECK_TEXT(fixture_tokens(&path, 1, &options), "97 98 33 99 100 0");
}

/* Hundreds of examples of many lengths: each is whole in one window; the rest is padding at the
   ends of windows, and little of it. */
static void check_many(void)
{
    enum { COUNT = 600, SEQ = 60 };
    hil_text text = {0};
    int length[COUNT], seen[COUNT] = {0}, tokens = 0;
    for (int i = 0; i < COUNT; ++i) {
        uint32_t word[4];
        hil_philox(5, (uint64_t)i, HIL_PHILOX_ORDER, word);
        length[i] = 3 + (int)(word[0] % 20) + (word[1] % 8 ? 0 : 37);
        tokens += length[i];
        CHECK_OK(hil_text_print(&text, "{\"prompt\": \"%c%c\", \"completion\": \"", 'A' + i / 26,
                                'A' + i % 26));
        for (int k = 3; k < length[i]; ++k) CHECK_OK(hil_text_print(&text, "%c", 'a' + k % 26));
        CHECK_OK(hil_text_print(&text, "\"}\n"));
    }
    const char *path = fixture_bytes("many.jsonl", text.data, text.size);
    hil_text_free(&text);
    hil_dataset_options options = fixture_options(SEQ);
    hil_dataset *dataset;
    CHECK_OK(hil_dataset_open(&dataset, &path, 1, &options));
    CHECK_INT(hil_dataset_tokens(dataset), tokens);
    CHECK_INT(hil_dataset_packing(dataset)->learned, tokens - 2 * COUNT);
    int64_t windows = hil_dataset_windows(dataset);
    CHECK(100 * windows * SEQ < 103 * (int64_t)tokens);
    for (int64_t w = 0; w < windows; ++w) {
        int32_t token[SEQ], target[SEQ], position[SEQ], first[SEQ];
        CHECK_OK(hil_dataset_window(dataset, w, &(hil_window){token, target, position, first}));
        int t = 0;
        while (t < SEQ && token[t] != 256) {
            int i = (token[t] - 'A') * 26 + token[t + 1] - 'A', n = length[i];
            CHECK(!seen[i]++ && t + n <= SEQ);
            for (int k = 0; k < n; ++k) {
                CHECK(position[t + k] == k && first[t + k] == t);
                bool learned = k >= 1 && k + 1 < n;
                CHECK_INT(target[t + k], learned ? token[t + k + 1] : -1);
                if (k >= 2) CHECK_INT(token[t + k], k + 1 < n ? 'a' + (k + 1) % 26 : 256);
            }
            t += n;
        }
        for (int pad = t; t < SEQ; ++t)
            CHECK(token[t] == 256 && target[t] == -1 && first[t] == pad && position[t] == t - pad);
    }
    for (int i = 0; i < COUNT; ++i) CHECK_INT(seen[i], 1);
    hil_dataset_close(dataset);
}

/* An example begins with the ids that Hugging Face's tokenizer gives for the prompt, including BOS
   but without the ids that the template puts after a text; it ends with one end-of-text. Only the
   completion is learned. */
static void check_prompt(const hil_dataset_options *options, const json_t *text, const json_t *ids,
                         size_t size)
{
    enum { SEQ = 512 };
    const char *path = fixture_path("golden.jsonl");
    json_t *example = json_pack("{s:O, s:s}", "prompt", text, "completion", "a");
    CHECK(json_dump_file(example, path, JSON_COMPACT) == 0);
    json_decref(example);
    int32_t token[SEQ], target[SEQ], other[SEQ];
    hil_dataset *dataset;
    CHECK_INT(options->seq, SEQ);
    CHECK_OK(hil_dataset_open(&dataset, &path, 1, options));
    CHECK_OK(hil_dataset_window(dataset, 0, &(hil_window){token, target, other, other}));
    for (size_t i = 0; i < size; ++i) {
        CHECK_INT(token[i], json_integer_value(json_array_get(ids, i)));
        CHECK((target[i] >= 0) == (i + 1 == size));
    }
    size_t end = size - 1;
    while (target[end] >= 0 && target[end] != options->eot) ++end;
    CHECK(end >= size);
    CHECK_INT(target[end], options->eot);
    CHECK_INT(target[end + 1], -1);
    CHECK_INT(hil_dataset_tokens(dataset), end + 2);
    hil_dataset_close(dataset);
}

static void check_golden(const char *family, const char *end, size_t suffix)
{
    char path[HIL_PATH_MAX], cases[HIL_PATH_MAX];
    snprintf(path, sizeof path, HIL_TESTS "/golden/tokenizers/%s/tokenizer.json", family);
    snprintf(cases, sizeof cases, HIL_TESTS "/golden/tokenizers/%s/cases.jsonl", family);
    hil_tokenizer *tokenizer;
    CHECK_OK(hil_tokenizer_open(&tokenizer, path));
    hil_dataset_options options = fixture_options(512);
    options.tokenizer = tokenizer;
    options.tokenizer_key = hil_hash(0, family, strlen(family));
    options.vocab = hil_tokenizer_vocab(tokenizer);
    options.eot = hil_tokenizer_id(tokenizer, end);
    CHECK(options.eot >= 0);
    FILE *file = fopen(cases, "r");
    CHECK(file != NULL);
    int checked = 0;
    for (json_t *item; (item = json_loadf(file, JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, NULL));) {
        const json_t *text = json_object_get(item, "text"), *ids = json_object_get(item, "special");
        size_t size = json_array_size(ids);
        if (text && size && size < 500) {
            CHECK_INT(size, json_array_size(json_object_get(item, "ids")) + 1 + suffix);
            check_prompt(&options, text, ids, size - suffix);
            ++checked;
        }
        json_decref(item);
    }
    CHECK(fclose(file) == 0);
    printf("%s: %d prompts\n", family, checked);
    CHECK(checked > 10);
    hil_tokenizer_close(tokenizer);
}

int main(void)
{
    fixture_create();
    check_best_fit();
    check_cut();
    check_mixed();
    check_ends();
    check_many();
    check_golden("llama2", "</s>", 1);
    check_golden("llama3", "<|end|>", 0);
    return 0;
}
