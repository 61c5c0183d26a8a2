/* rule.h - update rules on one block: the same operations in the same order on every machine. */
#ifndef HIL_OPTIM_RULE_H
#define HIL_OPTIM_RULE_H

#include "kernels/block.h"

typedef enum hil_rule_kind {
    HIL_ADAMW,
    HIL_LION,
    HIL_ADAMW8BIT,
    HIL_MUON,
    HIL_RULES
} hil_rule_kind;

typedef struct hil_rule {
    const char *name;
    hil_rule_kind kind;
    int moments; /* per element */
    hil_codec codec;
    const struct hil_op *matrix; /* see hil_store_options */
    double beta2;                /* the default */
    bool in_parts;               /* see hil_store_options */
} hil_rule;

extern const hil_rule hil_rules[HIL_RULES];
hil_status hil_rule_find(const char *name, const hil_rule **out);

#define HIL_MUON_MOMENTUM 0.95f
#define HIL_MUON_REST 0.05f /* 1 - momentum */

/* The numbers of one step for one parameter, rounded to fp32 once. */
typedef struct hil_rule_step {
    float shrink;            /* 1 - lr * weight_decay */
    float beta1_rest;        /* 1 - beta1 */
    float beta2, beta2_rest; /* and 1 - beta2 */
    float rate;              /* AdamW: lr / (1 - beta1^updates); Lion: lr */
    float root;              /* 1 / sqrt(1 - beta2^updates) */
    float eps;
    float factor; /* of the gradients: clipping and the inverse of the loss scale */
    float lr;
} hil_rule_step;

/* For the gradient g = factor * sum of the block's gradients:
   AdamW  m = m + (1 - beta1) (g - m)
          v = beta2 v + (1 - beta2) g^2
          w = shrink w - rate m / (sqrt(v) root + eps)
   Lion   u = m + (1 - beta1) (g - m)
          w = shrink w - rate sign(u)
          m = m + (1 - beta2) (g - m)
   Muon   of a matrix' block before the sweep: m = m + (1 - momentum) (g - m)
                                               u = g + momentum (m - g)
          of a matrix, whose u became an orthogonal matrix: w = shrink w - lr u
          of all else: AdamW; see [Note: matrix scope]
   AdamW with 8-bit moments decodes m and v, runs AdamW and encodes them again; see [Note: q8]. */
void hil_rule_update(const hil_rule *rule, const hil_rule_step *step, const hil_block *block);

#endif
