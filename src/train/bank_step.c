/* bank_step.c - one step of a bank: acquired tiles, gradients, the update. */
#include "train/bank.h"
#include "store/pass.h"
#include "store/update.h"

#include <math.h>

hil_status hil_bank_begin(hil_bank *bank, hil_bank_pass pass)
{
    if (bank->phase != HIL_BANK_IDLE)
        return hil_fail(HIL_ERR_USAGE, bank->phase < HIL_BANK_IDLE
                                           ? "hil_bank_place comes before the first step"
                                           : "the last step was not ended");
    hil_status status =
        hil_store_pass_begin(bank->store, pass == HIL_BANK_TRAIN ? HIL_PASS_TRAIN : HIL_PASS_LOSS);
    if (status != HIL_OK) {
        hil_store_pass_drop(bank->store);
        return status;
    }
    bank->pass = pass;
    bank->phase = HIL_BANK_OPEN;
    for (size_t g = 0; g < bank->groups; ++g) bank->group[g].summing = bank->group[g].given = false;
    return HIL_OK;
}

hil_status hil_bank_mark(hil_bank *bank)
{
    if (bank->phase != HIL_BANK_OPEN)
        return hil_fail(HIL_ERR_USAGE, "hil_bank_mark outside of a pass");
    return hil_store_pass_mark(bank->store);
}

static hil_status check_use(const hil_bank *bank, const hil_bank_param *p, int64_t tile)
{
    const char *name = hil_param_spec_of(p->param)->name;
    assert(p->bank == bank);
    if (bank->phase != HIL_BANK_OPEN)
        return hil_fail(HIL_ERR_USAGE,
                        "%s can be acquired between hil_bank_begin and hil_bank_step"
                        " only",
                        name);
    if (tile < 0 || tile >= p->tiles)
        return hil_fail(HIL_ERR_USAGE, "%s has %lld tiles: there is no tile %lld", name,
                        (long long)p->tiles, (long long)tile);
    return HIL_OK;
}

hil_status hil_bank_acquire(hil_bank *bank, hil_bank_param *param, int64_t tile,
                            const void **weights)
{
    HIL_TRY(check_use(bank, param, tile));
    HIL_TRY(hil_store_acquire(bank->store, param->param, tile, weights));
    ++param->pins[tile];
    ++bank->acquired;
    return HIL_OK;
}

void hil_bank_release(hil_bank *bank, hil_bank_param *param, int64_t tile)
{
    assert(tile >= 0 && tile < param->tiles && param->pins[tile] > 0);
    hil_store_release(bank->store, param->param, tile);
    --param->pins[tile];
    --bank->acquired;
}

hil_status hil_bank_gradient_acquire(hil_bank *bank, hil_bank_param *param, int64_t tile,
                                     float **sum)
{
    hil_bank_group *group = &bank->group[param->group];
    HIL_TRY(check_use(bank, param, tile));
    const char *name = hil_param_spec_of(param->param)->name;
    if (bank->pass != HIL_BANK_TRAIN || !hil_param_trainable(param->param))
        return hil_fail(HIL_ERR_USAGE, "%s has no gradient: %s", name,
                        bank->pass == HIL_BANK_TRAIN ? "it is frozen" : "this pass only reads");
    if (group->given)
        return hil_fail(HIL_ERR_USAGE, "gradients of %s, in group %d, were given in this step",
                        name, group->number);
    HIL_TRY(hil_store_sum_acquire(bank->store, param->param, group->number, tile, sum, NULL));
    group->summing = true;
    ++group->pins;
    ++param->sum_pins[tile];
    ++bank->acquired;
    return HIL_OK;
}

void hil_bank_gradient_release(hil_bank *bank, hil_bank_param *param, int64_t tile)
{
    hil_bank_group *group = &bank->group[param->group];
    assert(tile >= 0 && tile < param->tiles && param->sum_pins[tile] > 0);
    hil_store_sum_release(bank->store, param->param, group->number, tile);
    --group->pins;
    --param->sum_pins[tile];
    --bank->acquired;
}

static hil_status give(hil_bank *bank, hil_bank_group *group)
{
    if (group->pins)
        return hil_fail(HIL_ERR_USAGE, "group %d has %d gradients that were not released",
                        group->number, group->pins);
    HIL_TRY(hil_store_give_gradients(bank->store, group->number));
    group->given = group->summing;
    return HIL_OK;
}

hil_status hil_bank_give_gradients(hil_bank *bank, int number)
{
    if (bank->phase != HIL_BANK_OPEN || bank->pass != HIL_BANK_TRAIN)
        return hil_fail(HIL_ERR_USAGE, "gradients can be given in a training step only");
    for (size_t g = 0; g < bank->groups; ++g) {
        hil_bank_group *group = &bank->group[g];
        if (group->number != number) continue;
        if (group->given)
            return hil_fail(HIL_ERR_USAGE, "gradients of group %d were given in this step", number);
        return give(bank, group);
    }
    return hil_fail(HIL_ERR_USAGE, "there is no group %d", number);
}

static hil_status check_released(const hil_bank *bank)
{
    if (bank->acquired == 0) return HIL_OK;
    return hil_fail(HIL_ERR_USAGE, "%lld tiles were acquired and not released",
                    (long long)bank->acquired);
}

hil_status hil_bank_step(hil_bank *bank, double lr, double *norm)
{
    if (bank->phase != HIL_BANK_OPEN || bank->pass != HIL_BANK_TRAIN)
        return hil_fail(HIL_ERR_USAGE, "hil_bank_step is called once, in a training pass");
    HIL_TRY(check_released(bank));
    for (size_t g = 0; g < bank->groups; ++g)
        if (bank->group[g].summing && !bank->group[g].given) HIL_TRY(give(bank, &bank->group[g]));
    bank->phase = HIL_BANK_UPDATED;
    HIL_TRY(hil_store_pass_end(bank->store));
    HIL_TRY(hil_store_norm(bank->store, norm));
    double scale = (double)bank->scaling.scale;
    *norm /= scale;
    bool finite = isfinite(*norm);
    if (!finite && scale <= 1)
        return hil_fail(HIL_ERR_NUMERIC, "the gradient is not a finite number");
    hil_scaling_advance(&bank->scaling, finite);
    if (!finite) return HIL_OK;
    hil_update update = {
        .lr = lr, .norm = *norm, .loss_scale = scale, .updates = bank->updates + 1};
    HIL_TRY(hil_optimizer_update(bank->store, &bank->optimizer, &update));
    ++bank->updates;
    return HIL_OK;
}

hil_status hil_bank_end(hil_bank *bank)
{
    if (bank->phase != HIL_BANK_OPEN && bank->phase != HIL_BANK_UPDATED)
        return hil_fail(HIL_ERR_USAGE, "no step was begun");
    HIL_TRY(check_released(bank));
    hil_status status = HIL_OK;
    if (bank->phase == HIL_BANK_OPEN) status = hil_store_pass_end(bank->store);
    hil_store_step_end(bank->store);
    bank->phase = HIL_BANK_IDLE;
    return status;
}

hil_status hil_bank_wait(hil_bank *bank)
{
    return bank->phase < HIL_BANK_IDLE ? HIL_OK : hil_store_sweep_wait(bank->store);
}
