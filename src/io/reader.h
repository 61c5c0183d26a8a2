/* reader.h - positional reads of a regular file. */
#ifndef HIL_IO_READER_H
#define HIL_IO_READER_H

#include "base/fail.h"

/* Owns a descriptor. Thread-safe. */
typedef struct hil_reader hil_reader;

hil_status hil_reader_open(hil_reader **out, const char *path);
/* The same for an open file; its path is in /proc, where other processes of the machine can open it
   while this reader is open. Takes ownership of fd, also when it fails. */
hil_status hil_reader_adopt(hil_reader **out, int fd);
void hil_reader_close(hil_reader *reader);

/* Bytes in the file when it was opened. */
uint64_t hil_reader_size(const hil_reader *reader);
const char *hil_reader_path(const hil_reader *reader);

/* *got is less than `size` only at the end of the file. Resumes short reads. */
hil_status hil_reader_read(const hil_reader *reader, uint64_t offset, void *bytes, size_t size,
                           size_t *got);

#endif
