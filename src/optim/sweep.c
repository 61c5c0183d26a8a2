/* sweep.c - blocks of all parameters, in order. A block's result depends on the block alone. */
#include "optim/sweep.h"

#include "base/alloc.h"

#include <math.h>
#include <stdatomic.h>

typedef struct sweep {
    hil_store *store;
    hil_param *param;
    const hil_rule *rule;
    hil_rule_step step;
    double *square;    /* per block */
    atomic_int status; /* of the tasks: any failure */
} sweep;

static void square_block_task(void *context, int64_t i, int thread)
{
    (void)thread;
    sweep *s = context;
    hil_block block;
    hil_status status = hil_store_block_acquire(s->store, s->param, i, &block);
    if (status != HIL_OK) {
        atomic_store(&s->status, (int)status);
        return;
    }
    double lane[HIL_SQUARES] = {0};
    if (block.gradients) hil_block_square(&block, lane);
    s->square[i] = hil_square_sum(lane);
    hil_store_block_release(s->store, s->param, i);
}

static hil_status task_status(const sweep *s)
{
    hil_status status = (hil_status)atomic_load(&s->status);
    if (status == HIL_OK) return HIL_OK;
    return hil_fail(status, "cannot reach the states of %s", hil_param_spec_of(s->param)->name);
}

hil_status hil_sweep_norm(hil_store *store, hil_pool *pool, double *norm)
{
    int64_t most = 1;
    for (size_t i = 0; i < hil_store_count(store); ++i) {
        int64_t blocks = hil_param_blocks(hil_store_at(store, i));
        if (blocks > most) most = blocks;
    }
    HIL_TRY(hil_pool_reserve(pool, (size_t)most * sizeof(double)));
    sweep s = {.store = store, .square = hil_pool_scratch(pool, 0)};
    double sum = 0;
    for (size_t i = 0; i < hil_store_count(store); ++i) {
        s.param = hil_store_at(store, i);
        int64_t blocks = hil_param_blocks(s.param);
        hil_pool_run(pool, square_block_task, &s, blocks);
        HIL_TRY(task_status(&s));
        for (int64_t b = 0; b < blocks; ++b) sum += s.square[b];
    }
    *norm = sqrt(sum);
    return HIL_OK;
}

static void update_block_task(void *context, int64_t i, int thread)
{
    (void)thread;
    sweep *s = context;
    hil_block block;
    hil_status status = hil_store_block_acquire(s->store, s->param, i, &block);
    if (status != HIL_OK) {
        atomic_store(&s->status, (int)status);
        return;
    }
    if (block.gradients) hil_rule_update(s->rule, &s->step, &block);
    hil_store_block_release(s->store, s->param, i);
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
        .factor = (float)factor,
    };
}

hil_status hil_sweep_update(hil_store *store, hil_pool *pool, const hil_optimizer *optimizer,
                            const hil_update *update)
{
    sweep s = {.store = store, .rule = optimizer->rule};
    for (size_t i = 0; i < hil_store_count(store); ++i) {
        s.param = hil_store_at(store, i);
        s.step = hil_update_numbers(update, optimizer, !hil_param_spec_of(s.param)->no_decay);
        hil_pool_run(pool, update_block_task, &s, hil_param_blocks(s.param));
        HIL_TRY(task_status(&s));
    }
    return HIL_OK;
}
