/* note.c - a sentence for the user. */
#include "base/note.h"

#include <stdarg.h>
#include <stdio.h>

void hil_note(const hil_observer *observer, const char *format, ...)
{
    char line[1024];
    if (!observer || !observer->note) return;
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    observer->note(observer->context, line);
}
