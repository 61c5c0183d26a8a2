/* param_store_rates.c - learning rates, decay and betas of a parameter store's parameters, and the
   numbers of an update that follow from them. */
#include "train/param_store.h"

#include "base/alloc.h"

#include <math.h>

#define RATES_MOST 65536

static hil_status check_number(int number)
{
    if (number >= 0 && number < RATES_MOST) return HIL_OK;
    return hil_fail(HIL_ERR_USAGE, "rates %d are invalid: their numbers are 0 to %d", number,
                    RATES_MOST - 1);
}

hil_status hil_param_store_reserve_rates(hil_param_store *store, int number)
{
    const hil_optimizer *o = &store->optimizer;
    HIL_TRY(check_number(number));
    HIL_TRY(HIL_GROW(&store->rates, &store->rates_room, number + 1));
    while (store->rates_count <= (size_t)number)
        store->rates[store->rates_count++] =
            (hil_param_store_rates){.lr = 1,
                                    .weight_decay = o->weight_decay,
                                    .beta1 = o->beta1,
                                    .beta2 = o->beta2,
                                    .eps = o->eps};
    return HIL_OK;
}

hil_status hil_param_store_set_rates(hil_param_store *store, int number,
                                     const hil_param_store_rates *rates)
{
    bool betas = rates->beta1 >= 0 && rates->beta1 < 1 && rates->beta2 >= 0 && rates->beta2 < 1;
    bool finite = isfinite(rates->lr) && isfinite(rates->weight_decay);
    if (!finite || rates->lr < 0 || rates->weight_decay < 0 || !(rates->eps >= 0) || !betas)
        return hil_fail(HIL_ERR_USAGE,
                        "rates %d are invalid: lr %g, weight decay %g, betas %g and %g (below 1), "
                        "eps %g; none may be negative",
                        number, rates->lr, rates->weight_decay, rates->beta1, rates->beta2,
                        rates->eps);
    HIL_TRY(hil_param_store_reserve_rates(store, number));
    store->rates[number] = *rates;
    return HIL_OK;
}

hil_status hil_param_store_get_rates(const hil_param_store *store, int number,
                                     hil_param_store_rates *out)
{
    HIL_TRY(check_number(number));
    if ((size_t)number >= store->rates_count)
        return hil_fail(HIL_ERR_USAGE, "no parameter has rates %d", number);
    *out = store->rates[number];
    return HIL_OK;
}

int64_t hil_param_store_updates(const hil_stored_param *param)
{
    return param->updates;
}

hil_status hil_param_store_set_updates(hil_stored_param *param, int64_t updates)
{
    if (updates < 0)
        return hil_fail(HIL_ERR_INPUT, "%s: %lld updates are invalid",
                        hil_param_spec_of(param->param)->name, (long long)updates);
    param->updates = updates;
    return HIL_OK;
}

static hil_rule_step numbers_of(const hil_param_store *store, const hil_stored_param *p,
                                const hil_update *update)
{
    const hil_param_store_rates *r = &store->rates[p->rates];
    hil_optimizer optimizer = store->optimizer;
    hil_update own = *update;
    optimizer.weight_decay = r->weight_decay;
    optimizer.beta1 = r->beta1;
    optimizer.beta2 = r->beta2;
    optimizer.eps = r->eps;
    own.lr *= r->lr;
    own.updates = p->updates;
    return hil_update_numbers(&own, &optimizer, !hil_param_spec_of(p->param)->no_decay);
}

/* Whether both get the same numbers in this update. */
static bool is_alike(const hil_stored_param *a, const hil_stored_param *b)
{
    return a->rates == b->rates && a->updates == b->updates &&
           hil_param_spec_of(a->param)->no_decay == hil_param_spec_of(b->param)->no_decay;
}

hil_status hil_param_store_update(hil_param_store *store, const hil_update *update)
{
    const hil_stored_param *last = NULL;
    size_t steps = 0;
    HIL_TRY(HIL_GROW(&store->numbers, &store->numbers_room, store->params));
    for (size_t i = 0; i < store->params; ++i) {
        hil_stored_param *p = store->param[i];
        if (!hil_param_is_given(store->states, p->param)) continue;
        ++p->updates;
        if (!last || !is_alike(last, p)) store->numbers[steps++] = numbers_of(store, p, update);
        hil_param_set_numbers(p->param, (int)steps - 1);
        last = p;
    }
    ++store->updates;
    return hil_optimizer_update_by(store->states, store->optimizer.rule, store->numbers, steps);
}
