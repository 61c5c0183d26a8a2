/* template_unescape.h - string constants of a template: what their backslashes mean. */
#ifndef HIL_TEXT_TEMPLATE_UNESCAPE_H
#define HIL_TEXT_TEMPLATE_UNESCAPE_H

#include <stddef.h>

/* How much room the result of `size` bytes may need. */
size_t hil_unescape_room(size_t size);
/* Writes what `text`, valid UTF-8 without its quotes, means in Python, and gives its size. *problem
   is left alone when it has a meaning. */
size_t hil_unescape(char *out, const char *text, size_t size, const char **problem);

#endif
