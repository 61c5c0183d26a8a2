/* parquet_page.c - reads the header of a page. */
#include "format/parquet/parquet_page.h"

#define COUNT(slots) (sizeof(slots) / sizeof *(slots))

/* The header of a data page of version 1, or of a dictionary, whose first numbers are the same. */
static void read_first(hil_parquet_page *page, hil_thrift *in)
{
    bool is_data = page->kind == HIL_PARQUET_PAGE_DATA;
    int64_t *slots[] = {NULL, &page->values, &page->encoding, &page->define_encoding,
                        &page->repeat_encoding};
    hil_thrift_integers(in, slots, is_data ? COUNT(slots) : 3);
}

static void read_second(hil_parquet_page *page, hil_thrift *in)
{
    int64_t *slots[] = {NULL,
                        &page->values,
                        NULL,
                        NULL,
                        &page->encoding,
                        &page->define_bytes,
                        &page->repeat_bytes,
                        &page->is_packed};
    hil_thrift_integers(in, slots, COUNT(slots));
}

void hil_parquet_page_read(hil_parquet_page *page, hil_thrift *in)
{
    enum { KIND = 1, SIZE = 2, PACKED_SIZE = 3, CRC = 4, DATA = 5, DICTIONARY = 7, DATA_V2 = 8 };
    hil_thrift_field field = {0};
    *page = (hil_parquet_page){-1, -1, -1, 0, -1, -1, -1, -1, -1, -1, 1, false};
    while (hil_thrift_next(in, &field)) {
        if (field.id == KIND) {
            page->kind = hil_thrift_integer(in, &field);
        } else if (field.id == SIZE) {
            page->size = hil_thrift_integer(in, &field);
        } else if (field.id == PACKED_SIZE) {
            page->packed_size = hil_thrift_integer(in, &field);
        } else if (field.id == CRC) {
            page->crc = hil_thrift_integer(in, &field);
            page->has_crc = true;
        } else if ((field.id == DATA || field.id == DICTIONARY) && hil_thrift_enter(in, &field)) {
            read_first(page, in);
        } else if (field.id == DATA_V2 && hil_thrift_enter(in, &field)) {
            read_second(page, in);
        } else {
            hil_thrift_skip(in, &field);
        }
    }
}
