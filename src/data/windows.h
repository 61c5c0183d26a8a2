/* windows.h - packs tokens into windows: text is cut, examples stay whole. */
#ifndef HIL_DATA_WINDOWS_H
#define HIL_DATA_WINDOWS_H

#include "data/cache.h"

/* Writes windows of `seq` tokens. Text fills windows of its own without gaps. An example goes to
   the fullest open window that has room for it (best fit); the number of open windows is bounded.
   The output depends only on the order of the calls and on `seq`. Borrows the writer. */
typedef struct hil_windows hil_windows;

hil_status hil_windows_create(hil_windows **out, hil_cache_writer *writer, int64_t seq,
                              int64_t pad);
void hil_windows_destroy(hil_windows *windows);

/* Appends the next token of the text, with its marks. */
hil_status hil_windows_text(hil_windows *windows, uint32_t token);
/* Adds a whole example with its marks, HIL_MARK_START on the first token. Truncates it to a window,
   and drops it if no learned token is left. */
hil_status hil_windows_example(hil_windows *windows, const uint32_t *token, size_t size);
/* Adds a pair of examples, `size` tokens each, which stay together in a window. Where they do not
   fit one, each is truncated to half of it, or to what the other leaves if that is more; drops the
   pair if one is left without a learned token. In the packing it counts as one example. */
hil_status hil_windows_pair(hil_windows *windows, const uint32_t *token, const size_t size[2]);
/* Adds an example with a label as a pair, of which the other side is one token that is not learned:
   the second one if the example is good. Truncates it to what is left of a window. */
hil_status hil_windows_judged(hil_windows *windows, const uint32_t *token, size_t size, bool good);
/* Writes the open windows: those of examples padded, the last one of the text without padding. */
hil_status hil_windows_end(hil_windows *windows, hil_packing *packing);

#endif
