/* latent.h - attention whose keys and values come from one small latent vector of each position.

   [Note: latent attention] Of a head of queries and keys the first numbers (`still`) do not turn,
   the last (`head_dim`) do; the latter are the same in all heads of keys, so that the file has them
   once. Values have heads of another size.

   [Note: indexer] DeepSeek-V3.2 and GLM-5 have an indexer beside it, which chooses `index_topk`
   keys for each query. In sequences of at most so many positions all are chosen, and hilbert
   computes no others (hil_config_longest): the indexer's parameters are read and written, but
   nothing uses them. They get no gradient in transformers either. */
#ifndef HIL_MODEL_LATENT_H
#define HIL_MODEL_LATENT_H

#include "model/build.h"

typedef struct hil_latent {
    const hil_config *config;
    hil_param *q;                                    /* NULL: through a latent vector, too: */
    hil_param *q_down, *q_down_bias, *q_norm, *q_up; /* NULL: not */
    hil_param *kv_down, *kv_down_bias, *kv_norm, *kv_up;
} hil_latent;

/* Registers the parameters of layer n, if the config has latent attention. `part` is between
   "self_attn" and their names. */
hil_status hil_latent_build(hil_model *model, const hil_config *config, int64_t n, const char *part,
                            hil_latent *out);
/* x (B, T, C) to the queries, keys and values of attention, as heads; `rope` NULL: nothing turns.
 */
hil_status hil_latent_project(hil_tape *t, const hil_latent *latent, const hil_rope_table *rope,
                              hil_value *x, hil_value *qkv[3]);

#endif
