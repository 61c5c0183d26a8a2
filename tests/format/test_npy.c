/* Token arrays written by NumPy are read; other files are refused with a one-line error. */
#include "format/npy.h"
#include "base/alloc.h"
#include "check.h"

#include <unistd.h>

#define GOLDEN HIL_TESTS "/golden/formats/"

static void check_ids(const char *path)
{
    static const int32_t expected[] = {0, 1, 300, 65535, 7};
    int32_t id[5];
    hil_npy *npy;
    CHECK_OK(hil_npy_open(&npy, path));
    CHECK_INT(hil_npy_count(npy), 5);
    CHECK_OK(hil_npy_read(npy, 0, 5, 65536, id));
    for (int i = 0; i < 5; ++i) CHECK_INT(id[i], expected[i]);
    CHECK_OK(hil_npy_read(npy, 2, 2, 65536, id));
    CHECK_INT(id[0], 300);
    CHECK_INT(id[1], 65535);
    CHECK_FAILS(hil_npy_read(npy, 1, 4, 65535, id), HIL_ERR_INPUT, "token id 65535 at index 3");
    hil_npy_close(npy);
}

static void check_bad(const char *file, const char *words)
{
    hil_npy *npy;
    char path[512];
    snprintf(path, sizeof path, GOLDEN "%s", file);
    CHECK_FAILS(hil_npy_open(&npy, path), HIL_ERR_INPUT, words);
}

/* A version 1 file with this header text and `data` zero bytes. */
static void check_header(const char *header, size_t data, const char *words)
{
    char bytes[512] = "\x93NUMPY\x01";
    size_t size = strlen(header);
    bytes[8] = (char)size;
    memcpy(bytes + 10, header, size);
    hil_npy *npy;
    if (words) {
        CHECK_FAILS(hil_npy_parse(&npy, bytes, 10 + size + data, "t"), HIL_ERR_INPUT, words);
    } else {
        CHECK_OK(hil_npy_parse(&npy, bytes, 10 + size + data, "t"));
        hil_npy_close(npy);
    }
}

static void check_headers(void)
{
    check_header("{'descr': '<u2', 'fortran_order': False, 'shape': (3,), }", 6, NULL);
    check_header("{\"shape\":(3L,),\"fortran_order\":True,\"descr\":\"<u2\"}  \n", 6, NULL);
    check_header("{'descr': '<u2', 'fortran_order': False, 'shape': (3,), }", 5, "truncated");
    check_header("{'descr': '<u2', 'fortran_order': False, 'shape': (3,), }", 7, "1 bytes follow");
    check_header("{'descr': '<u2', 'fortran_order': False, 'shape': (3,), } x", 6, "damaged");
    check_header("{'descr': '<u2', 'fortran_order': False, 'shape': (3,)", 6, "damaged");
    check_header("{'descr': '<u2', 'fortran_order': False}", 6, "damaged");
    check_header("{'descr': '<u2', 'descr': '<u2', 'shape': (3,)}", 6, "damaged");
    check_header("{'descr': '<u2', 'descr': '<u2', 'fortran_order': False, 'shape': (3,)}", 6,
                 "damaged");
    check_header("{'descr': '<u2', 'fortran_order': 1, 'shape': (3,)}", 6, "damaged");
    check_header("{'descr': '<u2', 'fortran_order': False, 'shape': (-3,)}", 6, "damaged");
    check_header("{'descr': '<u2', 'fortran_order': False, 'shape': (3 4)}", 6, "damaged");
    check_header("{'descr': '<i8', 'fortran_order': False, 'shape': (99999999999999999999,)}", 6,
                 "damaged");
    check_header("{'descr': '<i8', 'fortran_order': False, 'shape': (2305843009213693952,)}", 6,
                 "truncated");
    check_header("{'descr': '|u1', 'fortran_order': False, 'shape': (3,)}", 3, "\"|u1\"");
    check_header("", 20, "damaged");
}

/* Version 2 exists for headers of more than 65535 bytes. */
static void check_long_header(void)
{
    static char bytes[12 + 65600 + 2];
    const char *header = "{'descr': '<u2', 'fortran_order': False, 'shape': (1,)}";
    hil_npy *npy;
    memset(bytes, ' ', sizeof bytes);
    memcpy(bytes, "\x93NUMPY\x02\x00\x40\x00\x01\x00", 12);
    memcpy(bytes + 12, header, strlen(header));
    CHECK_OK(hil_npy_parse(&npy, bytes, sizeof bytes, "t"));
    hil_npy_close(npy);
}

int main(void)
{
    check_long_header();
    check_ids(GOLDEN "u2.npy");
    check_ids(GOLDEN "u4.npy");
    check_ids(GOLDEN "i4.npy");
    check_ids(GOLDEN "i8.npy");
    check_ids(GOLDEN "version2.npy");
    check_ids(GOLDEN "version3.npy");
    check_bad("matrix.npy", "2 dimensions");
    check_bad("scalar.npy", "0 dimensions");
    check_bad("big.npy", "big-endian");
    check_bad("float.npy", "uint16, uint32, int32 or int64");
    check_bad("records.npy", "records");
    check_headers();

    hil_npy *npy;
    CHECK_OK(hil_npy_open(&npy, GOLDEN "empty.npy"));
    CHECK_INT(hil_npy_count(npy), 0);
    hil_npy_close(npy);
    CHECK_FAILS(hil_npy_open(&npy, GOLDEN "absent.npy"), HIL_ERR_IO, "absent.npy");
    CHECK_FAILS(hil_npy_parse(&npy, "\x93NUMPY\x04\x00\x00\x00\x00\x00", 12, "t"), HIL_ERR_INPUT,
                "version 4");
    CHECK_FAILS(hil_npy_parse(&npy, "\x93NUMPY\x01\x00\xff\x00{}", 12, "t"), HIL_ERR_INPUT,
                "truncated");
    CHECK_FAILS(hil_npy_parse(&npy, "\x93NUMPY\x02\x00\xff\xff\xff\xff", 12, "t"), HIL_ERR_INPUT,
                "truncated");
    CHECK_FAILS(hil_npy_parse(&npy, "hello, hello", 12, "t"), HIL_ERR_INPUT, "not a .npy");
    CHECK_FAILS(hil_npy_parse(&npy, "", 0, "t"), HIL_ERR_INPUT, "not a .npy");

    int64_t negative[] = {-1, 1LL << 40};
    char bytes[128] = "\x93NUMPY\x01\x00\x36\x00";
    memcpy(bytes + 10, "{'descr':'<i8','fortran_order':False,'shape':(2,)}    ", 54);
    memcpy(bytes + 64, negative, 16);
    int32_t id, ids[2];
    CHECK_OK(hil_npy_parse(&npy, bytes, 80, "t"));
    CHECK_FAILS(hil_npy_read(npy, 0, 1, 100, &id), HIL_ERR_INPUT, "token id -1 at index 0");
    CHECK_FAILS(hil_npy_read(npy, 1, 1, 100, &id), HIL_ERR_INPUT, "1099511627776 at index 1");
    hil_npy_close(npy);

    char cut[] = "/tmp/hil-npy-XXXXXX";
    int fd = mkstemp(cut);
    CHECK(fd >= 0 && write(fd, bytes, 80) == 80 && close(fd) == 0);
    CHECK_OK(hil_npy_open(&npy, cut));
    CHECK(truncate(cut, 70) == 0);
    CHECK_FAILS(hil_npy_read(npy, 0, 2, 100, ids), HIL_ERR_IO, "cut short");
    hil_npy_close(npy);
    unlink(cut);

    CHECK_MEMORY(hil_npy_open(&npy, GOLDEN "u2.npy"));
    hil_npy_close(npy);
    return 0;
}
