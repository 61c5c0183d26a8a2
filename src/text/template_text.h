/* template_text.h - characters as Python's str sees them. */
#ifndef HIL_TEXT_TEMPLATE_TEXT_H
#define HIL_TEXT_TEMPLATE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* str.isspace(), also the characters that strip() removes. */
bool hil_char_is_space(uint32_t point);
/* Whether a character ends a line for splitlines(). */
bool hil_char_is_line_end(uint32_t point);
/* Whether repr() prints it unescaped. */
bool hil_char_is_printable(uint32_t point);

/* Case mappings return their number of characters, up to three. */
enum { HIL_CASE_MOST = 3 };
size_t hil_case_upper(uint32_t point, uint32_t out[HIL_CASE_MOST]);
size_t hil_case_lower(uint32_t point, uint32_t out[HIL_CASE_MOST]);
size_t hil_case_title(uint32_t point, uint32_t out[HIL_CASE_MOST]);
size_t hil_case_fold(uint32_t point, uint32_t out[HIL_CASE_MOST]);
bool hil_char_is_upper(uint32_t point);
bool hil_char_is_lower(uint32_t point);
bool hil_char_is_titled(uint32_t point);
bool hil_char_is_cased(uint32_t point);

#endif
