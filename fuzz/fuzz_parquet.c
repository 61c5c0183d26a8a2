/* fuzz_parquet.c - any bytes as a Parquet file: parsed or refused, and every column read or
   refused; twice the same, and within the limit of a row. */
#include "base/hash.h"
#include "format/parquet/parquet.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t most, unsigned seed);

enum { KEYS = 6, ROWS = 2000, ROW_MAX = 1 << 16, TAIL = 8 };

/* Changes the footer or what is before it, and says where the footer begins now. */
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t most, unsigned seed)
{
    uint32_t footer;
    if (size < TAIL + 4 || seed % 8 == 0) return LLVMFuzzerMutate(bytes, size, most);
    memcpy(&footer, bytes + size - TAIL, 4);
    if (footer > size - TAIL - 4) return LLVMFuzzerMutate(bytes, size, most);
    size_t begin = size - TAIL - footer;
    if (seed % 8 < 4) { /* in place, so that offsets stay right */
        size_t at = seed % 8 < 2 ? 4 : begin, end = at == 4 ? begin : size - TAIL;
        size_t room = end - at < 64 ? end - at : 64;
        if (room == 0) return LLVMFuzzerMutate(bytes, size, most);
        at += seed / 8 % (end - at - room + 1);
        uint8_t part[64];
        memcpy(part, bytes + at, room);
        LLVMFuzzerMutate(part, room, room);
        memcpy(bytes + at, part, room);
        return size;
    }
    uint8_t *tail = malloc(most);
    if (!tail) return size;
    memcpy(tail, bytes + begin, footer);
    size_t now = LLVMFuzzerMutate(tail, footer, most - begin - TAIL);
    memcpy(bytes + begin, tail, now);
    free(tail);
    footer = (uint32_t)now;
    memcpy(bytes + begin + now, &footer, 4);
    memcpy(bytes + begin + now + 4, "PAR1", 4);
    return begin + now + TAIL;
}

/* Reads the rows with these keys; their hash, and that of the error. */
static uint64_t read_rows(const uint8_t *bytes, size_t size, const char *const *keys, size_t count)
{
    hil_parquet *file;
    json_t *row = NULL;
    uint64_t hash = 0;
    hil_status status = hil_parquet_parse(&file, (const char *)bytes, size, "input");
    if (status == HIL_OK) status = hil_parquet_select(file, keys, count, ROW_MAX);
    for (int i = 0; i < ROWS && status == HIL_OK; ++i) {
        status = hil_parquet_next(file, &row);
        if (!row) break;
        if (status != HIL_OK || json_object_size(row) > count) __builtin_trap();
        char *text = json_dumps(row, JSON_ENCODE_ANY);
        if (!text) __builtin_trap();
        hash = hil_hash(hash, text, strlen(text));
        free(text);
        json_decref(row);
    }
    if (status != HIL_OK && status != HIL_ERR_INPUT) __builtin_trap();
    if (status != HIL_OK) hash = hil_hash(hash, hil_status_message(), strlen(hil_status_message()));
    hil_parquet_close(file);
    return hash;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    hil_parquet *file;
    if (hil_parquet_parse(&file, (const char *)bytes, size, "input") != HIL_OK) return 0;
    const char *keys[KEYS];
    size_t count = 0, at = 0;
    while (count < KEYS && (keys[count] = hil_parquet_key(file, &at))) ++count;
    uint64_t all = read_rows(bytes, size, keys, count);
    if (all != read_rows(bytes, size, keys, count)) __builtin_trap();
    for (size_t i = 0; i < count; ++i) read_rows(bytes, size, &keys[i], 1);
    hil_parquet_close(file);
    return 0;
}
