/* input.c - reads a file, decompresses it, checks that it is text. */
#include "data/input.h"

#include "data/text_check.h"
#include "data/decompress.h"
#include "data/file_type.h"
#include "io/reader.h"

#define BUFFER ((size_t)1 << 18)

struct hil_input {
    hil_reader *reader;
    const hil_decompressor *format; /* NULL: not compressed */
    void *engine;
    char *buffer; /* compressed bytes */
    hil_decompress_io io;
    bool whole;      /* the input so far ends with a whole stream */
    bool is_records; /* JSON or CSV, whose parser names the line with invalid UTF-8 */
    hil_text_check content;
};

hil_status hil_input_open(hil_input **out, const char *path)
{
    static const hil_decompressor *const formats[] = {
        [HIL_GZIP] = &hil_decompress_gzip, [HIL_ZSTD] = &hil_decompress_zstd};
    *out = NULL;
    hil_file_type type;
    hil_input *input = NULL;
    hil_status status;
    HIL_TRY_DONE(hil_file_type_read(&type, path));
    HIL_TRY_DONE(HIL_ALLOC(1, &input));
    HIL_TRY_DONE(hil_reader_open(&input->reader, path));
    input->content.path = hil_reader_path(input->reader);
    input->is_records = type.kind != HIL_DATA_TEXT;
    input->format = formats[type.compression];
    if (input->format) {
        HIL_TRY_DONE(HIL_ALLOC(BUFFER, &input->buffer));
        HIL_TRY_DONE(input->format->open(&input->engine));
    } else if (!input->is_records) {
        input->content.most_bad = hil_reader_size(input->reader) / 100;
    }
    *out = input;
    input = NULL;
done:
    hil_input_close(input);
    return status;
}

void hil_input_close(hil_input *input)
{
    if (!input) return;
    if (input->engine) input->format->close(input->engine);
    hil_reader_close(input->reader);
    hil_free(input->buffer);
    hil_free(input);
}

/* Fills `out`, or reaches the end of the file. */
static hil_status decompress(hil_input *input)
{
    hil_decompress_io *io = &input->io;
    const char *path = input->content.path;
    while (io->out_left) {
        if (io->in_left == 0) {
            HIL_TRY(hil_reader_read(input->reader, io->at, input->buffer, BUFFER, &io->in_left));
            io->in = input->buffer;
        }
        size_t in = io->in_left, out = io->out_left;
        HIL_TRY(input->format->run(input->engine, path, io, &input->whole));
        if (in == 0 && io->out_left == out) break;
    }
    if (io->out_left && !input->whole)
        return hil_fail(HIL_ERR_INPUT, "%s: %s data ends in the middle: the file is cut off", path,
                        input->format->name);
    return HIL_OK;
}

hil_status hil_input_read(hil_input *input, char *bytes, size_t size, size_t *got)
{
    hil_decompress_io *io = &input->io;
    if (input->format) {
        io->out = bytes;
        io->out_left = size;
        HIL_TRY(decompress(input));
        *got = size - io->out_left;
    } else {
        HIL_TRY(hil_reader_read(input->reader, io->at, bytes, size, got));
        io->at += *got;
    }
    HIL_TRY(hil_text_check_add(&input->content, bytes, *got));
    return *got < size && !input->is_records ? hil_text_check_end(&input->content) : HIL_OK;
}

uint64_t hil_input_position(const hil_input *input)
{
    return input->io.at;
}
