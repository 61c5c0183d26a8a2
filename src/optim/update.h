/* update.h - the update of all parameters at the end of a step. */
#ifndef HIL_OPTIM_UPDATE_H
#define HIL_OPTIM_UPDATE_H

#include "optim/rule.h"
#include "store/update.h"

typedef struct hil_optimizer {
    const hil_rule *rule;
    double beta1, beta2, eps, weight_decay;
    double clip; /* largest gradient norm, 0: none */
} hil_optimizer;

typedef struct hil_update {
    double lr;
    double norm;       /* of the gradients, divided by the loss scale */
    double loss_scale; /* by which the gradients are multiplied */
    int64_t updates;   /* so far, including this one */
} hil_update;

/* The `rule` of hil_store_update, and of a device's update. */
typedef struct hil_update_rule {
    const hil_rule *rule;
    hil_rule_step step[]; /* by hil_block.numbers */
} hil_update_rule;

/* Starts the update of every parameter that has a gradient; see hil_store_update. */
hil_status hil_optimizer_update(hil_store *store, const hil_optimizer *optimizer,
                                const hil_update *update);
/* The same with numbers for each parameter: step[numbers] of hil_param_set_numbers. They are
   copied. */
hil_status hil_optimizer_update_by(hil_store *store, const hil_rule *rule,
                                   const hil_rule_step *step, size_t steps);
/* The numbers for a parameter with or without weight decay. */
hil_rule_step hil_update_numbers(const hil_update *update, const hil_optimizer *optimizer,
                                 bool decay);

#endif
