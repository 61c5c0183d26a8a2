/* op_refused.h - checks that an operation refuses shapes. */
#ifndef HIL_TESTS_OP_REFUSED_H
#define HIL_TESTS_OP_REFUSED_H

#include "ops/op_check.h"

/* infer refuses the case with a line that contains `words`. */
#define OP_REFUSED(c, words)                                                                       \
    do {                                                                                           \
        hil_op_call call_ = op_call_of(c);                                                         \
        CHECK_FAILS((c)->op->infer(&call_), HIL_ERR_USAGE, words);                                 \
    } while (0)

static inline hil_op_call op_call_of(const op_case *c)
{
    hil_op_call call = {.op = c->op,
                        .attr = c->attr,
                        .compute = HIL_F32,
                        .ins = c->ins,
                        .outs = c->outs,
                        .params = c->params};
    for (int i = 0; i < c->ins; ++i) {
        call.in[i].dtype = c->ids[i] ? HIL_I32 : c->in_dtype[i];
        call.in[i].shape = c->in_shape[i];
    }
    for (int i = 0; i < c->params; ++i)
        call.param[i] =
            (hil_op_param){HIL_F32, c->rows[i], c->cols[i], c->rows[i] + 1, true, false};
    return call;
}

#endif
