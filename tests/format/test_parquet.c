/* Parquet files written by pyarrow have the rows that pyarrow reads, in every encoding,
   compression, version and size of pages; other files are refused with a one-line error. */
#include "base/text.h"
#include "check.h"
#include "format/parquet/parquet.h"
#include "io/file.h"

#include <unistd.h>

#define GOLDEN HIL_TESTS "/golden/parquet/"

enum { KEYS = 32 };

/* Chooses all columns. */
static void select_all(hil_parquet *file, size_t row_max)
{
    const char *keys[KEYS];
    size_t count = 0, at = 0;
    while ((keys[count] = hil_parquet_key(file, &at))) CHECK(++count < KEYS);
    CHECK_OK(hil_parquet_select(file, keys, count, row_max));
}

static char *slurp(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    CHECK(file != NULL && fseek(file, 0, SEEK_END) == 0);
    long end = ftell(file);
    rewind(file);
    *size = (size_t)end;
    char *bytes = malloc(*size + 1);
    CHECK(bytes != NULL && fread(bytes, 1, *size, file) == *size);
    bytes[*size] = 0;
    fclose(file);
    return bytes;
}

/* Reads all rows; `expected` are lines of JSON. */
static void check_rows(hil_parquet *file, const char *expected, const char *path)
{
    json_t *row;
    int64_t count = 0;
    select_all(file, 1 << 20);
    for (;; ++count) {
        CHECK_OK(hil_parquet_next(file, &row));
        if (!row) break;
        const char *end = strchr(expected, '\n');
        if (!end) check_die(path, (int)count, "more rows than expected");
        json_t *right = json_loadb(expected, (size_t)(end - expected), JSON_ALLOW_NUL, NULL);
        CHECK(right != NULL);
        if (!json_equal(row, right)) {
            fprintf(stderr, "%s\n%.*s\n", json_dumps(row, 0), (int)(end - expected), expected);
            check_die(path, (int)count, "another row than expected");
        }
        json_decref(right);
        json_decref(row);
        expected = end + 1;
    }
    if (*expected) check_die(path, (int)count, "fewer rows than expected");
    CHECK_INT(hil_parquet_rows(file), count);
}

/* A file NAME-VARIANT.parquet, opened and from memory. */
static hil_status check_file(void *context, const char *folder, const char *name)
{
    int *files = context;
    char path[512], rows_path[512];
    const char *dash = strchr(name, '-');
    if (!dash || !hil_text_ends_with(name, ".parquet")) return HIL_OK;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    snprintf(rows_path, sizeof rows_path, "%s/%.*s.jsonl", folder, (int)(dash - name), name);
    size_t size, rows_size;
    char *rows = slurp(rows_path, &rows_size), *bytes = slurp(path, &size);
    hil_parquet *file;
    CHECK_OK(hil_parquet_open(&file, path));
    check_rows(file, rows, name);
    hil_parquet_close(file);
    CHECK_OK(hil_parquet_parse(&file, bytes, size, "memory"));
    check_rows(file, rows, name);
    hil_parquet_close(file);
    free(bytes);
    free(rows);
    ++*files;
    return HIL_OK;
}

/* All rows, or the failure of any step. */
static hil_status read_all(const char *bytes, size_t size, const char *key)
{
    hil_parquet *file;
    json_t *row = NULL;
    hil_status status = hil_parquet_parse(&file, bytes, size, "t.parquet");
    if (status == HIL_OK) status = hil_parquet_select(file, &key, 1, 1 << 20);
    while (status == HIL_OK) {
        status = hil_parquet_next(file, &row);
        if (!row) break;
        json_decref(row);
    }
    hil_parquet_close(file);
    return status;
}

static void check_refused(const char *name, const char *key, const char *words)
{
    size_t size;
    char path[512];
    snprintf(path, sizeof path, GOLDEN "%s", name);
    char *bytes = slurp(path, &size);
    CHECK_FAILS(read_all(bytes, size, key), HIL_ERR_INPUT, words);
    free(bytes);
}

static void check_refusals(void)
{
    check_refused("bad_brotli.parquet", "text", "column \"text\" is compressed with BROTLI");
    check_refused("bad_brotli.parquet", "text", "compression='zstd'");
    check_refused("bad_lz4.parquet", "text", "LZ4_RAW; zstd, Snappy and gzip are read");
    check_refused("bad_split.parquet", "f", "column \"f\" has the encoding BYTE_STREAM_SPLIT");
    check_refused("bad_shared.parquet", "group", "\"group.b\": it has bytes of another one");
    check_refused("bad_kinds.parquet", "map", "column \"map\" is a map");
    check_refused("bad_kinds.parquet", "date", "\"date\" holds neither text nor numbers");
    check_refused("bad_kinds.parquet", "decimal", "\"decimal\" holds neither text nor numbers");
    check_refused("bad_kinds.parquet", "picture", "\"picture\" holds neither text nor numbers");
    check_refused("bad_kinds.parquet", "large", "row 1: column \"large\" has a number of more");
    check_refused("bad_kinds.parquet", "bytes", "row 1: column \"bytes\" is not UTF-8");
    CHECK_FAILS(read_all("", 0, "text"), HIL_ERR_INPUT, "t.parquet is not a Parquet file");
    CHECK_FAILS(read_all("plain text", 10, "text"), HIL_ERR_INPUT, "is not a Parquet file");
    CHECK_FAILS(read_all("PAR1PAR1", 8, "text"), HIL_ERR_INPUT, "cut off");
    CHECK_FAILS(read_all("PAR1\1\0\0\0PAR1", 12, "text"), HIL_ERR_INPUT, "the footer is not");
    CHECK_FAILS(read_all("PAR1\0\0\0\0PAR1", 12, "text"), HIL_ERR_INPUT, "the footer is not");
    CHECK_FAILS(read_all("PARE\0\0\0\0PARE", 12, "text"), HIL_ERR_INPUT, "is encrypted");
}

/* A column that is not chosen may be one that cannot be read. */
static void check_selection(void)
{
    static const char *const keys[] = {"text", "missing"};
    hil_parquet *file;
    json_t *row;
    CHECK_OK(hil_parquet_open(&file, GOLDEN "bad_split.parquet"));
    CHECK_OK(hil_parquet_select(file, keys, 2, 100));
    CHECK_OK(hil_parquet_next(file, &row));
    CHECK_TEXT(json_string_value(json_object_get(row, "text")), "abc");
    CHECK_INT(json_object_size(row), 1);
    json_decref(row);
    hil_parquet_close(file);
    CHECK_OK(hil_parquet_open(&file, GOLDEN "bad_split.parquet"));
    CHECK_OK(hil_parquet_select(file, keys, 2, 18));
    CHECK_FAILS(hil_parquet_next(file, &row), HIL_ERR_INPUT, "row 1: column \"text\" makes it lon");
    hil_parquet_close(file);
}

/* Cut off at any byte, or with any byte changed: refused, or read, but never worse; where pages
   have checksums, a changed page is refused. */
static void check_damage(const char *name, const char *key)
{
    char path[512];
    size_t size;
    snprintf(path, sizeof path, GOLDEN "%s", name);
    char *bytes = slurp(path, &size), *copy;
    int refused = 0;
    for (size_t keep = 0; keep < size; ++keep) {
        copy = malloc(keep + 1); /* exact, so that sanitizers see what is read behind it */
        CHECK(copy != NULL);
        memcpy(copy, bytes, keep);
        CHECK(read_all(copy, keep, key) == HIL_ERR_INPUT);
        CHECK(strchr(hil_status_message(), '\n') == NULL);
        free(copy);
    }
    for (size_t i = 0; i < size; ++i) {
        for (int bit = 0; bit < 8; bit += 3) {
            bytes[i] = (char)(bytes[i] ^ 1 << bit);
            hil_status status = read_all(bytes, size, key);
            CHECK(status == HIL_OK || status == HIL_ERR_INPUT);
            refused += status != HIL_OK;
            bytes[i] = (char)(bytes[i] ^ 1 << bit);
        }
    }
    CHECK(refused > (int)size / 2);
    free(bytes);
}

/* Each allocation fails once. */
static void check_memory(const char *name, const char *key)
{
    char path[512];
    size_t size;
    snprintf(path, sizeof path, GOLDEN "%s", name);
    char *bytes = slurp(path, &size);
    for (long n = 1;; ++n) {
        hil_alloc_fail_at(n);
        hil_status status = read_all(bytes, size, key);
        hil_alloc_fail_at(0);
        if (status == HIL_OK) break;
        CHECK(status == HIL_ERR_MEMORY && n < 1000);
    }
    free(bytes);
}

int main(void)
{
    int files = 0;
    CHECK_OK(hil_dir_each(GOLDEN ".", HIL_MISSING_FAILS, check_file, &files));
    CHECK(files >= 35);
    check_refusals();
    check_selection();
    check_damage("texts-snappy-v1.parquet", "text");
    check_damage("texts-deltabytes.parquet", "text");
    check_damage("texts-zstd-v2-pages.parquet", "text");
    check_damage("chats-gzip-v2.parquet", "messages");
    check_damage("oldpair-a.parquet", "messages");
    check_memory("chats-zstd-v1-pages.parquet", "messages");
    check_memory("texts-deltabytes.parquet", "text");
    return 0;
}
