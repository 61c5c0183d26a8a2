/* param_store_step.c - one step of a parameter store: acquired tiles, gradients, the update. */
#include "train/param_store.h"
#include "store/pass.h"
#include "store/update.h"

#include <limits.h>
#include <math.h>

hil_status hil_param_store_begin(hil_param_store *store, hil_param_store_pass pass)
{
    if (store->phase != HIL_PARAM_STORE_IDLE)
        return hil_fail(HIL_ERR_USAGE, store->phase < HIL_PARAM_STORE_IDLE
                                           ? "hil_param_store_place comes before the first step"
                                           : "the last step was not ended");
    hil_status status = hil_store_pass_begin(
        store->states, pass == HIL_PARAM_STORE_TRAIN ? HIL_PASS_TRAIN : HIL_PASS_LOSS);
    if (status != HIL_OK) {
        hil_comm_fail(store->comm, status);
        hil_store_pass_drop(store->states);
        return status;
    }
    store->pass = pass;
    store->phase = HIL_PARAM_STORE_OPEN;
    for (size_t g = 0; g < store->groups; ++g)
        store->group[g].summing = store->group[g].given = store->group[g].late = false;
    return HIL_OK;
}

hil_status hil_param_store_mark(hil_param_store *store)
{
    if (store->phase != HIL_PARAM_STORE_OPEN)
        return hil_fail(HIL_ERR_USAGE, "hil_param_store_mark outside of a pass");
    return hil_store_pass_mark(store->states);
}

static hil_status check_use(const hil_param_store *store, const hil_stored_param *p, int64_t tile)
{
    const char *name = hil_param_spec_of(p->param)->name;
    assert(p->store == store);
    if (store->phase != HIL_PARAM_STORE_OPEN)
        return hil_fail(HIL_ERR_USAGE,
                        "%s can be acquired between hil_param_store_begin and hil_param_store_step"
                        " only",
                        name);
    if (tile < 0 || tile >= p->tiles)
        return hil_fail(HIL_ERR_USAGE, "%s has %lld tiles: there is no tile %lld", name,
                        (long long)p->tiles, (long long)tile);
    return HIL_OK;
}

hil_status hil_param_store_acquire(hil_param_store *store, hil_stored_param *param, int64_t tile,
                                   const void **weights)
{
    HIL_TRY(check_use(store, param, tile));
    HIL_TRY(hil_store_acquire(store->states, param->param, tile, weights));
    ++param->pins[tile];
    ++store->acquired;
    return HIL_OK;
}

void hil_param_store_release(hil_param_store *store, hil_stored_param *param, int64_t tile)
{
    assert(tile >= 0 && tile < param->tiles && param->pins[tile] > 0);
    hil_store_release(store->states, param->param, tile);
    --param->pins[tile];
    --store->acquired;
}

static hil_status check_gradient(const hil_param_store *store, const hil_stored_param *p,
                                 int64_t tile)
{
    HIL_TRY(check_use(store, p, tile));
    const char *name = hil_param_spec_of(p->param)->name;
    if (store->pass != HIL_PARAM_STORE_TRAIN)
        return hil_fail(HIL_ERR_USAGE, "%s has no gradient: this pass only reads", name);
    if (!hil_param_trainable(p->param))
        return hil_fail(HIL_ERR_USAGE, "%s has no gradient: it is frozen", name);
    if (store->rates[p->rates].frozen)
        return hil_fail(HIL_ERR_USAGE, "%s has no gradient: its rates, number %d, are frozen", name,
                        p->rates);
    return HIL_OK;
}

/* [Note: late gradients] A program that gives the gradients of a group when it expects no more may
   be wrong. What it adds then is a use of the parameters in a segment of its own, with its own sum
   and its own gradient, which the step gives; on all ranks, which make the same calls. */
static int late_segment(const hil_param_store_group *group)
{
    return INT_MAX - group->number;
}

hil_status hil_param_store_add_gradient(hil_param_store *store, hil_stored_param *param,
                                        int64_t tile, const void *gradient, const char *dtype)
{
    hil_param_store_group *group = &store->group[param->group];
    hil_dtype of;
    HIL_TRY(check_gradient(store, param, tile));
    HIL_TRY(hil_dtype_parse(dtype, &of));
    int segment = group->given ? late_segment(group) : group->number;
    if (group->given) HIL_TRY(hil_store_declare_use(store->states, param->param, segment));
    HIL_TRY(hil_store_sum_add(store->states, param->param, segment, tile, gradient, of));
    *(group->given ? &group->late : &group->summing) = true;
    return HIL_OK;
}

hil_status hil_param_store_gradient_acquire(hil_param_store *store, hil_stored_param *param,
                                            int64_t tile, float **sum)
{
    hil_param_store_group *group = &store->group[param->group];
    HIL_TRY(check_gradient(store, param, tile));
    if (group->given)
        return hil_fail(HIL_ERR_USAGE, "gradients of %s, in group %d, were given in this step",
                        hil_param_spec_of(param->param)->name, group->number);
    HIL_TRY(hil_store_sum_acquire(store->states, param->param, group->number, tile, sum, NULL));
    group->summing = true;
    ++group->pins;
    ++param->sum_pins[tile];
    ++store->acquired;
    return HIL_OK;
}

void hil_param_store_gradient_release(hil_param_store *store, hil_stored_param *param, int64_t tile)
{
    hil_param_store_group *group = &store->group[param->group];
    assert(tile >= 0 && tile < param->tiles && param->sum_pins[tile] > 0);
    hil_store_sum_release(store->states, param->param, group->number, tile);
    --group->pins;
    --param->sum_pins[tile];
    --store->acquired;
}

static hil_status give(hil_param_store *store, hil_param_store_group *group)
{
    if (group->pins)
        return hil_fail(HIL_ERR_USAGE, "group %d has %d gradients that were not released",
                        group->number, group->pins);
    HIL_TRY(hil_store_give_gradients(store->states, group->number));
    group->given = group->summing || store->comm;
    return HIL_OK;
}

hil_status hil_param_store_give_gradients(hil_param_store *store, int number)
{
    if (store->phase != HIL_PARAM_STORE_OPEN || store->pass != HIL_PARAM_STORE_TRAIN)
        return hil_fail(HIL_ERR_USAGE, "gradients can be given in a training step only");
    for (size_t g = 0; g < store->groups; ++g) {
        hil_param_store_group *group = &store->group[g];
        if (group->number != number) continue;
        if (group->given)
            return hil_fail(HIL_ERR_USAGE, "gradients of group %d were given in this step", number);
        return give(store, group);
    }
    return hil_fail(HIL_ERR_USAGE, "there is no group %d", number);
}

static hil_status check_released(const hil_param_store *store)
{
    if (store->acquired == 0) return HIL_OK;
    return hil_fail(HIL_ERR_USAGE, "%lld tiles were acquired and not released",
                    (long long)store->acquired);
}

hil_status hil_param_store_step(hil_param_store *store, double lr, double *norm)
{
    if (store->phase != HIL_PARAM_STORE_OPEN || store->pass != HIL_PARAM_STORE_TRAIN)
        return hil_fail(HIL_ERR_USAGE, "hil_param_store_step is called once, in a training pass");
    HIL_TRY(check_released(store));
    for (size_t g = 0; g < store->groups; ++g) {
        hil_param_store_group *group = &store->group[g];
        if ((group->summing || store->comm) && !group->given) HIL_TRY(give(store, group));
        if (group->late) HIL_TRY(hil_store_give_gradients(store->states, late_segment(group)));
    }
    store->phase = HIL_PARAM_STORE_UPDATED;
    HIL_TRY(hil_store_pass_end(store->states));
    HIL_TRY(hil_store_norm(store->states, norm));
    double ranks = store->average ? hil_comm_size(store->comm) : 1;
    double scale = (double)store->scaling.scale * ranks;
    *norm /= scale;
    bool finite = isfinite(*norm);
    if (!finite && !hil_scaling_skips(&store->scaling))
        return hil_fail(HIL_ERR_NUMERIC, "the gradient is not a finite number");
    hil_scaling_advance(&store->scaling, finite);
    if (!finite) return HIL_OK;
    hil_update update = {.lr = lr, .norm = *norm, .loss_scale = scale};
    return hil_param_store_update(store, &update);
}

hil_status hil_param_store_end(hil_param_store *store)
{
    if (store->phase != HIL_PARAM_STORE_OPEN && store->phase != HIL_PARAM_STORE_UPDATED)
        return hil_fail(HIL_ERR_USAGE, "no step was begun");
    HIL_TRY(check_released(store));
    hil_status status = HIL_OK;
    if (store->phase == HIL_PARAM_STORE_OPEN) status = hil_store_pass_end(store->states);
    hil_store_step_end(store->states);
    store->phase = HIL_PARAM_STORE_IDLE;
    return status;
}

hil_status hil_param_store_wait(hil_param_store *store)
{
    return store->phase < HIL_PARAM_STORE_IDLE ? HIL_OK : hil_store_sweep_wait(store->states);
}
