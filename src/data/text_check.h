/* text_check.h - checks that the content of a file is text. */
#ifndef HIL_DATA_TEXT_CHECK_H
#define HIL_DATA_TEXT_CHECK_H

#include "base/fail.h"

/* The check of one file. Set `path`, and `most_bad` if needed; initialise the rest with zeros. */
typedef struct hil_text_check {
    const char *path;  /* in errors */
    uint64_t most_bad; /* more bytes of invalid UTF-8 fail at once; 0: only at the end */
    uint64_t seen, bad;
    char tail[4]; /* the incomplete character at the end of the last piece */
    size_t tail_size;
} hil_text_check;

/* Refuses files with the magic bytes of a binary format, and NUL bytes. The first piece must have
   512 bytes, unless the file is shorter. The message says what the file is and what to do. */
hil_status hil_text_check_add(hil_text_check *content, const char *bytes, size_t size);
/* Refuses a file with more than 1% of invalid UTF-8. */
hil_status hil_text_check_end(hil_text_check *content);

#endif
