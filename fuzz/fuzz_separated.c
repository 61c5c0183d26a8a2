/* fuzz_separated.c - any bytes as a table of text: the same rows or refusal however they are cut.
 */
#include "base/hash.h"
#include "data/separated.h"
#include "pieces.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static hil_status read_rows(hil_separated *csv, uint64_t *hash)
{
    const char *keys[4] = {NULL};
    size_t at = 0, count = 0;
    for (const char *key; count < 4 && (key = hil_separated_key(csv, &at));) keys[count++] = key;
    HIL_TRY(hil_separated_select(csv, keys, count, 4096));
    for (;;) {
        json_t *row;
        HIL_TRY(hil_separated_next(csv, &row));
        if (!row) return HIL_OK;
        char *text = json_dumps(row, JSON_SORT_KEYS);
        if (!text || json_object_size(row) != count) __builtin_trap();
        *hash = hil_hash(*hash ^ (uint64_t)hil_separated_number(csv), text, strlen(text));
        free(text);
        json_decref(row);
    }
}

static hil_status feed(const uint8_t *bytes, size_t size, size_t piece, uint64_t *hash)
{
    const hil_separated_text text = {(const char *)bytes, size, piece, "input",
                                     size % 2 ? ',' : '\t'};
    hil_separated *csv;
    HIL_TRY(hil_separated_parse(&csv, &text));
    hil_status status = read_rows(csv, hash);
    hil_separated_close(csv);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    fuzz_pieces(bytes, size, feed);
    return 0;
}
