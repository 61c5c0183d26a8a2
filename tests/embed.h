/* embed.h - the first segment of a test's model: looks up the rows of a table by token. */
#ifndef HIL_TESTS_EMBED_H
#define HIL_TESTS_EMBED_H

#include "base/fail.h"
#include "hilbert/nn.h"

static inline hil_status embed(hil_tape *t, void *table, const hil_values *in, hil_values *out)
{
    (void)in;
    hil_value *x;
    HIL_TRY(hil_embedding(t, hil_batch_tokens(t), table, &x));
    return hil_values_set(out, "x", x);
}

#endif
