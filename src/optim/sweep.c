/* sweep.c - blocks of all parameters, in order. A block's result depends on the block alone. */
#include "optim/sweep.h"

#include "optim/adamw.h"

#include "base/alloc.h"

#include <math.h>
#include <stdatomic.h>

typedef struct sweep {
    hil_store *store;
    hil_param *param;
    hil_adamw rule;
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
    s->square[i] = block.gradients ? hil_block_square(&block) : 0;
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
    if (block.gradients) hil_adamw_block(&s->rule, &block);
    hil_store_block_release(s->store, s->param, i);
}

hil_status hil_sweep_update(hil_store *store, hil_pool *pool, const hil_adamw_options *options,
                            double lr, double norm, int64_t step)
{
    double clip = options->clip > 0 ? options->clip / (norm + 1e-6) : 1;
    sweep s = {.store = store};
    s.rule = (hil_adamw){
        .beta1_rest = (float)(1 - options->beta1),
        .beta2 = (float)options->beta2,
        .beta2_rest = (float)(1 - options->beta2),
        .rate = (float)(lr / (1 - pow(options->beta1, (double)step))),
        .root = (float)(1 / sqrt(1 - pow(options->beta2, (double)step))),
        .eps = (float)options->eps,
        .clip = clip < 1 ? (float)clip : 1,
    };
    for (size_t i = 0; i < hil_store_count(store); ++i) {
        s.param = hil_store_at(store, i);
        bool decay = !hil_param_spec_of(s.param)->no_decay;
        s.rule.shrink = (float)(decay ? 1 - lr * options->weight_decay : 1);
        hil_pool_run(pool, update_block_task, &s, hil_param_blocks(s.param));
        HIL_TRY(task_status(&s));
    }
    return HIL_OK;
}
