/* update.c - computes the numbers of a step's update, and starts the store's sweep with them. */
#include "optim/update.h"

#include "base/alloc.h"
#include "store/update.h"

#include <math.h>
#include <string.h>

static void update_block(const void *rule, const hil_block *block)
{
    const hil_update_rule *s = rule;
    hil_rule_update(s->rule, &s->step[block->numbers], block);
}

hil_rule_step hil_update_numbers(const hil_update *update, const hil_optimizer *o, bool decay)
{
    double factor = 1 / update->loss_scale, updates = (double)update->updates;
    double clip = o->clip > 0 ? o->clip / (update->norm + 1e-6) : 1;
    if (clip < 1) factor *= clip;
    bool corrected = o->rule->kind != HIL_LION;
    return (hil_rule_step){
        .shrink = (float)(decay ? 1 - update->lr * o->weight_decay : 1),
        .beta1_rest = (float)(1 - o->beta1),
        .beta2 = (float)o->beta2,
        .beta2_rest = (float)(1 - o->beta2),
        .rate = (float)(corrected ? update->lr / (1 - pow(o->beta1, updates)) : update->lr),
        .root = (float)(1 / sqrt(1 - pow(o->beta2, updates))),
        .eps = (float)o->eps,
        .lr = (float)update->lr,
        .factor = (float)factor,
    };
}

hil_status hil_optimizer_update_by(hil_store *store, const hil_rule *rule,
                                   const hil_rule_step *step, size_t steps)
{
    size_t bytes = offsetof(hil_update_rule, step) + steps * sizeof *step;
    _Alignas(hil_update_rule) char few[offsetof(hil_update_rule, step) + 2 * sizeof *step];
    char *copy = few; /* training makes no allocation in a step */
    if (bytes > sizeof few) HIL_TRY(HIL_ALLOC(bytes, &copy));
    hil_update_rule *all = (hil_update_rule *)copy;
    all->rule = rule;
    memcpy(all->step, step, steps * sizeof *step);
    hil_status status = hil_store_update(store, update_block, all, bytes);
    if (copy != few) hil_free(copy);
    return status;
}

hil_status hil_optimizer_update(hil_store *store, const hil_optimizer *optimizer,
                                const hil_update *update)
{
    hil_rule_step step[2]; /* without and with weight decay */
    for (int decay = 0; decay < 2; ++decay)
        step[decay] = hil_update_numbers(update, optimizer, decay);
    return hil_optimizer_update_by(store, optimizer->rule, step, 2);
}
