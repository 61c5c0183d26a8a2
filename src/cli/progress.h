/* progress.h - a run as a person sees it: one live line on a terminal, plain lines elsewhere. */
#ifndef HIL_CLI_PROGRESS_H
#define HIL_CLI_PROGRESS_H

#include "hilbert/run.h"

typedef struct hil_progress {
    FILE *out;
    bool live;       /* redraw one line in place */
    double begun_at; /* when this began */
    double shown_at; /* when a step or a progress line was last shown; 0: never */
    int64_t steps;   /* reported so far */
    double seconds;  /* that they took */
    struct hil_work {
        char what[128];
        uint64_t done;
        double begun_at, percent; /* percent: of the last plain line; negative: none yet */
        double wait;              /* seconds until the next plain line, growing */
    } work;                       /* long work other than steps, such as reading data */
    int drawn;                    /* columns of the live line now on the terminal */
    hil_observer hooks;           /* give this to the library */
} hil_progress;

typedef enum hil_talk { HIL_TALK_NORMAL, HIL_TALK_QUIET } hil_talk;

/* Writes to `out`, which is taken for a terminal when it is one. HIL_TALK_QUIET has no hooks. */
void hil_progress_begin(hil_progress *progress, FILE *out, hil_talk talk);
/* Clears the live line. */
void hil_progress_end(hil_progress *progress);

/* Seconds as "0.4 s", "59 s", "1:05" or "2:01:09". Returns out. */
const char *hil_progress_time(char out[32], double seconds);
/* Bytes as "612K", "1.5M" or "12G". Returns out. */
const char *hil_progress_bytes(char out[32], uint64_t bytes);
/* Prints what a run held, moved and waited for; nothing when no budget was set. */
void hil_progress_account(const hil_progress *progress, const hil_train_result *result);
/* A count with commas: "1,234,567". Returns out. */
const char *hil_progress_count(char out[32], int64_t count);

#endif
