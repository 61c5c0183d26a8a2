/* mamba.h - the state space layer of Mamba-2 in place of a block's attention.

   [Note: mamba] x is projected to a gate z, to x, B and C, which go through a causal convolution,
   and to a step for each head. A state for each head stands for all positions before. What it gives
   is gated by SiLU of z and then normalised, in as many groups as B and C have; or the other way
   round, or not normalised. */
#ifndef HIL_MODEL_MAMBA_H
#define HIL_MODEL_MAMBA_H

#include "model/build.h"

typedef struct hil_mamba {
    const hil_config *config;
    hil_param *in, *in_bias;         /* `in` NULL: the layer has none */
    hil_param *kernel, *kernel_bias; /* biases NULL: there are none */
    hil_param *norm;                 /* NULL: there is none */
    hil_param *out, *out_bias;       /* only of one beside attention */
    hil_state_space_options options;
} hil_mamba;

/* Registers the parameters of layer n but its output projection, if it has a state space. */
hil_status hil_mamba_build(hil_model *model, const hil_config *config, int64_t n, hil_mamba *out);
/* x (B, T, C) to what the output projection reads. */
hil_status hil_mamba_run(hil_tape *t, const hil_mamba *mamba, hil_value *x, hil_value **y);
/* *sum += the whole layer of x, if it is beside attention. */
hil_status hil_mamba_add(hil_tape *t, const hil_mamba *mamba, hil_value *x, hil_value **sum);

#endif
