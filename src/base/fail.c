/* fail.c - the last failure of each thread, as one line of text. */
#include "base/fail.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char message[1024];

hil_status hil_fail(hil_status code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    for (char *c = message; *c; ++c)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
    return code;
}

const char *hil_status_message(void)
{
    return message;
}
