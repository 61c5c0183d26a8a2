/* progress.h - shows a run to the user: a panel or one live line on a terminal, plain lines
 * elsewhere. */
#ifndef HIL_CLI_PROGRESS_H
#define HIL_CLI_PROGRESS_H

#include "cli/panel.h"

typedef struct hil_progress {
    FILE *out;
    bool live;       /* redraw one line in place */
    double begun_at; /* time of hil_progress_begin */
    double shown_at; /* time of the last line about a step or other work; 0: none */
    int64_t steps;   /* reported so far */
    double seconds;  /* time of these steps */
    struct hil_progress_work {
        char what[128];
        uint64_t done;
        double begun_at, percent; /* percent in the last plain line; negative: none yet */
        double wait;              /* seconds until the next plain line; grows */
    } work;                       /* long work other than steps, such as reading data */
    int drawn;                    /* columns of the live line now on the terminal */
    bool panelled;                /* steps are shown in the panel, not in the live line */
    hil_panel panel;
    hil_observer hooks; /* to pass to the library */
} hil_progress;

typedef enum hil_verbosity { HIL_VERBOSITY_NORMAL, HIL_VERBOSITY_QUIET } hil_verbosity;

/* Writes to `out` (borrowed until end), with a live line if it is a terminal. If quiet, `hooks` has
   no functions. */
void hil_progress_begin(hil_progress *progress, FILE *out, hil_verbosity verbosity);
/* Clears the live line. */
void hil_progress_end(hil_progress *progress);

/* Seconds as "0.4 s", "59 s", "1:05" or "2:01:09". Returns out. */
const char *hil_progress_time(char out[32], double seconds);
/* Bytes as "612K", "1.5M" or "12G". Returns out. */
const char *hil_progress_bytes(char out[32], uint64_t bytes);
/* Prints peaks, transfers and stalls of a run; nothing if no budget was set. */
void hil_progress_account(const hil_progress *progress, const hil_train_result *result);
/* A count as "1,234,567". Returns out. */
const char *hil_progress_count(char out[32], int64_t count);

#endif
