/* template_unescape.h - replaces the backslash escapes in string constants of a template. */
#ifndef HIL_TEXT_TEMPLATE_UNESCAPE_H
#define HIL_TEXT_TEMPLATE_UNESCAPE_H

#include <stddef.h>

/* The most bytes that the result of `size` bytes may need. */
size_t hil_unescape_room(size_t size);
/* Unescapes `text`, valid UTF-8 without its quotes, like Python, and returns the size. Sets
 *problem if an escape is invalid. */
size_t hil_unescape(char *out, const char *text, size_t size, const char **problem);

#endif
