/* content.h - whether bytes that are to be read as text are text. */
#ifndef HIL_DATA_CONTENT_H
#define HIL_DATA_CONTENT_H

#include "base/fail.h"

/* The bytes of one file as they pass by. Set `path`; zero the rest to begin. */
typedef struct hil_content {
    const char *path;  /* in errors */
    uint64_t most_bad; /* bytes that are not UTF-8 and end the reading at once; 0: none do */
    uint64_t seen, bad;
    char tail[4]; /* a character that the last piece cut in two */
    size_t tail_size;
} hil_content;

/* Refuses what begins like a known binary format (looked for in the first piece, which has at least
   512 bytes of a file that is as long), and NUL bytes. Says what the file is and what to do. */
hil_status hil_content_add(hil_content *content, const char *bytes, size_t size);
/* Refuses a file of which more than 1% of the bytes are not UTF-8. */
hil_status hil_content_end(hil_content *content);

#endif
