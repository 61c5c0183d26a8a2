/* Files of the reference library are read and written byte for byte; damaged ones are refused. */
#include "format/safetensors.h"
#include "in_folder.h"
#include "same_bytes.h"

#include <sys/stat.h>
#include <unistd.h>

#define GOLDEN HIL_TESTS "/golden/formats/mixed.safetensors"
#define ODD "quote\" back\\ \t\u00e9\U0001f600"

static void check_golden(void)
{
    hil_safetensors *file;
    hil_dtype dtype;
    hil_shape shape;
    char text[64];
    CHECK_OK(hil_safetensors_open(&file, GOLDEN));
    CHECK_INT(hil_safetensors_count(file), 7);
    CHECK(hil_safetensors_find(file, "absent") == NULL);

    const hil_entry *entry = hil_safetensors_find(file, "a.float");
    CHECK_OK(hil_entry_dtype(entry, &dtype));
    CHECK_OK(hil_entry_shape(entry, &shape));
    CHECK_INT(dtype, HIL_F32);
    CHECK_INT(shape.ndim, 2);
    CHECK_INT(shape.dim[0], 3);
    CHECK_INT(shape.dim[1], 4);
    CHECK_TEXT(hil_entry_shape_text(entry, text), "[3, 4]");
    float value[12];
    CHECK_OK(hil_entry_read(entry, 0, value, sizeof value));
    for (int i = 0; i < 12; ++i) CHECK(value[i] == (float)i / 8);

    entry = hil_safetensors_find(file, "a.brain");
    CHECK_INT(entry->bytes, 24);
    uint16_t half[12];
    CHECK_OK(hil_entry_read(entry, 0, half, sizeof half));
    hil_dtype_to_f32(value, half, HIL_BF16, 12);
    for (int i = 0; i < 12; ++i) CHECK(value[i] == (float)i / 8);

    entry = hil_safetensors_find(file, "b.half");
    CHECK_OK(hil_entry_read(entry, 0, half, 6));
    hil_dtype_to_f32(value, half, HIL_F16, 3);
    for (int i = 0; i < 3; ++i) CHECK(value[i] == (float)i / 8 - 1);

    CHECK_INT(hil_safetensors_find(file, "scalar")->ndim, 0);
    CHECK_INT(hil_safetensors_find(file, "scalar")->bytes, 4);
    CHECK_TEXT(hil_entry_shape_text(hil_safetensors_find(file, "scalar"), text), "[]");
    CHECK_INT(hil_safetensors_find(file, "empty")->bytes, 0);
    CHECK(hil_safetensors_find(file, ODD) != NULL);
    CHECK_FAILS(hil_entry_dtype(hil_safetensors_find(file, "count"), &dtype), HIL_ERR_INPUT,
                "\"count\" has dtype I32");
    hil_safetensors_close(file);
}

/* Copies the golden file through the writer, its data in pieces of `piece` bytes. */
static hil_status copy_golden(const hil_safetensors *file, const char *path, size_t piece)
{
    hil_safetensors_writer *writing = NULL;
    hil_status status;
    HIL_TRY_DONE(hil_safetensors_writer_create(&writing, path));
    uint64_t promised;
    char part[1024];
    HIL_TRY_DONE(hil_safetensors_writer_metadata(writing, "format", "pt"));
    for (size_t i = hil_safetensors_count(file); i-- > 0;) {
        const hil_entry *entry = hil_safetensors_at(file, i);
        hil_dtype dtype = HIL_I32;
        hil_shape shape;
        if (strcmp(entry->name, "count") != 0) HIL_TRY_DONE(hil_entry_dtype(entry, &dtype));
        HIL_TRY_DONE(hil_entry_shape(entry, &shape));
        HIL_TRY_DONE(hil_safetensors_writer_declare(writing, entry->name, dtype, &shape));
    }
    HIL_TRY_DONE(hil_safetensors_writer_bytes(writing, &promised));
    HIL_TRY_DONE(hil_safetensors_writer_begin(writing));
    const char *name;
    while ((name = hil_safetensors_writer_next(writing))) {
        const hil_entry *entry = hil_safetensors_find(file, name);
        for (size_t at = 0; at < entry->bytes; at += piece) {
            size_t left = entry->bytes - at;
            size_t size = left < piece ? left : piece;
            HIL_TRY_DONE(hil_entry_read(entry, at, part, size));
            HIL_TRY_DONE(hil_safetensors_writer_data(writing, part, size));
        }
    }
    HIL_TRY_DONE(hil_safetensors_writer_commit(writing));
    struct stat info;
    CHECK(stat(path, &info) == 0);
    CHECK_INT(info.st_size, promised);
done:
    hil_safetensors_writer_destroy(writing);
    return status;
}

/* A name with every character that JSON must escape survives a round trip. */
static void check_odd_name(void)
{
    hil_safetensors_writer *writing;
    hil_safetensors *file;
    hil_shape none = {1, {0}};
    char name[40] = "\"\\/\x7f";
    for (int i = 1; i < 32; ++i) name[3 + i] = (char)i;
    CHECK_OK(hil_safetensors_writer_create(&writing, in_folder("copy")));
    CHECK_OK(hil_safetensors_writer_declare(writing, name, HIL_F32, &none));
    CHECK_OK(hil_safetensors_writer_begin(writing));
    CHECK_OK(hil_safetensors_writer_commit(writing));
    hil_safetensors_writer_destroy(writing);
    CHECK_OK(hil_safetensors_open(&file, in_folder("copy")));
    CHECK_TEXT(hil_safetensors_at(file, 0)->name, name);
    hil_safetensors_close(file);
}

static void check_writer(void)
{
    hil_safetensors *file;
    hil_safetensors_writer *writing;
    hil_shape pair = {1, {2}};
    float value[2] = {1, 2};
    CHECK_OK(hil_safetensors_open(&file, GOLDEN));
    for (size_t piece = 1; piece < 64; piece += 31) {
        CHECK_OK(copy_golden(file, in_folder("copy"), piece));
        check_same_bytes(GOLDEN, in_folder("copy"));
    }
    hil_safetensors_close(file);

    CHECK_OK(hil_safetensors_writer_create(&writing, in_folder("twice")));
    CHECK_OK(hil_safetensors_writer_declare(writing, "a", HIL_F32, &pair));
    CHECK_OK(hil_safetensors_writer_declare(writing, "a", HIL_BF16, &pair));
    CHECK_FAILS(hil_safetensors_writer_begin(writing), HIL_ERR_USAGE, "declared twice");
    hil_safetensors_writer_destroy(writing);

    CHECK_OK(hil_safetensors_writer_create(&writing, in_folder("short")));
    CHECK_OK(hil_safetensors_writer_declare(writing, "a", HIL_F32, &pair));
    CHECK_OK(hil_safetensors_writer_begin(writing));
    CHECK_OK(hil_safetensors_writer_data(writing, value, 4));
    CHECK_FAILS(hil_safetensors_writer_commit(writing), HIL_ERR_USAGE,
                "\"a\" was not written whole");
    hil_safetensors_writer_destroy(writing);
    CHECK(!hil_file_exists(in_folder("short")));

    hil_shape huge = {3, {INT64_MAX, 4, 2}};
    CHECK_OK(hil_safetensors_writer_create(&writing, in_folder("huge")));
    CHECK_FAILS(hil_safetensors_writer_declare(writing, "a", HIL_F32, &huge), HIL_ERR_USAGE,
                "impossible");
    CHECK_FAILS(hil_safetensors_writer_declare(writing, "\xff", HIL_F32, &pair), HIL_ERR_USAGE,
                "UTF-8");
    hil_safetensors_writer_destroy(writing);
    CHECK_FAILS(hil_safetensors_writer_create(&writing, in_folder("no/such/folder")), HIL_ERR_IO,
                "no/such");
}

/* A file with this header and `data` zero bytes of data. */

static hil_status parse(const char *header, size_t data, hil_safetensors **file)
{
    static char bytes[4096];
    size_t size = strlen(header);
    memset(bytes, 0, sizeof bytes);
    for (int i = 0; i < 8; ++i) bytes[i] = (char)(size >> (8 * i));
    memcpy(bytes + 8, header, size);
    return hil_safetensors_parse(file, bytes, 8 + size + data, "t");
}

static void check_bad(const char *header, size_t data, const char *words)
{
    hil_safetensors *file;
    CHECK_FAILS(parse(header, data, &file), HIL_ERR_INPUT, words);
    CHECK(file == NULL);
}

static void check_good(const char *header, size_t data, size_t count)
{
    hil_safetensors *file;
    CHECK_OK(parse(header, data, &file));
    CHECK_INT(hil_safetensors_count(file), count);
    hil_safetensors_close(file);
}

#define T(name, dtype, shape, offsets)                                                             \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void check_headers(void)
{
    check_good("{}", 0, 0);
    check_good(" \n{}\t ", 0, 0);
    check_good("{" T("b", "U8", "[2]", "[2,4]") "," T("a", "U8", "[2]", "[0,2]") "}", 4, 2);
    check_good("{" T("a", "F32", "[0,9]", "[0,0]") "," T("b", "F4", "[4]", "[0,2]") "}", 2, 2);
    check_good("{\"__metadata__\":null," T("", "I64", "[]", "[0,8]") "}", 8, 1);
    check_good("{\"a\":{\"x\":1,\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, 1);

    check_bad("", 0, "JSON");
    check_bad("[]", 0, "not a JSON object");
    check_bad("{} x", 0, "JSON");
    check_bad("{\"a\":", 0, "t: damaged header: not valid JSON");
    check_bad("\xef\xbb\xbf{}", 0, "JSON");
    check_bad("{" T("a\xff", "U8", "[1]", "[0,1]") "}", 1, "JSON");
    check_bad("{" T("a", "U8", "[1]", "[0,1]") "," T("a", "U8", "[1]", "[1,2]") "}", 2,
              "duplicate");
    check_bad("{\"__metadata__\":[]}", 0, "__metadata__");
    check_bad("{\"__metadata__\":{\"k\":1}}", 0, "\"k\" is not a string");
    check_bad("{\"a\":[]}", 0, "\"a\" is not an object");
    check_bad("{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "no dtype");
    check_bad("{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, "no shape");
    check_bad("{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "no data_offsets");
    check_bad("{" T("a", "f32", "[1]", "[0,4]") "}", 4, "unknown dtype \"f32\"");
    check_bad("{" T("a", "U8", "[1.0]", "[0,1]") "}", 1, "whole numbers");
    check_bad("{" T("a", "U8", "[-1]", "[0,1]") "}", 1, "whole numbers");
    check_bad("{" T("a", "U8", "[1]", "[0,1,2]") "}", 1, "two whole numbers");
    check_bad("{" T("a", "U8", "[1]", "[0,1.0]") "}", 1, "two whole numbers");
    check_bad("{" T("a", "U8", "[1]", "[1,0]") "}", 1, "backwards");
    check_bad("{" T("a", "U8", "[1]", "[-1,0]") "}", 1, "backwards");
    check_bad("{" T("a", "U8", "[2]", "[0,2]") "}", 1, "truncated");
    check_bad("{" T("a", "U8", "[9]", "[0,9223372036854775807]") "}", 9, "truncated");
    check_bad("{" T("a", "U8", "[2]", "[0,1]") "}", 1, "a shape of 2 bytes");
    check_bad("{" T("a", "F4", "[3]", "[0,2]") "}", 2, "whole bytes");
    check_bad("{" T("a", "U8", "[4294967296,4294967296]", "[0,0]") "}", 0, "overflows");
    check_bad("{" T("a", "U8", "[0,4294967296,4294967296]", "[0,0]") "}", 0, "overflows");
    check_bad("{" T("a", "F64", "[1152921504606846976]", "[0,0]") "}", 0, "overflows");
    check_bad("{" T("a", "U8", "[2]", "[0,2]") "," T("b", "U8", "[2]", "[1,3]") "}", 3,
              "\"a\" and \"b\" overlap");
    check_bad("{" T("a", "U8", "[2]", "[0,2]") "," T("b", "U8", "[2]", "[0,2]") "}", 2, "overlap");
    check_bad("{" T("a", "U8", "[1]", "[0,1]") "," T("b", "U8", "[1]", "[2,3]") "}", 3,
              "1 unused bytes before tensor \"b\"");
    check_bad("{" T("a", "U8", "[1]", "[1,2]") "}", 2, "unused bytes");
    check_bad("{" T("a", "U8", "[1]", "[0,1]") "}", 2, "1 bytes follow the last tensor");
    check_bad("{}", 1, "follow the last tensor");
}

static void check_damaged_files(void)
{
    hil_safetensors *file;
    hil_bytes map;
    CHECK_FAILS(hil_safetensors_parse(&file, "", 0, "t"), HIL_ERR_INPUT, "truncated");
    CHECK_FAILS(hil_safetensors_parse(&file, "\x03\0\0\0\0\0\0\0{}", 10, "t"), HIL_ERR_INPUT,
                "reaches beyond");
    CHECK_FAILS(hil_safetensors_parse(&file, "\0\0\0\0\0\0\0\x80{}", 10, "t"), HIL_ERR_INPUT,
                "not a safetensors file");
    const char *pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\n";
    CHECK_FAILS(hil_safetensors_parse(&file, pointer, strlen(pointer), "t"), HIL_ERR_INPUT,
                "git lfs pull");
    CHECK_FAILS(hil_safetensors_open(&file, in_folder("absent")), HIL_ERR_IO, "absent");
    CHECK_OK(hil_bytes_read(&map, GOLDEN));
    for (size_t size = 0; size < map.size; ++size)
        CHECK_FAILS(hil_safetensors_parse(&file, map.data, size, "t"), HIL_ERR_INPUT, "t: ");
    hil_bytes_free(&map);
}

/* The parser may not assume that its input is aligned. */
static void check_unaligned(void)
{
    hil_safetensors *file;
    hil_shape shape;
    CHECK_OK(
        parse("{" T("a", "U8", "[1]", "[0,1]") "," T("b", "F32", "[1]", "[1,5]") "}", 5, &file));
    CHECK_INT(hil_safetensors_find(file, "b")->bytes, 4);
    hil_safetensors_close(file);
    CHECK_OK(parse("{" T("a", "U8", "[1,1,1,1,1]", "[0,1]") "}", 1, &file));
    CHECK_FAILS(hil_entry_shape(hil_safetensors_at(file, 0), &shape), HIL_ERR_INPUT,
                "5 dimensions");
    hil_safetensors_close(file);
}

static void check_memory(void)
{
    hil_safetensors *file = NULL;
    CHECK_MEMORY(hil_safetensors_open(&file, GOLDEN));
    CHECK_OK(hil_file_remove_tree(in_folder("copy")));
    for (long n = 1;; ++n) {
        hil_alloc_fail_at(n);
        hil_status status = copy_golden(file, in_folder("copy"), 7);
        hil_alloc_fail_at(0);
        if (status == HIL_OK) break;
        CHECK_INT(status, HIL_ERR_MEMORY);
        CHECK(!hil_file_exists(in_folder("copy")));
        CHECK(n < 1000);
    }
    hil_safetensors_close(file);
}

int main(void)
{
    CHECK(mkdtemp(folder) != NULL);
    check_golden();
    check_writer();
    check_odd_name();
    check_headers();
    check_damaged_files();
    check_unaligned();
    check_memory();
    CHECK_OK(hil_file_remove_tree(in_folder("copy")));
    CHECK_INT(rmdir(folder), 0); /* no temporary file is left */
    return 0;
}
