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
    check_word(size / 4);
    return 0;
}
