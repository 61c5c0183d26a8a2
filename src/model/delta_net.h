/* delta_net.h - linear attention by the gated delta rule in place of a block's attention.

   [Note: delta net] The projections of x to q, k and v go through a causal convolution; a state for
   each head of values, which the gates b and a change at each position, stands for the keys and
   values of all positions before. What it gives is normalised per head and gated by SiLU of z. */
#ifndef HIL_MODEL_DELTA_NET_H
#define HIL_MODEL_DELTA_NET_H

#include "model/build.h"

typedef struct hil_delta_net {
    const hil_config *config;
    /* The projections of q, k, v and z, of b and a, those of the first head of keys before those of
       the next; NULL: they are apart: */
    hil_param *qkvz, *ba;
    hil_param *qkv, *z, *b, *a;
    hil_param *kernel;
    hil_param *each[3], *each_kernel[3]; /* of q, k and v, where they are apart, too */
    hil_param *norm;                     /* NULL: the layer has no linear attention */
    hil_delta_options options;
} hil_delta_net;

/* Registers the parameters of layer n but its output projection, if it has linear attention. */
hil_status hil_delta_net_build(hil_model *model, const hil_config *config, int64_t n,
                               hil_delta_net *out);
/* x (B, T, C) to what the output projection reads. */
hil_status hil_delta_net_run(hil_tape *t, const hil_delta_net *net, hil_value *x, hil_value **y);

#endif
