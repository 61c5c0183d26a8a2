/* Tokenizing takes little memory, for files of any size. */
/* soak: --full */
#include "data/fixture.h"

#include <sys/resource.h>
#include <zlib.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

static long peak_bytes(void)
{
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    return usage.ru_maxrss * 1024;
}

static const char *generate(const char *name, size_t size, const char *line)
{
    const char *path = fixture_path(name);
    FILE *file = fopen(path, "wb");
    CHECK(file != NULL);
    size_t length = strlen(line);
    for (size_t written = 0; written < size; written += length)
        CHECK(fwrite(line, 1, length, file) == length);
    CHECK(fclose(file) == 0);
    return path;
}

static const char *generate_gzip(const char *name, size_t size, const char *line)
{
    const char *path = fixture_path(name);
    gzFile file = gzopen(path, "wb1");
    CHECK(file != NULL);
    size_t length = strlen(line);
    for (size_t written = 0; written < size; written += length)
        CHECK(gzwrite(file, line, (unsigned)length) == (int)length);
    CHECK(gzclose(file) == Z_OK);
    return path;
}

/* Adds bytes of a footer or header; each '#' stands for the next of `numbers`, as a varint. */
static void add_thrift(hil_text *to, const char *bytes, size_t size, const size_t *numbers)
{
    for (size_t i = 0; i < size; ++i) {
        if (bytes[i] != '#') {
            CHECK_OK(hil_text_add(to, bytes + i, 1));
            continue;
        }
        size_t left = *numbers++ * 2; /* zigzag */
        for (; left > 127; left >>= 7) CHECK_OK(hil_text_add(to, &(char){(char)(left | 128)}, 1));
        CHECK_OK(hil_text_add(to, &(char){(char)left}, 1));
    }
}

/* A Parquet file of one group of rows, with pages of 1 MiB that hold 8 texts each. */
static const char *generate_parquet(const char *name, size_t size)
{
    enum { TEXTS = 8, TEXT = (1 << 17) - 4 };
    static const char header[] = "\x15\x00\x15#\x15#\x2c\x15#\x15\x00\x15\x06\x15\x06\x00\x00";
    static const char footer[] =
        "\x15\x02\x19\x2c\x48\x01r\x15\x02\x00\x15\x0c\x25\x00\x18\x04text"
        "\x25\x00\x00\x16#\x19\x1c\x19\x1c\x26\x08\x1c\x15\x0c\x35\x00\x16#"
        "\x16#\x16#\x26\x08\x00\x00\x16#\x16#\x00\x00";
    const char *path = fixture_path(name);
    hil_text page = {0}, end = {0};
    uint32_t length = TEXT;
    size_t body = (size_t)TEXTS * (TEXT + 4), pages = size / body;
    char *text = malloc(TEXT);
    CHECK(text != NULL);
    memset(text, 'a', TEXT);
    add_thrift(&page, header, sizeof header - 1, (size_t[]){body, body, TEXTS});
    for (int i = 0; i < TEXTS; ++i) {
        CHECK_OK(hil_text_add(&page, &length, 4));
        CHECK_OK(hil_text_add(&page, text, TEXT));
    }
    size_t rows = pages * TEXTS, bytes = pages * page.size;
    add_thrift(&end, footer, sizeof footer - 1, (size_t[]){rows, rows, bytes, bytes, bytes, rows});
    length = (uint32_t)end.size;
    FILE *file = fopen(path, "wb");
    CHECK(file != NULL && fwrite("PAR1", 4, 1, file) == 1);
    for (size_t i = 0; i < pages; ++i) CHECK(fwrite(page.data, page.size, 1, file) == 1);
    CHECK(fwrite(end.data, end.size, 1, file) == 1 && fwrite(&length, 4, 1, file) == 1);
    CHECK(fwrite("PAR1", 4, 1, file) == 1 && fclose(file) == 0);
    hil_text_free(&page);
    hil_text_free(&end);
    free(text);
    return path;
}

/* Opens the files and reads all windows; memory does not grow with their size. */
static void check_memory(const char *const *paths, size_t count, size_t size,
                         const hil_dataset_options *options)
{
    long before = peak_bytes();
    hil_dataset *dataset;
    CHECK_OK(hil_dataset_open(&dataset, paths, count, options));
    CHECK(hil_dataset_tokens(dataset) > (int64_t)size / 8);
    int32_t token[1000], other[1000];
    for (int64_t n = 0; n < hil_dataset_windows(dataset); ++n) {
        int64_t index = hil_dataset_pick(dataset, HIL_ORDER_SHUFFLE, 1, n);
        CHECK_OK(hil_dataset_window(dataset, index, &(hil_window){token, other, other, other}));
    }
    hil_dataset_close(dataset);
    long used = peak_bytes() - before;
#ifndef SANITIZED
    CHECK(used < 12 << 20);
#endif
    printf("%zu MiB of text took %.1f MiB of memory\n", count * size >> 20, (double)used / 0x1p20);
}

/* Text without spaces is one word for a tokenizer. */
static void check_word(size_t size)
{
    hil_tokenizer *tokenizer;
    CHECK_OK(hil_tokenizer_open(&tokenizer, HIL_TESTS "/golden/tokenizers/gpt2/tokenizer.json"));
    const char *path = generate("word.txt", size, "Allworkandnoplaymakesalongfile");
    hil_dataset_options options = fixture_options(1000);
    options.tokenizer = tokenizer;
    options.tokenizer_key = 1;
    options.vocab = hil_tokenizer_vocab(tokenizer);
    options.eot = -1;
    check_memory(&path, 1, size, &options);
    hil_tokenizer_close(tokenizer);
}

int main(int argc, char **argv)
{
    fixture_create();
    size_t size = (argc > 1 && strcmp(argv[1], "--full") == 0 ? (size_t)200 : (size_t)20) << 20;
    const char *paths[] = {
        generate("a.txt", size, "All work and no play makes a long file.\n"),
        generate("b.jsonl", size, "{\"prompt\": \"Why?\", \"completion\": \"Because.\"}\n"),
        generate_gzip("c.txt.gz", size, "All work and no play makes a long file.\n")};
    hil_dataset_options options = fixture_options(1000);
    check_memory(paths, 3, size, &options);
    paths[0] = generate_parquet("d.parquet", 2 * size);
    check_memory(paths, 1, size, &options);
    check_word(size / 4);
    return 0;
}
