/* reader.h - a regular file read in pieces, from any place. */
#ifndef HIL_IO_READER_H
#define HIL_IO_READER_H

#include "base/fail.h"

/* Owns a descriptor. Several threads may read at once. */
typedef struct hil_reader hil_reader;

hil_status hil_reader_open(hil_reader **out, const char *path);
/* The same for an open file, whose path in /proc other processes of the machine can open as long as
   this reader is open. Owns fd from here on, also when it fails. */
hil_status hil_reader_adopt(hil_reader **out, int fd);
void hil_reader_close(hil_reader *reader);

/* Bytes in the file when it was opened. */
uint64_t hil_reader_size(const hil_reader *reader);
const char *hil_reader_path(const hil_reader *reader);

/* *got is less than `size` only where the file ends. Short reads are resumed here. */
hil_status hil_reader_read(const hil_reader *reader, uint64_t offset, void *bytes, size_t size,
                           size_t *got);

#endif
