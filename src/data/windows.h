/* windows.h - tokens put into windows: text is cut, examples stay whole. */
#ifndef HIL_DATA_WINDOWS_H
#define HIL_DATA_WINDOWS_H

#include "data/cache.h"

/* Writes windows of `seq` tokens one after the other. Text fills windows of its own, end to end; an
   example goes where the least room is left that holds it (best fit) among a bounded number of open
   windows. What is written depends on the order of the calls and on `seq` alone. Borrows the
   writer. */
typedef struct hil_windows hil_windows;

hil_status hil_windows_create(hil_windows **out, hil_cache_writer *writer, int64_t seq,
                              int64_t pad);
void hil_windows_destroy(hil_windows *windows);

/* The next token of the text, with its marks. */
hil_status hil_windows_text(hil_windows *windows, uint32_t token);
/* A whole example with its marks: the first token begins a document. Only the start of one that is
   longer than a window is kept. One without a learned token then is left out. */
hil_status hil_windows_example(hil_windows *windows, const uint32_t *token, size_t size);
/* Writes what is still open: examples padded, the text's last tokens as they are. */
hil_status hil_windows_end(hil_windows *windows, hil_packing *packing);

#endif
