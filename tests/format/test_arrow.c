/* Arrow files written by pyarrow have the rows that pyarrow reads: streams and files, in batches,
   compressed, with dictionaries and long offsets; other files are refused with a one-line error. */
#include "base/json.h"
#include "check.h"
#include "format/arrow/arrow.h"
#include "io/file.h"

#define GOLDEN HIL_TESTS "/golden/arrow/"

enum { KEYS = 32 };

/* The rows of a set of tables, as lines of JSON. */
static json_t *read_lines(const char *name)
{
    char path[512];
    hil_bytes bytes;
    json_t *rows = json_array(), *row;
    int size = (int)strcspn(name, "-");
    snprintf(path, sizeof path, GOLDEN "%.*s.jsonl", size, name);
    if (!hil_file_exists(path))
        snprintf(path, sizeof path, HIL_TESTS "/golden/parquet/%.*s.jsonl", size, name);
    CHECK_OK(hil_bytes_read(&bytes, path));
    for (size_t at = 0; at < bytes.size; ++at) {
        size_t begin = at;
        while (bytes.data[at] != '\n') ++at;
        row = json_loadb(bytes.data + begin, at - begin, JSON_ALLOW_NUL, NULL);
        CHECK(row && json_array_append_new(rows, row) == 0);
    }
    hil_bytes_free(&bytes);
    return rows;
}

static void check_rows(hil_arrow *file, json_t *wanted, const char *name)
{
    const char *keys[KEYS] = {"text"}, *key;
    json_t *row, *value;
    size_t count = 0, r = 0;
    json_object_foreach(json_array_get(wanted, 0), key, value) keys[count++] = key;
    CHECK(count <= KEYS);
    CHECK_OK(hil_arrow_select(file, keys, count ? count : 1, 1 << 20));
    for (;; ++r) {
        CHECK_OK(hil_arrow_next(file, &row));
        if (!row) break;
        if (!json_equal(row, json_array_get(wanted, r))) {
            fprintf(stderr, "%s\n", json_dumps(row, 0));
            check_die(name, (int)r, "another row than expected");
        }
        json_decref(row);
        CHECK_INT(hil_arrow_number(file), r + 1);
    }
    CHECK_INT(r, json_array_size(wanted));
    CHECK(hil_arrow_done(file) > 0.5);
}

/* A file NAME-VARIANT.arrow, opened and from memory. */
static hil_status check_file(void *context, const char *folder, const char *name)
{
    hil_arrow *file;
    char path[512];
    hil_bytes bytes;
    if (!strchr(name, '-')) return HIL_OK;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    json_t *wanted = read_lines(name);
    CHECK_OK(hil_arrow_open(&file, path));
    check_rows(file, wanted, name);
    hil_arrow_close(file);
    CHECK_OK(hil_bytes_read(&bytes, path));
    CHECK_OK(hil_arrow_parse(&file, bytes.data, bytes.size, "memory"));
    check_rows(file, wanted, name);
    hil_arrow_close(file);
    hil_bytes_free(&bytes);
    json_decref(wanted);
    ++*(int *)context;
    return HIL_OK;
}

/* All rows with one column, or the failure of any step. */
static hil_status read_all(const char *bytes, size_t size, const char *key, size_t row_max)
{
    hil_arrow *file;
    json_t *row = NULL;
    hil_status status = hil_arrow_parse(&file, bytes, size, "t.arrow");
    if (status == HIL_OK) status = hil_arrow_select(file, &key, 1, row_max);
    for (int r = 0; status == HIL_OK && r < 200; ++r) {
        status = hil_arrow_next(file, &row);
        if (!row) break;
        json_decref(row);
    }
    hil_arrow_close(file);
    return status;
}

static void refuse(const char *name, const char *key, const char *words)
{
    hil_bytes bytes;
    char path[512];
    snprintf(path, sizeof path, GOLDEN "%s.arrow", name);
    CHECK_OK(hil_bytes_read(&bytes, path));
    CHECK_FAILS(read_all(bytes.data, bytes.size, key, 99), HIL_ERR_INPUT, words);
    hil_bytes_free(&bytes);
}

static void put(char *at, uint32_t number)
{
    memcpy(at, &number, sizeof number);
}

/* A stream with a schema of `count` columns, all of which are one field with a long name. */
static hil_status open_shared(uint32_t count)
{
    enum { NAME = 1000, LIST = 48, MOST = 64 };
    /* Offsets of the fields of a message, a schema and a field: 0 has none. */
    static const uint16_t message[] = {10, 12, 4, 6, 8}, schema[] = {8, 8, 0, 4},
                          field[] = {10, 12, 4, 0, 8};
    char bytes[8 + LIST + 4 * MOST + 28 + NAME + 4] = "\xff\xff\xff\xff";
    char *m = bytes + 8;
    uint32_t at = LIST + 4 * count, size = at + 28 + NAME;
    hil_arrow *file;
    put(bytes + 4, size);
    put(m, 16);
    memcpy(m + 4, message, sizeof message);
    put(m + 16, 12);
    put(m + 20, 4 | 1 << 16); /* version and type */
    put(m + 24, 36 - 24);
    memcpy(m + 28, schema, sizeof schema);
    put(m + 36, 8);
    put(m + 40, 44 - 40);
    put(m + 44, count);
    for (uint32_t i = 0; i < count; ++i) put(m + LIST + 4 * i, at + 12 - (LIST + 4 * i));
    memcpy(m + at, field, sizeof field);
    put(m + at + 12, 12);
    put(m + at + 16, 8);
    put(m + at + 20, 1); /* a column of nulls */
    put(m + at + 24, NAME);
    memset(m + at + 28, 'n', NAME);
    hil_status status = hil_arrow_parse(&file, bytes, 8 + size, "t.arrow");
    hil_arrow_close(file);
    return status;
}

static void check_refusals(void)
{
    static const char *const skipped[] = {"date",  "view",  "listview", "runs",
                                          "union", "dense", "fixed",    "decimal"};
    refuse("refused_lz4", "text", "is compressed with LZ4, which is not read: write it with");
    refuse("refused_rows", "text", "has a batch of 4611686018427387904 rows without any value");
    refuse("refused_shared", "group", "the description of a batch is not valid");
    refuse("refused_delta", "text", "has a dictionary in several parts");
    refuse("refused_bytes", "text", "row 1: column \"text\" is not UTF-8");
    refuse("refused_bytes", "big", "row 1: column \"big\" has a number of more than 63 bits");
    refuse("texts-stream", "text", "row 50: column \"text\" makes it longer than 99 B");
    CHECK_OK(open_shared(1));
    CHECK_FAILS(open_shared(64), HIL_ERR_INPUT, "its schema is not valid");
    refuse("odd-stream", "map", "column \"map\" is or has a map");
    for (size_t i = 0; i < sizeof skipped / sizeof *skipped; ++i)
        refuse("odd-stream", skipped[i], "holds neither text nor numbers");
    CHECK_FAILS(read_all("", 0, "text", 99), HIL_ERR_INPUT, "t.arrow is not an Arrow file");
    CHECK_FAILS(read_all("plain text", 10, "text", 99), HIL_ERR_INPUT, "is not an Arrow file");
    CHECK_FAILS(read_all("ARROW1\0\0", 8, "text", 99), HIL_ERR_INPUT, "cut off");
    CHECK_FAILS(read_all("\xff\xff\xff\xff\0\0\0\0", 8, "text", 99), HIL_ERR_INPUT,
                "does not begin with a schema");
    CHECK_FAILS(read_all("\xff\xff\xff\xff\xff\xff\xff\xff", 8, "text", 99), HIL_ERR_INPUT,
                "cut off");
}

/* Cut off at any byte of a stream, it is refused; with any byte changed it is refused or read. */
static void check_damage(const char *name, const char *key)
{
    char path[512];
    hil_bytes bytes;
    snprintf(path, sizeof path, GOLDEN "%s.arrow", name);
    CHECK_OK(hil_bytes_read(&bytes, path));
    for (size_t keep = 0; keep < bytes.size; keep += CHECK_SLOW ? 29 : 5) {
        char *copy = malloc(keep + 1); /* exact, so that sanitizers see what is read behind it */
        CHECK(copy != NULL);
        memcpy(copy, bytes.data, keep);
        CHECK(read_all(copy, keep, key, 1 << 16) == HIL_ERR_INPUT);
        CHECK(strchr(hil_status_message(), '\n') == NULL);
        free(copy);
    }
    for (size_t i = 0; i < bytes.size; i += CHECK_SLOW ? 17 : 3) {
        int bit = (int)(i % 8);
        bytes.data[i] = (char)(bytes.data[i] ^ 1 << bit);
        hil_status status = read_all(bytes.data, bytes.size, key, 1 << 12);
        CHECK(status == HIL_OK || status == HIL_ERR_INPUT);
        bytes.data[i] = (char)(bytes.data[i] ^ 1 << bit);
    }
    hil_bytes_free(&bytes);
}

static void check_memory(const char *name, const char *key)
{
    char path[512];
    hil_bytes bytes;
    snprintf(path, sizeof path, GOLDEN "%s.arrow", name);
    CHECK_OK(hil_bytes_read(&bytes, path));
    CHECK_MEMORY(read_all(bytes.data, bytes.size, key, 1 << 16));
    hil_bytes_free(&bytes);
}

int main(void)
{
    int files = 0;
    CHECK_OK(hil_dir_each(GOLDEN ".", HIL_MISSING_FAILS, check_file, &files));
    CHECK(files >= 24);
    check_refusals();
    check_damage("texts-coded", "text");
    check_damage("chats-zstd", "messages");
    check_damage("odd-stream", "deep");
    check_damage("odd-stream", "tags");
    check_memory("chats-zstd", "messages");
    check_memory("odd-stream", "tags");
    return 0;
}
