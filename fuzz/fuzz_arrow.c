/* fuzz_arrow.c - any bytes as an Arrow file: parsed or refused, and every column read or refused;
   twice the same, and within the limit of a row. */
#include "base/hash.h"
#include "format/arrow/arrow.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { KEYS = 6, ROWS = 500, ROW_MAX = 1 << 14 };

static void add(uint64_t *hash, const char *text)
{
    *hash = hil_hash(*hash, text, strlen(text));
}

static hil_status read_some(hil_arrow *file, const char *const *keys, size_t count, uint64_t *hash)
{
    json_t *row;
    HIL_TRY(hil_arrow_select(file, keys, count, ROW_MAX));
    for (int i = 0; i < ROWS; ++i) {
        HIL_TRY(hil_arrow_next(file, &row));
        if (!row) return HIL_OK;
        char *text = json_dumps(row, 0);
        if (!text || json_object_size(row) > count) __builtin_trap();
        add(hash, text);
        free(text);
        json_decref(row);
    }
    return HIL_OK;
}

/* The hash of the rows with these keys and of the error. */
static uint64_t read_rows(const uint8_t *bytes, size_t size, const char *const *keys, size_t count)
{
    hil_arrow *file;
    uint64_t hash = 0;
    if (hil_arrow_parse(&file, (const char *)bytes, size, "input") != HIL_OK) __builtin_trap();
    hil_status status = read_some(file, keys, count, &hash);
    hil_arrow_close(file);
    if (status != HIL_OK && status != HIL_ERR_INPUT) __builtin_trap();
    if (status != HIL_OK) add(&hash, hil_status_message());
    return hash;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    hil_arrow *file;
    if (hil_arrow_parse(&file, (const char *)bytes, size, "input") != HIL_OK) return 0;
    const char *keys[KEYS], *key;
    size_t count = 0;
    for (size_t at = 0; count < KEYS && (key = hil_arrow_key(file, &at));) {
        keys[count++] = key;
        read_rows(bytes, size, &key, 1);
    }
    uint64_t all = read_rows(bytes, size, keys, count);
    if (all != read_rows(bytes, size, keys, count)) __builtin_trap();
    hil_arrow_close(file);
    return 0;
}
