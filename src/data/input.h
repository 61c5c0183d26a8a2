/* input.h - a file of text or JSONL as a stream of bytes, decompressed and checked to be text. */
#ifndef HIL_DATA_INPUT_H
#define HIL_DATA_INPUT_H

#include "base/fail.h"

/* Owns a descriptor and less than 10 MiB; borrows nothing. */
typedef struct hil_input hil_input;

/* The suffix decides whether the file is decompressed; see data/file_type.h. */
hil_status hil_input_open(hil_input **out, const char *path);
void hil_input_close(hil_input *input);

/* *got is less than `size` only at the end. Fails if the content is not text (data/text_check.h) or
   the compressed data is damaged or truncated; discard what earlier calls returned then. */
hil_status hil_input_read(hil_input *input, char *bytes, size_t size, size_t *got);
/* Bytes of the file on disk consumed so far. */
uint64_t hil_input_position(const hil_input *input);

#endif
