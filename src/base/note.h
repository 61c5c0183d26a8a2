/* note.h - a sentence for the user, through the observer of a job. */
#ifndef HIL_BASE_NOTE_H
#define HIL_BASE_NOTE_H

#include "hilbert/observer.h"

#include "base/fail.h"

/* Does nothing if observer is NULL. */
void hil_note(const hil_observer *observer, const char *format, ...) HIL_PRINTF(2, 3);

#endif
