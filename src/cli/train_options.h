/* train_options.h - the table of train's options. */
#ifndef HIL_CLI_TRAIN_OPTIONS_H
#define HIL_CLI_TRAIN_OPTIONS_H

#include "cli/options.h"
#include "hilbert/deepspeed.h"

typedef struct hil_train_values {
    hil_train_options run;
    const char *config;
    const char *deepspeed_file;
    hil_deepspeed_config deepspeed; /* of that file */
    bool quiet, json;
    int ranks;           /* of plan */
    const char *gpu;     /* of plan */
    int64_t context;     /* of plan */
    const char *cluster; /* of plan */
    bool largest;        /* of plan */
} hil_train_values;

enum { HIL_TRAIN_ROWS = 74 };
extern const hil_option hil_train_rows[HIL_TRAIN_ROWS];

/* Reads the file of --deepspeed, if there is one, into options that were not given. An option that
   says otherwise than the file is an error that names both. Strings are borrowed from
   values->deepspeed, which the caller frees, even after a failure. */
hil_status hil_train_values_merge(hil_train_values *values, hil_parsed *parsed, int64_t ranks);
/* Notes what of that file is done otherwise here, or has no effect. */
void hil_train_values_report(const hil_train_values *values, const hil_observer *observer);

#endif
