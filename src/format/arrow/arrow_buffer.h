/* arrow_buffer.h - the bytes of a column in a batch of rows, a piece of which is in memory. */
#ifndef HIL_FORMAT_ARROW_ARROW_BUFFER_H
#define HIL_FORMAT_ARROW_ARROW_BUFFER_H

#include "io/reader.h"

/* A file, or bytes in memory. Owns the reader. */
typedef struct hil_arrow_file {
    hil_reader *reader; /* NULL: in memory */
    const char *memory;
    uint64_t size;
    char *what; /* names it in errors; owned */
} hil_arrow_file;

hil_status hil_arrow_file_read(const hil_arrow_file *file, uint64_t at, void *out, size_t size);
hil_status hil_arrow_damaged(const hil_arrow_file *file, const char *why);

/* Owns its piece. Initialise with zeros. */
typedef struct hil_arrow_buffer {
    uint64_t offset, size; /* in the file; of unpacked bytes, only the size counts */
    bool unpacked;         /* all of it is in the piece */
    char *piece;
    size_t room;
    uint64_t begin, end; /* of the piece in the buffer */
} hil_arrow_buffer;

/* Where a buffer is now; keeps its memory. */
void hil_arrow_buffer_set(hil_arrow_buffer *buffer, uint64_t offset, uint64_t size);
/* The same for a buffer that is compressed with zstd, with the size that it will have in front. */
hil_status hil_arrow_buffer_unpack(hil_arrow_buffer *buffer, const hil_arrow_file *file,
                                   uint64_t offset, uint64_t size);
/* Bytes [at, at + size), valid until the next call. */
hil_status hil_arrow_buffer_get(hil_arrow_buffer *buffer, const hil_arrow_file *file, uint64_t at,
                                size_t size, const char **out);
/* The number of `bytes` bytes at an index; without a sign if it has none. */
hil_status hil_arrow_buffer_number(hil_arrow_buffer *buffer, const hil_arrow_file *file,
                                   uint64_t index, int bytes, int64_t *out);
void hil_arrow_buffer_free(hil_arrow_buffer *buffer);

#endif
