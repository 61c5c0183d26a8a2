/* choices.h - what dispatch and combine share: each of `rows` tokens has `chosen` places. */
#ifndef HIL_OPS_MIXTURE_CHOICES_H
#define HIL_OPS_MIXTURE_CHOICES_H

#include "ops/infer.h"
#include "ops/ops.h"
#include "ops/rows/rows.h"

enum { HIL_CHOICES_TASK = 16, HIL_CHOICES_PIECE = 1024 }; /* tokens of a task; numbers at a time */

typedef struct hil_choices {
    int64_t rows, chosen, cols;
} hil_choices;

/* Runs `task` for all tokens of the call, HIL_CHOICES_TASK at a time. */
static inline void hil_choices_run(hil_op_call *call, hil_task *task, int64_t rows)
{
    hil_pool_run(call->pool, task, call, (rows + HIL_CHOICES_TASK - 1) / HIL_CHOICES_TASK);
}

#endif
