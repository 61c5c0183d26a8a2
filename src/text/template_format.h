/* template_format.h - one value in the width, precision and notation that a format asks for. */
#ifndef HIL_TEXT_TEMPLATE_FORMAT_H
#define HIL_TEXT_TEMPLATE_FORMAT_H

#include "text/template_value.h"

/* [[fill]align][sign][#][0][width][,][.precision][type], as Python has it. */
typedef struct hil_format {
    uint32_t fill;
    char align; /* < > ^ =; 0: the type's default */
    char sign;  /* + - space; 0 is - */
    bool alternate, zero;
    int width;
    char grouping; /* , or _; 0: none */
    int precision; /* -1: none */
    char type;     /* 0: none */
} hil_format;

hil_status hil_format_text(hil_render *r, const hil_format *f, const hil_chars *text);
hil_status hil_format_integer(hil_render *r, const hil_format *f, int64_t value);
hil_status hil_format_real(hil_render *r, const hil_format *f, double value);
/* format(value, spec) */
hil_status hil_format_value(hil_render *r, const hil_chars *spec, hil_variant value);

#endif
