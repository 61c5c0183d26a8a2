/* mutate_tensors.c - safetensors and .npy files whose length fields and bodies follow their
 * headers. */
#include "mutate.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER = 1 << 16 };

static size_t pick(uint64_t *state, size_t below)
{
    return below ? (size_t)(mutate_next(state) % below) : 0;
}

static void put_little(uint8_t *to, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; ++i) to[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get_little(const uint8_t *from, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; ++i) value |= (uint64_t)from[i] << (8 * i);
    return value;
}

/* The largest number after any "data_offsets" of the header. */
static size_t body_of(const char *header)
{
    unsigned long long largest = 0;
    for (const char *at = header; (at = strstr(at, "\"data_offsets\"")); ++at) {
        unsigned long long begin = 0, end = 0;
        if (sscanf(at + 14, " : [ %llu , %llu", &begin, &end) == 2 && end > largest) largest = end;
    }
    return largest > SIZE_MAX / 2 ? SIZE_MAX / 2 : (size_t)largest;
}

/* Header and a body of `body` bytes, as much as there is room for; the length is now and then
 * wrong.
 */
static size_t assemble(uint8_t *bytes, size_t most, const char *header, size_t body,
                       uint64_t *state)
{
    size_t length = strlen(header);
    if (most < 8 || length > most - 8) length = most < 8 ? 0 : most - 8;
    if (most < 8) return 0;
    uint64_t said = pick(state, 16) ? length : length + pick(state, 5) - 2;
    if (!pick(state, 64)) said = (uint64_t)1 << pick(state, 64);
    put_little(bytes, said, 8);
    memcpy(bytes + 8, header, length);
    if (!pick(state, 8)) body += pick(state, 5) - 2;
    if (body > most - 8 - length) body = most - 8 - length;
    memset(bytes + 8 + length, (int)pick(state, 256), body);
    return 8 + length + body;
}

/* Tensors that follow each other as the format wants it, but for one of them perhaps. */
static void compose(char *header, uint64_t *state)
{
    static const struct {
        const char *name;
        size_t bits;
    } dtypes[] = {{"F32", 32}, {"F16", 16}, {"BF16", 16}, {"F64", 64}, {"I8", 8},
                  {"U8", 8},   {"I64", 64}, {"BOOL", 8},  {"F4", 4},   {"F8_E5M2", 8}};
    size_t tensors = pick(state, 5), odd = pick(state, 8), at = 0, offset = 0;
    at += (size_t)snprintf(header, HEADER, "{");
    for (size_t i = 0; i < tensors; ++i) {
        size_t type = pick(state, sizeof dtypes / sizeof *dtypes), rank = pick(state, 4), count = 1;
        at += (size_t)snprintf(header + at, HEADER - at, "%s\"t%zu\":{\"dtype\":\"%s\",\"shape\":[",
                               i ? "," : "", i == odd ? 0 : i, dtypes[type].name);
        for (size_t d = 0; d < rank; ++d) {
            size_t extent = pick(state, 8);
            count *= extent;
            at += (size_t)snprintf(header + at, HEADER - at, "%s%zu", d ? "," : "", extent);
        }
        size_t end = offset + count * dtypes[type].bits / 8 + (i == odd ? pick(state, 3) : 0);
        at += (size_t)snprintf(header + at, HEADER - at, "],\"data_offsets\":[%zu,%zu]}", offset,
                               end);
        offset = end;
    }
    snprintf(header + at, HEADER - at, "}");
}

size_t mutate_safetensors(uint8_t *bytes, size_t size, size_t most, uint64_t seed)
{
    static char header[HEADER + 1];
    uint64_t state = seed, length = size >= 8 ? get_little(bytes, 8) : 0;
    if (pick(&state, 8) == 0) {
        compose(header, &state);
        return assemble(bytes, most, header, body_of(header), &state);
    }
    if (size < 8 || length > size - 8 || length > HEADER || !pick(&state, 8))
        return mutate_bytes(bytes, size, most, state);
    memcpy(header, bytes + 8, (size_t)length);
    size_t changed = mutate_json((uint8_t *)header, (size_t)length, HEADER, state);
    header[changed] = 0;
    size_t body = pick(&state, 4) ? body_of(header) : size - 8 - (size_t)length;
    return assemble(bytes, most, header, body, &state);
}

static const char *const descr[] = {"<i4",  "<i8", "<u2", "<u4", "|u1", "|i1", ">i4",
                                    "<f4",  "<f8", "|b1", "<u8", "=i4", "i4",  "",
                                    "<i16", "|V8", "<i0", "<U4", "|O"};
static const char *const shapes[] = {"()",
                                     "(0,)",
                                     "(1,)",
                                     "(4,)",
                                     "(4)",
                                     "(2, 3)",
                                     "(2,3,)",
                                     "(-1,)",
                                     "(4L,)",
                                     "[4]",
                                     "(9223372036854775807,)",
                                     "(4294967296, 4294967296)",
                                     "(18446744073709551616,)",
                                     "(1,,)",
                                     "( 7 , )",
                                     "(3,\n)",
                                     "(0, 9223372036854775807)"};

/* The dictionary again, with odd values, orders, spaces and keys. */
static size_t compose_npy(uint8_t *bytes, size_t most, uint64_t *state)
{
    char text[512];
    size_t version = pick(state, 8) ? 1 + pick(state, 3) : pick(state, 256);
    size_t head = version == 1 ? 10 : 12;
    int size = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': %s, 'shape': %s%s}",
                        descr[pick(state, sizeof descr / sizeof *descr)],
                        pick(state, 4)   ? "False"
                        : pick(state, 2) ? "True"
                                         : "0",
                        shapes[pick(state, sizeof shapes / sizeof *shapes)],
                        pick(state, 2)   ? ", "
                        : pick(state, 4) ? ""
                                         : ", 'x': 1");
    size_t length = (size_t)size;
    while ((head + length + 1) % 64 && length + 2 < sizeof text) text[length++] = ' ';
    text[length++] = '\n';
    if (head + length > most) return most;
    memcpy(bytes, "\x93NUMPY", 6);
    bytes[6] = (uint8_t)version;
    bytes[7] = 0;
    put_little(bytes + 8, pick(state, 16) ? length : length + pick(state, 5) - 2, head - 8);
    memcpy(bytes + head, text, length);
    size_t body = pick(state, 64);
    if (body > most - head - length) body = most - head - length;
    memset(bytes + head + length, (int)pick(state, 4), body);
    return head + length + body;
}

size_t mutate_npy(uint8_t *bytes, size_t size, size_t most, uint64_t seed)
{
    uint64_t state = seed;
    if (pick(&state, 3) == 0) return compose_npy(bytes, most, &state);
    size_t head = size > 12 && bytes[6] == 1 ? 10 : 12;
    uint64_t length = size > 12 ? get_little(bytes + 8, head - 8) : 0;
    if (size <= 12 || length > size - head || length == 0 || pick(&state, 4) == 0)
        return mutate_bytes(bytes, size, most, state);
    /* Bytes of the dictionary, with its length made right again. */
    size_t changed = mutate_bytes(bytes + head, size - head, most - head, state);
    put_little(bytes + 8, length + changed + head - size, head - 8);
    return head + changed;
}
