/* train_options.h - the table of train's options. */
#ifndef HIL_CLI_TRAIN_OPTIONS_H
#define HIL_CLI_TRAIN_OPTIONS_H

#include "cli/options.h"

typedef struct hil_train_values {
    hil_train_options run;
    const char *config;
    bool quiet, json;
    int ranks;       /* of plan */
    const char *gpu; /* of plan */
    int64_t context; /* of plan */
} hil_train_values;

enum { HIL_TRAIN_ROWS = 59 };
extern const hil_option hil_train_rows[HIL_TRAIN_ROWS];

#endif
