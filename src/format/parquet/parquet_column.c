/* parquet_column.c - reads, checks and decompresses the pages of a column, one at a time. */
#include "format/parquet/parquet_column.h"

#include "format/parquet/parquet_page.h"

#include <string.h>
#include <zlib.h>

#define HEADER_USUAL ((size_t)4 << 10) /* bytes that are looked at first for a page's header */
#define HEADER_MAX ((size_t)16 << 20)
#define PAGE_MAX ((int64_t)1 << 30)
#define WRITE_AGAIN                                                                                \
    "write it again: python3 -c \"import pandas; pandas.read_parquet('FILE.parquet')."             \
    "to_parquet('NEW.parquet', compression='zstd')\""

hil_status hil_parquet_source_read(const hil_parquet_source *source, uint64_t offset, void *bytes,
                                   size_t size)
{
    size_t got;
    assert(offset <= source->size && size <= source->size - offset);
    if (!source->reader) {
        if (size) memcpy(bytes, source->memory + offset, size);
        return HIL_OK;
    }
    HIL_TRY(hil_reader_read(source->reader, offset, bytes, size, &got));
    if (got == size) return HIL_OK;
    return hil_fail(HIL_ERR_IO, "%s was cut short while it was being read", source->what);
}

hil_status hil_parquet_column_damaged(const hil_parquet_column *column, const char *why)
{
    return hil_fail(HIL_ERR_INPUT, "%s: damaged: column \"%s\": %s; download the file again",
                    column->source->what, column->path, why);
}

void hil_parquet_column_free(hil_parquet_column *column)
{
    hil_free(column->path);
    hil_free(column->dictionary.bytes);
    hil_free(column->dictionary.start);
    hil_free(column->packed);
    hil_free(column->page);
    hil_free(column->before);
    *column = (hil_parquet_column){0};
}

hil_status hil_parquet_column_begin(hil_parquet_column *column, const hil_parquet_chunk *chunk)
{
    if (!hil_parquet_codec_known(chunk->codec))
        return hil_fail(
            HIL_ERR_INPUT,
            "%s: column \"%s\" is compressed with %s; zstd, Snappy and gzip are read; " WRITE_AGAIN,
            column->source->what, column->path, hil_parquet_codec_name(chunk->codec));
    if (chunk->type != (int64_t)column->node->type)
        return hil_parquet_column_damaged(column, "its type is not that of the schema");
    if (chunk->values == 0) { /* its offsets may be anything */
        column->at = column->end = 0;
        column->values_left = column->page_left = 0;
        column->is_loaded = false;
        return HIL_OK;
    }
    int64_t at = chunk->data_at;
    if (chunk->dictionary_at > 0 && chunk->dictionary_at < at) at = chunk->dictionary_at;
    if (at < 4 || chunk->bytes < 0 || chunk->values < 0 || (uint64_t)at > column->source->size ||
        (uint64_t)chunk->bytes > column->source->size - (uint64_t)at)
        return hil_parquet_column_damaged(column, "it is not inside of the file");
    column->codec = (hil_parquet_codec)chunk->codec;
    column->at = (uint64_t)at;
    column->end = (uint64_t)at + (uint64_t)chunk->bytes;
    column->values_left = chunk->values;
    column->page_left = 0;
    column->has_dictionary = column->is_loaded = column->is_over = false;
    column->dictionary.count = 0;
    return HIL_OK;
}

/* Reads the header at column->at, and goes behind it. */
static hil_status read_header(hil_parquet_column *column, hil_parquet_page *page)
{
    uint64_t left = column->end - column->at;
    for (size_t size = HEADER_USUAL;; size *= 8) {
        size_t part = left < size ? (size_t)left : size;
        HIL_TRY(HIL_GROW(&column->packed, &column->packed_room, part));
        HIL_TRY(hil_parquet_source_read(column->source, column->at, column->packed, part));
        hil_thrift in = {.at = column->packed, .end = column->packed + part};
        hil_parquet_page_read(page, &in);
        if (!in.bad) {
            column->at += (uint64_t)(in.at - column->packed);
            return HIL_OK;
        }
        if (!in.cut || part == left || size >= HEADER_MAX)
            return hil_parquet_column_damaged(column, "a page has no valid header");
    }
}

static hil_status check_sizes(const hil_parquet_column *column, const hil_parquet_page *page)
{
    if (page->packed_size < 0 || page->size < 0 ||
        (uint64_t)page->packed_size > column->end - column->at)
        return hil_parquet_column_damaged(column, "a page is not inside of its column");
    if (page->packed_size > PAGE_MAX || page->size > PAGE_MAX)
        return hil_fail(HIL_ERR_INPUT,
                        "%s: column \"%s\" has a page of more than 1 GiB, which would have to be "
                        "held in memory; " WRITE_AGAIN,
                        column->source->what, column->path);
    if ((uint64_t)page->size > hil_parquet_codec_most(column->codec, (uint64_t)page->packed_size))
        return hil_parquet_column_damaged(column, "a page has a wrong size");
    return HIL_OK;
}

/* Reads the bytes of a page into column->packed, and goes behind them. */
static hil_status read_body(hil_parquet_column *column, const hil_parquet_page *page)
{
    size_t size = (size_t)page->packed_size;
    HIL_TRY(HIL_GROW(&column->packed, &column->packed_room, size));
    HIL_TRY(hil_parquet_source_read(column->source, column->at, column->packed, size));
    column->at += size;
    if (page->has_crc && (uint32_t)page->crc != (uint32_t)crc32(0, column->packed, (uInt)size))
        return hil_parquet_column_damaged(column, "a page does not have its checksum");
    return HIL_OK;
}

/* Decompresses `size` bytes of column->packed from `from` on into *out of `room`. */
static hil_status unpack(const hil_parquet_column *column, size_t from, size_t size,
                         unsigned char *out, size_t out_size)
{
    bool damaged = false;
    HIL_TRY(hil_parquet_codec_unpack(column->codec, column->packed + from, size, out, out_size,
                                     &damaged));
    if (damaged) return hil_parquet_column_damaged(column, "a page cannot be decompressed");
    return HIL_OK;
}

/* Finds where each text of a dictionary begins. */
static bool index_texts(hil_parquet_dictionary *d, size_t size)
{
    size_t at = 0;
    for (size_t i = 0; i < d->count; ++i) {
        if (size - at < 4) return false;
        uint32_t length = hil_parquet_load32(d->bytes + at);
        if (length > size - at - 4) return false;
        d->start[i] = (uint32_t)at;
        at += 4 + (size_t)length;
    }
    return true;
}

static hil_status read_dictionary(hil_parquet_column *column, const hil_parquet_page *page)
{
    hil_parquet_dictionary *d = &column->dictionary;
    size_t size = (size_t)page->size, each = hil_parquet_type_size(column->node->type);
    bool is_text = column->node->type == HIL_PARQUET_BYTES;
    if (column->has_dictionary || page->values < 0 || (!each && !is_text) ||
        (uint64_t)page->values > size / (each ? each : 4) ||
        (page->encoding != HIL_PARQUET_PLAIN && page->encoding != HIL_PARQUET_PLAIN_DICTIONARY))
        return hil_parquet_column_damaged(column, "its dictionary is not valid");
    HIL_TRY(HIL_GROW(&d->bytes, &d->room, size));
    HIL_TRY(unpack(column, 0, (size_t)page->packed_size, d->bytes, size));
    d->count = (size_t)page->values;
    if (is_text) HIL_TRY(HIL_GROW(&d->start, &d->start_room, d->count));
    if (is_text && !index_texts(d, size))
        return hil_parquet_column_damaged(column, "its dictionary is not valid");
    column->has_dictionary = true;
    return HIL_OK;
}

static hil_status begin_values(hil_parquet_column *column, const hil_parquet_page *page,
                               const unsigned char *bytes, size_t size)
{
    hil_parquet_values *v = &column->content;
    hil_parquet_encoding encoding = (hil_parquet_encoding)page->encoding;
    if (!hil_parquet_encoding_fits(column->node->type, encoding))
        return hil_fail(
            HIL_ERR_INPUT, "%s: column \"%s\" has the encoding %s, which is not read; " WRITE_AGAIN,
            column->source->what, column->path, hil_parquet_encoding_name(page->encoding));
    if (encoding == HIL_PARQUET_DELTA_BYTES)
        HIL_TRY(HIL_GROW(&column->before, &column->before_room, size));
    bool by_place =
        encoding == HIL_PARQUET_PLAIN_DICTIONARY || encoding == HIL_PARQUET_RLE_DICTIONARY;
    if (by_place && !column->has_dictionary)
        return hil_parquet_column_damaged(column, "its dictionary is missing");
    v->type = column->node->type;
    v->encoding = encoding;
    v->before = column->before;
    v->dictionary = &column->dictionary;
    if (!hil_parquet_values_begin(v, bytes, size))
        return hil_parquet_column_damaged(column, "a page has no valid values");
    return HIL_OK;
}

static unsigned width_of(unsigned most)
{
    unsigned width = 0;
    while (most >> width) ++width;
    return width;
}

/* Levels of a page of version 1: four bytes of length before them, none if all are 0. */
static hil_status begin_levels(hil_parquet_column *column, hil_parquet_runs *runs, unsigned most,
                               int64_t encoding, size_t *at)
{
    size_t left = (size_t)(column->content.end - column->content.at) - *at;
    const unsigned char *bytes = column->content.at + *at;
    hil_parquet_runs_begin(runs, bytes, 0, width_of(most));
    if (most == 0) return HIL_OK;
    if (encoding != HIL_PARQUET_RLE)
        return hil_fail(
            HIL_ERR_INPUT,
            "%s: column \"%s\" has levels in the encoding %s, which is not read; " WRITE_AGAIN,
            column->source->what, column->path, hil_parquet_encoding_name(encoding));
    if (left < 4 || hil_parquet_load32(bytes) > left - 4)
        return hil_parquet_column_damaged(column, "a page has no valid levels");
    size_t size = hil_parquet_load32(bytes);
    hil_parquet_runs_begin(runs, bytes + 4, size, width_of(most));
    *at += 4 + size;
    return HIL_OK;
}

static hil_status begin_first(hil_parquet_column *column, const hil_parquet_page *page)
{
    size_t size = (size_t)page->size, at = 0;
    unsigned char *bytes = column->packed;
    if (column->codec != HIL_PARQUET_UNCOMPRESSED) {
        HIL_TRY(HIL_GROW(&column->page, &column->page_room, size));
        HIL_TRY(unpack(column, 0, (size_t)page->packed_size, column->page, size));
        bytes = column->page;
    }
    column->content.at = bytes;
    column->content.end = bytes + size;
    HIL_TRY(
        begin_levels(column, &column->repeats, column->node->repeated, page->repeat_encoding, &at));
    HIL_TRY(
        begin_levels(column, &column->defines, column->node->defined, page->define_encoding, &at));
    return begin_values(column, page, bytes + at, size - at);
}

/* Levels of version 2 are in front of what is compressed. */
static hil_status begin_second(hil_parquet_column *column, const hil_parquet_page *page)
{
    int64_t repeats = page->repeat_bytes, defines = page->define_bytes;
    if (repeats < 0 || defines < 0 || repeats > page->packed_size || repeats > page->size ||
        defines > page->packed_size - repeats || defines > page->size - repeats)
        return hil_parquet_column_damaged(column, "a page has no valid levels");
    size_t levels = (size_t)(repeats + defines), size = (size_t)page->size - levels;
    size_t packed = (size_t)page->packed_size - levels;
    const unsigned char *bytes = column->packed + levels;
    if (column->codec != HIL_PARQUET_UNCOMPRESSED && page->is_packed && size) {
        HIL_TRY(HIL_GROW(&column->page, &column->page_room, size));
        HIL_TRY(unpack(column, levels, packed, column->page, size));
        bytes = column->page;
    } else if (packed < size) {
        return hil_parquet_column_damaged(column, "a page has a wrong size");
    }
    const hil_parquet_node *node = column->node;
    hil_parquet_runs_begin(&column->repeats, column->packed, (size_t)repeats,
                           width_of(node->repeated));
    hil_parquet_runs_begin(&column->defines, column->packed + repeats, (size_t)defines,
                           width_of(node->defined));
    return begin_values(column, page, bytes, size);
}

static hil_status next_page(hil_parquet_column *column)
{
    hil_parquet_page page;
    if (column->at == column->end)
        return hil_parquet_column_damaged(column, "it has fewer values than it should");
    HIL_TRY(read_header(column, &page));
    HIL_TRY(check_sizes(column, &page));
    bool is_data = page.kind == HIL_PARQUET_PAGE_DATA || page.kind == HIL_PARQUET_PAGE_DATA_V2;
    if (!is_data && page.kind != HIL_PARQUET_PAGE_DICTIONARY) { /* an index, or something newer */
        column->at += (uint64_t)page.packed_size;
        return HIL_OK;
    }
    HIL_TRY(read_body(column, &page));
    if (!is_data) return read_dictionary(column, &page);
    if (page.values < 0 || page.values > column->values_left)
        return hil_parquet_column_damaged(column, "a page has more values than the column");
    if (page.kind == HIL_PARQUET_PAGE_DATA)
        HIL_TRY(begin_first(column, &page));
    else
        HIL_TRY(begin_second(column, &page));
    column->page_left = page.values;
    column->values_left -= page.values;
    return HIL_OK;
}

hil_status hil_parquet_column_load(hil_parquet_column *column)
{
    if (column->is_loaded) return HIL_OK;
    while (column->page_left == 0 && column->values_left > 0) HIL_TRY(next_page(column));
    column->is_loaded = true;
    column->is_over = column->page_left == 0;
    column->repeated = column->defined = 0;
    if (column->is_over) return HIL_OK;
    --column->page_left;
    if (!hil_parquet_runs_next(&column->repeats, &column->repeated) ||
        !hil_parquet_runs_next(&column->defines, &column->defined) ||
        column->repeated > column->node->repeated || column->defined > column->node->defined)
        return hil_parquet_column_damaged(column, "a page has no valid levels");
    return HIL_OK;
}

hil_status hil_parquet_column_value(hil_parquet_column *column, hil_parquet_value *value)
{
    *value = (hil_parquet_value){.bytes = ""};
    if (hil_parquet_values_next(&column->content, value)) return HIL_OK;
    return hil_parquet_column_damaged(column, "a page ends before its values");
}
