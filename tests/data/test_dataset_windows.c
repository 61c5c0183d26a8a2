/* Windows computed by hand for small files of every kind. */
#include "data/fixture.h"

static void check_text_files(void)
{
    const char *paths[] = {fixture_text("a.txt", "abcd"), fixture_text("b.md", "ef")};
    hil_dataset_options options = fixture_options(3);
    hil_dataset *dataset;
    CHECK_OK(hil_dataset_open(&dataset, paths, 2, &options));
    CHECK_INT(hil_dataset_tokens(dataset), 7);
    CHECK_INT(hil_dataset_windows(dataset), 2);
    CHECK_TEXT(fixture_window(dataset, 3, 0), "97>98@0/0 98>99@1/0 99>-1@2/0");
    CHECK_TEXT(fixture_window(dataset, 3, 1), "100>256@0/0 256>101@1/0 101>-1@0/2");
    hil_dataset_close(dataset);

    options.eot = -1;
    CHECK_OK(hil_dataset_open(&dataset, paths, 2, &options));
    CHECK_INT(hil_dataset_tokens(dataset), 6);
    CHECK_TEXT(fixture_window(dataset, 3, 1), "100>101@0/0 101>102@0/1 102>-1@1/1");
    hil_dataset_close(dataset);

    const char *swapped[] = {paths[1], paths[0]};
    CHECK_TEXT(fixture_tokens(swapped, 2, &options), "101 102 97 98 99 100");
    const char *twice[] = {paths[1], paths[1]};
    options.eot = 0;
    options.seq = 5;
    CHECK_TEXT(fixture_tokens(twice, 2, &options), "101 102 0 101 102");
}

static void check_prompts(void)
{
    const char *path = fixture_text("p.jsonl", "{\"prompt\": \"ab\", \"completion\": \"cd\"}\n"
                                               "{\"text\": \"x\"}\n"
                                               "{\"completion\": \"\", \"prompt\": \"y\"}\n"
                                               "{\"prompt\": \"\", \"completion\": \"z\"}\n");
    hil_dataset_options options = fixture_options(10);
    hil_dataset *dataset;
    CHECK_OK(hil_dataset_open(&dataset, &path, 1, &options));
    CHECK_INT(hil_dataset_tokens(dataset), 11);
    CHECK_INT(hil_dataset_windows(dataset), 1);
    CHECK_TEXT(fixture_window(dataset, 10, 0),
               "97>-1@0/0 98>99@1/0 99>100@2/0 100>256@3/0 256>-1@4/0 "
               "121>256@0/5 256>-1@1/5 256>122@0/7 122>256@1/7 256>-1@2/7");
    hil_dataset_close(dataset);
}

/* No end-of-text next to an array; an empty document adds no token. */
static void check_arrays(void)
{
    const char *paths[] = {
        fixture_text("t.txt", "a"), fixture_npy("n.npy", (uint16_t[]){256, 7, 8}, 3),
        fixture_text("empty.txt", ""), fixture_npy("empty.npy", NULL, 0),
        fixture_text("u.jsonl", "{\"text\":\"b\"}\n{\"text\":\"\"}\n{\"text\":\"c\"}")};
    hil_dataset_options options = fixture_options(7);
    hil_dataset *dataset;
    CHECK_OK(hil_dataset_open(&dataset, paths, 5, &options));
    CHECK_TEXT(fixture_window(dataset, 7, 0), "97>256@0/0 256>7@0/1 7>8@1/1 8>98@2/1 98>256@0/4 "
                                              "256>99@1/4 99>-1@0/6");
    hil_dataset_close(dataset);
}

static void check_dtypes(void)
{
    const char *const paths[] = {
        HIL_TESTS "/golden/formats/u2.npy", HIL_TESTS "/golden/formats/u4.npy",
        HIL_TESTS "/golden/formats/i4.npy", HIL_TESTS "/golden/formats/i8.npy"};
    hil_dataset_options options = fixture_options(10);
    options.vocab = 65536;
    CHECK_TEXT(fixture_tokens(paths, 4, &options),
               "0 1 300 65535 7 0 1 300 65535 7 0 1 300 65535 7 0 1 300 65535 7");
    options.vocab = 65535;
    hil_dataset *dataset;
    CHECK_FAILS(hil_dataset_open(&dataset, paths, 4, &options), HIL_ERR_INPUT, "65535");
}

static void check_refusals(void)
{
    hil_dataset *dataset;
    hil_dataset_options options = fixture_options(4);
    const char *path = fixture_text("short.txt", "abc");
    const char *cache = options.cache_dir;
    CHECK_FAILS(hil_dataset_open(&dataset, &path, 0, &options), HIL_ERR_USAGE, "no data");
    options.cache_dir = fixture_path("deep/er/cache/");
    char words[256];
    snprintf(words, sizeof words, "%s has 3 tokens, fewer than one sequence of 4", path);
    CHECK_FAILS(hil_dataset_open(&dataset, &path, 1, &options), HIL_ERR_INPUT, words);
    CHECK(!hil_file_exists(fixture_path("deep")));
    options.cache_dir = cache;

    options.vocab = 99;
    options.eot = -1;
    snprintf(words, sizeof words, "%s: token id 99 at position 2 is outside the vocabulary of 99",
             path);
    CHECK_FAILS(hil_dataset_open(&dataset, &path, 1, &options), HIL_ERR_INPUT, words);
    options.eot = 99;
    CHECK_FAILS(hil_dataset_open(&dataset, &path, 1, &options), HIL_ERR_INPUT, "end-of-text id 99");
    options = fixture_options(4);
    path = fixture_npy("big.npy", (uint16_t[]){1, 2, 257}, 3);
    CHECK_FAILS(hil_dataset_open(&dataset, &path, 1, &options), HIL_ERR_INPUT, "257");
    path = fixture_text("nothing.txt", "");
    CHECK_FAILS(hil_dataset_open(&dataset, &path, 1, &options), HIL_ERR_INPUT,
                "nothing.txt is empty");
    path = fixture_path("absent.txt");
    CHECK_FAILS(hil_dataset_open(&dataset, &path, 1, &options), HIL_ERR_IO,
                "absent.txt: No such file");
    path = "/dev/null";
    CHECK_FAILS(hil_dataset_open(&dataset, &path, 1, &options), HIL_ERR_INPUT, "regular");
    options.seq = 0;
    CHECK_FAILS(hil_dataset_open(&dataset, &path, 1, &options), HIL_ERR_USAGE, "sequence");
}

int main(void)
{
    fixture_create();
    check_text_files();
    check_prompts();
    check_arrays();
    check_dtypes();
    check_refusals();
    return 0;
}
