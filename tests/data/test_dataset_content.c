/* Files that are not text are refused, by name and by content, with advice. */
#include "data/fixture.h"

static void check_refused(const char *path, const char *words)
{
    hil_dataset_options options = fixture_options(2);
    hil_dataset *dataset;
    CHECK_FAILS(hil_dataset_open(&dataset, &path, 1, &options), HIL_ERR_INPUT, words);
    CHECK(dataset == NULL && strstr(hil_status_message(), path));
}

static void check_tokens(const char *path, int64_t expected)
{
    hil_dataset_options options = fixture_options(2);
    hil_dataset *dataset;
    CHECK_OK(hil_dataset_open(&dataset, &path, 1, &options));
    CHECK_INT(hil_dataset_tokens(dataset), expected);
    hil_dataset_close(dataset);
}

static void check_names(void)
{
    static const struct {
        const char *name, *words;
    } cases[] = {
        {"a.xlsx", "pandas.read_excel"},
        {"A.XLSX", "pandas.read_excel"},
        {"a.xlsx.gz", "pandas.read_excel"},
        {"a.xlsx.zst", "pandas"},
        {"a.CSV", "a.CSV: expected"},
        {"a.parquet", "a.parquet is not a Parquet file"},
        {"a.parquet.gz", "decompress it first"},
        {"a.arrow", "a.arrow is not an Arrow file"},
        {"a.feather.gz", "an Arrow file is not read compressed"},
        {"a.safetensors", "weights"},
        {"a.bin", "weights"},
        {"a.pt", "weights"},
        {"a.txt.xz", "xz -d"},
        {"a.txt.bz2", "bzip2 -d"},
        {"a.tar.gz", "tar xf"},
        {"a.tgz", "tar xf"},
        {"a.npy.gz", "decompress it first"},
        {"a.npz", "numpy.save"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i)
        check_refused(fixture_text(cases[i].name, "plain text"), cases[i].words);
    check_tokens(fixture_text("csv", "plain text"), 10);
    check_tokens(fixture_text(".csv", "plain text"), 10);
    check_tokens(fixture_text("a.csv.txt", "plain text"), 10);
    check_tokens(fixture_text("a.JSONL", "{\"text\": \"ten bytes.\"}"), 10);
    check_tokens(fixture_text("a.ndjson", "{\"text\": \"ten bytes.\"}"), 10);
}

#define BYTES(text) text, sizeof text - 1

static void check_magic(void)
{
    static const struct {
        const char *bytes;
        size_t size;
        const char *words;
    } cases[] = {
        {BYTES("\x1F\x8B\x08 abcdefghijkl"), "must end with .gz"},
        {BYTES("\x28\xB5\x2F\xFD abcdefghijkl"), "must end with .zst"},
        {BYTES("PK\x03\x04 abcdefghijkl"), "zip archive"},
        {BYTES("PAR1 abcdefghijkl"), "its name must end with .parquet"},
        {BYTES("ARROW1 abcdefghijkl"), "its name must end with .arrow"},
        {BYTES("\x7F"
               "ELF abcdefghijkl"),
         "a program"},
        {BYTES("%PDF-1.7 abcdefghijkl"), "PDF"},
        {BYTES("SQLite format 3\0abcdefghijkl"), "SQLite"},
        {BYTES("\x89PNG\r\n\x1A\n abcdefghijkl"), "PNG"},
        {BYTES("\xFF\xD8\xFF\xE0 abcdefghijkl"), "JPEG"},
        {BYTES("\x93NUMPY\x01 abcdefghijkl"), ".npy"},
        {BYTES("\x80\x04\x95 abcdefghijkl"), "pickle"},
        {BYTES("\xFD"
               "7zXZ\0abcdefghijkl"),
         "xz -d"},
        {BYTES("BZh91AY&SY abcdefghijkl"), "bzip2"},
        {BYTES("\x40\1\0\0\0\0\0\0{\"a\": {\"dtype\": \"F32\"}}"), "safetensors"},
        {BYTES("\xFF\xFEh\0a\0l\0l\0o\0"), "iconv"},
        {BYTES("GGUF abcdefghijkl"), "GGUF"},
        {BYTES("h\0a\0l\0l\0o\0"), "byte 1 is NUL"},
        {BYTES("all is well up to here\0"), "byte 22 is NUL"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        check_refused(fixture_bytes("a.txt", cases[i].bytes, cases[i].size), cases[i].words);
        check_refused(fixture_bytes("a.jsonl", cases[i].bytes, cases[i].size), cases[i].words);
    }
    char tar[512];
    memset(tar, 'x', sizeof tar);
    memcpy(tar + 257, "ustar", 5);
    check_refused(fixture_bytes("a.txt", tar, sizeof tar), "tar archive");
    check_refused(fixture_text("b.jsonl", "[{\"text\": \"a\"},\n {\"text\": \"b\"}]\n"),
                  "ends with .json");
    check_refused(fixture_text("c.jsonl", "[\n {\"text\": \"b\"}\n]\n"), "ends with .json");
}

/* `size` bytes of which every `every`-th is invalid UTF-8; 0: none. */
static const char *with_bad(size_t size, size_t every)
{
    char *text = malloc(size);
    CHECK(text != NULL);
    for (size_t i = 0; i < size; ++i) text[i] = every && i % every == every - 1 ? '\xE4' : 'a';
    const char *path = fixture_bytes("bad.txt", text, size);
    free(text);
    return path;
}

static void check_utf8(void)
{
    check_tokens(with_bad(100, 100), 100);
    check_refused(with_bad(99, 99), "not UTF-8");
    check_tokens(with_bad(3 << 20, 100), 3 << 20);
    check_refused(with_bad(3 << 20, 99), "not UTF-8");
    check_refused(with_bad(3 << 20, 2), "iconv -f LATIN1");
    /* Characters across the border of two 1 MiB pieces are valid. */
    size_t size = (3 << 20) + 1;
    char *text = malloc(size);
    CHECK(text != NULL);
    text[0] = 'a';
    for (size_t i = 1; i < size; i += 2) memcpy(text + i, "\xC3\xA4", 2);
    check_tokens(fixture_bytes("umlauts.txt", text, size), (int64_t)size);
    text[1] = 'a';
    for (size_t i = 2; i + 2 < size; i += 3) memcpy(text + i, "\xE2\x82\xAC", 3);
    check_tokens(fixture_bytes("euros.txt", text, size), (int64_t)size);
    free(text);
}

int main(void)
{
    fixture_create();
    check_names();
    check_magic();
    check_utf8();
    return 0;
}
