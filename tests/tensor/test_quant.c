/* nf4 gives the codes, scales, nested scales, offset and expanded numbers of bitsandbytes, bit for
   bit; int8 its codes and scales. e4m3 rounds every number to its nearest value. Every format
   expands a part of a tile as it expands the whole, and no number is further off than its step. */
#include "../golden.h"
#include "base/philox.h"
#include "tensor/quant.h"

/* Tensor `kind` of a matrix; hil_free it. */
static void *part_of(const hil_safetensors *file, const char *name, const char *kind,
                     int64_t *count)
{
    char key[64];
    snprintf(key, sizeof key, "%s.%s", name, kind);
    const hil_entry *entry = hil_safetensors_find(file, key);
    if (!entry) return NULL;
    char *bytes;
    CHECK_OK(HIL_ALLOC(entry->bytes, &bytes));
    CHECK_OK(hil_entry_read(entry, 0, bytes, entry->bytes));
    *count = 1;
    for (int i = 0; i < entry->ndim; ++i) *count *= entry->dim[i];
    return bytes;
}

static void check_same(const hil_safetensors *file, const char *name, const char *kind,
                       const void *got, size_t size)
{
    int64_t count;
    char *expected = part_of(file, name, kind, &count);
    CHECK(expected != NULL);
    for (int64_t i = 0; i < count; ++i)
        if (memcmp(expected + (size_t)i * size, (const char *)got + (size_t)i * size, size) != 0) {
            printf("%s.%s: element %lld of %lld differs\n", name, kind, (long long)i,
                   (long long)count);
            exit(1);
        }
    hil_free(expected);
}

static float *read_matrix(const hil_safetensors *file, const char *name, int64_t *rows,
                          int64_t *cols)
{
    char key[64];
    hil_dtype dtype;
    int64_t count;
    snprintf(key, sizeof key, "%s.in", name);
    const hil_entry *entry = hil_safetensors_find(file, key);
    CHECK_OK(hil_entry_dtype(entry, &dtype));
    *rows = entry->dim[0];
    *cols = entry->dim[1];
    void *in = part_of(file, name, "in", &count);
    float *numbers;
    CHECK_OK(HIL_ALLOC(count, &numbers));
    hil_dtype_to_f32(numbers, in, dtype, count);
    hil_free(in);
    return numbers;
}

/* The bytes of a tile that is the whole matrix. */
static char *make_tile(const hil_quant_tile *tile, const float *in, float *scale)
{
    int64_t count = tile->rows * tile->cols;
    char *bytes;
    CHECK_OK(HIL_ALLOC(tile->bytes, &bytes));
    hil_quant_part part = {tile->quant, count, tile->cols, in, (unsigned char *)bytes + tile->codes,
                           scale};
    hil_quant_encode(&part);
    if (tile->quant == HIL_QUANT_NF4 || tile->quant == HIL_QUANT_NF4_PLAIN)
        memcpy(bytes, hil_quant_nf4_table, sizeof hil_quant_nf4_table);
    if (tile->quant != HIL_QUANT_NF4) {
        memcpy(bytes + tile->scales, scale, tile->codes - tile->scales);
        return bytes;
    }
    float offset = hil_quant_mean(scale, tile->blocks);
    memcpy(bytes + tile->nested_table, hil_quant_nest_table, sizeof hil_quant_nest_table);
    memcpy(bytes + tile->nested_table + sizeof hil_quant_nest_table, &offset, sizeof offset);
    for (int64_t b = 0; b < tile->blocks; b += HIL_QUANT_NESTED) {
        int64_t n = tile->blocks - b < HIL_QUANT_NESTED ? tile->blocks - b : HIL_QUANT_NESTED;
        float nested =
            hil_quant_nest(scale + b, n, offset, (unsigned char *)bytes + tile->scales + b);
        memcpy(bytes + tile->nested + (size_t)(b / HIL_QUANT_NESTED) * 4, &nested, 4);
    }
    return bytes;
}

static void check_matrix(const hil_safetensors *file, const char *name)
{
    static const char *const dtypes[] = {"fp32", "bf16", "fp16"};
    int64_t rows, cols, unused;
    float *in = read_matrix(file, name, &rows, &cols), *scale, *out;
    hil_quant_tile tile;
    hil_quant_place(&tile, HIL_QUANT_NF4, 0, rows, cols);
    CHECK_OK(HIL_ALLOC(tile.blocks + rows, &scale));
    CHECK_OK(HIL_ALLOC(rows * cols, &out));
    char *bytes = make_tile(&tile, in, scale);
    check_same(file, name, "codes", bytes + tile.codes, 1);
    check_same(file, name, "absmax", scale, 4);
    check_same(file, name, "offset", bytes + tile.nested_table + sizeof hil_quant_nest_table, 4);
    check_same(file, name, "nested", bytes + tile.nested, 4);
    check_same(file, name, "scales", bytes + tile.scales, 1);
    for (int d = HIL_F32; d <= HIL_F16; ++d) {
        hil_tensor numbers = {(hil_dtype)d, {1, {rows * cols}}, out};
        hil_quant_expand(&tile, bytes, 0, rows * cols, &numbers);
        void *expected = part_of(file, name, dtypes[d], &unused);
        if (expected) check_same(file, name, dtypes[d], out, d == HIL_F32 ? 4 : 2);
        hil_free(expected);
    }
    void *int8 = part_of(file, name, "int8", &unused);
    if (int8) {
        hil_quant_place(&tile, HIL_QUANT_INT8, 0, rows, cols);
        hil_free(bytes);
        bytes = make_tile(&tile, in, scale);
        check_same(file, name, "int8", bytes + tile.codes, 1);
        check_same(file, name, "SCB", scale, 4);
    }
    hil_free(int8);
    hil_free(bytes);
    hil_free(scale);
    hil_free(in);
    hil_free(out);
}

/* Every fp32 number near a value or a border between two of them. */
static void check_e4m3(void)
{
    for (unsigned code = 0; code < 256; ++code) {
        float value = hil_quant_e4m3_load(code);
        if ((code & 0x7f) == 0x7f) {
            CHECK(isnan(value));
            continue;
        }
        CHECK_INT(hil_quant_e4m3_round(value), code);
        if ((code & 0x7f) == 0x7e) continue;
        float next = hil_quant_e4m3_load(code + 1), half = (value + next) / 2;
        CHECK_INT(hil_quant_e4m3_round(half), code + (code & 1)); /* to even */
        CHECK_INT(hil_quant_e4m3_round(nextafterf(half, value)), code);
        CHECK_INT(hil_quant_e4m3_round(nextafterf(half, next)), code + 1);
    }
    CHECK_INT(hil_quant_e4m3_round(1e30f), 0x7e);
    CHECK_INT(hil_quant_e4m3_round(-500), 0xfe);
    CHECK(hil_quant_e4m3_load(0x7e) == HIL_QUANT_E4M3_MOST);
}

/* Random numbers in a tile that begins in the middle of a nested block, expanded in parts. */
static void check_parts(hil_quant quant, int64_t row, int64_t rows, int64_t cols, float error)
{
    hil_quant_tile tile;
    float *in, *scale, *whole, *parts, most = 0;
    int64_t count = rows * cols;
    hil_quant_place(&tile, quant, 0, rows, cols);
    CHECK_OK(HIL_ALLOC(count, &in));
    CHECK_OK(HIL_ALLOC(count, &whole));
    CHECK_OK(HIL_ALLOC(count, &parts));
    CHECK_OK(HIL_ALLOC(tile.blocks + rows, &scale));
    for (int64_t i = 0; i < count; ++i) {
        uint32_t word[4];
        hil_philox(11, (uint64_t)i, (uint64_t)quant, word);
        in[i] = hil_philox_unit(word[0]) - 0.5f;
        most = fabsf(in[i]) > most ? fabsf(in[i]) : most;
    }
    char *bytes = make_tile(&tile, in, scale);
    hil_tensor all = {HIL_F32, {1, {count}}, whole};
    hil_quant_expand(&tile, bytes, 0, count, &all);
    for (int64_t i = 0; i < count; ++i) CHECK_NEAR(whole[i], in[i], error * most);
    for (int64_t at = 0; at < count; at += 192) {
        int64_t n = count - at < 192 ? count - at : 192;
        hil_tensor part = {HIL_F32, {1, {n}}, parts + at};
        hil_quant_expand(&tile, bytes, at, n, &part);
    }
    CHECK(memcmp(whole, parts, (size_t)count * 4) == 0);
    /* The same tile further down the matrix has the same size, and expands by its own nested scale
       where its blocks cross into the next one. */
    hil_quant_tile moved;
    hil_quant_place(&moved, quant, row, rows, cols);
    CHECK_INT(moved.bytes, tile.bytes);
    if (quant == HIL_QUANT_NF4) {
        int64_t phase = row * cols / 64 % 256, crossing = (256 - phase) * 64;
        float *nested = (float *)(void *)(bytes + tile.nested);
        nested[1] = 3 * nested[0];
        hil_quant_expand(&moved, bytes, 0, count, &all);
        CHECK(crossing < count && memcmp(whole, parts, (size_t)crossing * 4) == 0);
        CHECK(memcmp(whole + crossing, parts + crossing, (size_t)(count - crossing) * 4) != 0);
    }
    hil_free(bytes);
    hil_free(scale);
    hil_free(parts);
    hil_free(whole);
    hil_free(in);
}

int main(void)
{
    static const char *const names[] = {"bf16", "fp32", "odd", "zeros", "small"};
    hil_safetensors *file;
    CHECK_OK(hil_safetensors_open(&file, HIL_TESTS "/golden/formats/quant.safetensors"));
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i) check_matrix(file, names[i]);
    hil_safetensors_close(file);
    check_e4m3();
    check_parts(HIL_QUANT_NF4, 64 * 3, 64, 250, 0.16f);
    check_parts(HIL_QUANT_NF4_PLAIN, 64, 64, 51, 0.16f);
    check_parts(HIL_QUANT_INT8, 64, 64, 51, 0.6f / 127);
    check_parts(HIL_QUANT_FP8, 128, 200, 300, 0.04f);
    check_parts(HIL_QUANT_BF16, 64, 64, 51, 1.0f / 256);
    return 0;
}
