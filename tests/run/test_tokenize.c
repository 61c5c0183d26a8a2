/* hil_tokenize: bytes to one JSON array and back; malformed arrays. */
#include "hilbert/run.h"
#include "base/alloc.h"
#include "check.h"

#include <unistd.h>

/* Hugging Face tokenizers gives "ab a" the ids 2 3 0, and 4 in front with special tokens. */
static const char tokenizer[] =
    "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[{\"id\":4,"
    "\"content\":\"<s>\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":"
    "false,\"special\":true}],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\","
    "\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":true},\"post_processor\":{"
    "\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}},"
    "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"pair\":[{\"Sequence\":{\"id\":\"A\",\"type_"
    "id\":"
    "0}},{\"Sequence\":{\"id\":\"B\",\"type_id\":1}}],\"special_tokens\":{\"<s>\":{\"id\":\"<s>\","
    "\"ids\":[4],\"tokens\":[\"<s>\"]}}},\"decoder\":{\"type\":\"ByteLevel\",\"add_prefix_space\":"
    "true,\"trim_offsets\":true,\"use_regex\":true},\"model\":{\"type\":\"BPE\",\"dropout\":null,"
    "\"unk_token\":null,\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,"
    "\"fuse_unk\":false,\"byte_fallback\":false,\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"\xc4\xa0\":3}"
    ","
    "\"merges\":[\"a b\"]}}";

static char folder[] = "/tmp/hilbert-tokenize-XXXXXX";
static char output[1 << 20];

static hil_status run(bool special, bool decode, const char *input)
{
    hil_tokenize_options options;
    hil_tokenize_defaults(&options);
    options.model = folder;
    options.special = special;
    options.decode = decode;
    FILE *in = tmpfile(), *out = tmpfile();
    CHECK(in && out);
    fputs(input, in);
    rewind(in);
    hil_status status = hil_tokenize(&options, in, out);
    rewind(out);
    output[fread(output, 1, sizeof output - 1, out)] = 0;
    fclose(in);
    fclose(out);
    return status;
}

static void check_arrays(void)
{
    CHECK_OK(run(false, false, "ab a"));
    CHECK_TEXT(output, "[2,3,0]\n");
    CHECK_OK(run(true, false, "ab a"));
    CHECK_TEXT(output, "[4,2,3,0]\n");
    CHECK_OK(run(false, false, "ab<s>a"));
    CHECK_TEXT(output, "[2,4,0]\n");
    CHECK_OK(run(false, false, ""));
    CHECK_TEXT(output, "[]\n");
    CHECK_OK(run(false, true, "[2,3,0]"));
    CHECK_TEXT(output, "ab a");
    CHECK_OK(run(false, true, " [ 4 ,\n2,3\t,0 ]\r\n"));
    CHECK_TEXT(output, "ab a");
    CHECK_OK(run(true, true, "[4,2,3,0]"));
    CHECK_TEXT(output, "<s>ab a");
    CHECK_OK(run(false, true, "[]"));
    CHECK_TEXT(output, "");
}

/* The same in memory. */
static void check_data(void)
{
    hil_tokenize_options options;
    hil_tokens tokens;
    hil_tokenize_defaults(&options);
    options.model = folder;
    CHECK_OK(hil_tokens_encode(&options, "ab a", 4, &tokens));
    CHECK(tokens.count == 3 && tokens.id[0] == 2 && tokens.id[1] == 3 && tokens.id[2] == 0);
    CHECK(tokens.text == NULL && tokens.bytes == 0);
    hil_tokens_free(&tokens);
    CHECK_OK(hil_tokens_encode(&options, "", 0, &tokens));
    CHECK_INT(tokens.count, 0);
    hil_tokens_free(&tokens);
    options.special = true;
    CHECK_OK(hil_tokens_encode(&options, "ab a", 4, &tokens));
    CHECK(tokens.count == 4 && tokens.id[0] == 4);
    hil_tokens_free(&tokens);
    CHECK_OK(hil_tokens_decode(&options, (const int32_t[]){4, 2, 3, 0}, 4, &tokens));
    CHECK_TEXT(tokens.text, "<s>ab a");
    CHECK_INT(tokens.bytes, 7);
    hil_tokens_free(&tokens);
    CHECK_OK(hil_tokens_decode(&options, NULL, 0, &tokens));
    CHECK_TEXT(tokens.text, "");
    hil_tokens_free(&tokens);
    CHECK_FAILS(hil_tokens_decode(&options, (const int32_t[]){0, 5}, 2, &tokens), HIL_ERR_INPUT,
                "token id 5 (number 2) is outside the vocabulary of 5");
    CHECK_FAILS(hil_tokens_decode(&options, (const int32_t[]){-1}, 1, &tokens), HIL_ERR_INPUT,
                "token id -1");
    options.model = "/nonexistent";
    CHECK_FAILS(hil_tokens_encode(&options, "a", 1, &tokens), HIL_ERR_IO, "/nonexistent");
    CHECK(tokens.id == NULL);
}

static void check_long_text(void)
{
    enum { WORDS = 40000 };
    static char text[WORDS * 3 + 1];
    for (int i = 0; i < WORDS; ++i) memcpy(text + (size_t)i * 3, "ab ", 3);
    CHECK_OK(run(false, false, text));
    CHECK_INT(strlen(output), 2 * 2 * WORDS + 2);
    static char ids[sizeof output];
    memcpy(ids, output, sizeof ids);
    CHECK_OK(run(false, true, ids));
    CHECK_TEXT(output, text);
}

static void check_bad_arrays(void)
{
    static const char *const bad[] = {"",      "[",       "[1",    "[1,]",  "[,1]", "[1 2]",
                                      "[-1]",  "[1.5]",   "[01]",  "[1]]",  "{}",   "1",
                                      "[[1]]", "[\"1\"]", "[1e0]", "[null]"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
        CHECK_FAILS(run(false, true, bad[i]), HIL_ERR_INPUT, "not a JSON array of token ids");
        CHECK_TEXT(output, "");
    }
    CHECK_FAILS(run(false, true, "[0,5]"), HIL_ERR_INPUT,
                "token id 5 (number 2) is outside the vocabulary of 5");
    CHECK_FAILS(run(false, true, "[99999999999999999999999]"), HIL_ERR_INPUT, "outside");
}

static void check_bad_files(void)
{
    hil_tokenize_options options;
    hil_tokenize_defaults(&options);
    options.model = folder;
    FILE *in = tmpfile(), *out = tmpfile(), *full = fopen("/dev/full", "w");
    FILE *unreadable = fopen(folder, "r");
    CHECK(in && out && unreadable);
    fputs("ab", in);
    rewind(in);
    if (full) CHECK_FAILS(hil_tokenize(&options, in, full), HIL_ERR_IO, "cannot write");
    CHECK_FAILS(hil_tokenize(&options, unreadable, out), HIL_ERR_IO, "cannot read");
    options.model = "/nonexistent";
    CHECK_FAILS(hil_tokenize(&options, in, out), HIL_ERR_IO, "/nonexistent");
    CHECK_INT(ftell(out), 0);
    if (full) fclose(full);
    fclose(in);
    fclose(out);
    fclose(unreadable);
}

static void check_no_memory(void)
{
    for (int mode = 0; mode < 3; ++mode) {
        long n = 0;
        hil_status status;
        do {
            hil_alloc_fail_at(++n);
            status = run(mode == 1, mode == 2, mode == 2 ? "[2,3,0]" : "ab a");
            hil_alloc_fail_at(0);
            CHECK(status == HIL_OK || status == HIL_ERR_MEMORY);
        } while (status != HIL_OK);
        CHECK(n > 3);
    }
}

int main(void)
{
    char path[64];
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    fputs(tokenizer, file);
    fclose(file);
    check_arrays();
    check_data();
    check_long_text();
    check_bad_arrays();
    check_bad_files();
    check_no_memory();
    unlink(path);
    rmdir(folder);
    return 0;
}
