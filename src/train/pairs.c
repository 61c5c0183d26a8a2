/* pairs.c - counts the pairs of a batch; checks that a model can be its own reference. */
#include "train/pairs.h"

#include "store/store.h"

hil_status hil_pairs_check(const hil_model *model)
{
    size_t adapters = 0;
    const char *other = NULL;
    for (size_t i = 0; i < hil_store_count(model->store); ++i) {
        const hil_param *p = hil_store_at(model->store, i);
        const hil_param_spec *spec = hil_param_spec_of(p);
        adapters += spec->adapter;
        if (!spec->adapter && hil_param_trainable(p) && !other) other = spec->name;
    }
    if (!adapters)
        return hil_fail(HIL_ERR_USAGE, "a model without adapter cannot be its own reference");
    if (other)
        return hil_fail(HIL_ERR_USAGE,
                        "--loss dpo: %s would be trained beside the adapter, but the model without "
                        "adapter is the reference and must not change (no --modules-to-save, and "
                        "\"bias\": \"none\" in adapter_config.json)",
                        other);
    return HIL_OK;
}

int64_t hil_pairs_count(const hil_batch *b)
{
    int64_t pairs = 0, documents = 0;
    bool learned = false; /* in the pair so far */
    for (int64_t i = 0; i < b->sequences * b->length; ++i) {
        int64_t at = i % b->length;
        if (at == 0) documents = 0;
        if (b->first[i] == at && documents++ % 2 == 0) learned = false;
        if (b->target[i] < 0 || learned) continue;
        learned = true;
        ++pairs;
    }
    return pairs;
}

hil_preferences hil_pairs_mean(const double sum[HIL_PREFERENCES], int64_t pairs)
{
    double each = pairs ? 1 / (double)pairs : 0;
    return (hil_preferences){
        .pairs = pairs,
        .reward_chosen = sum[HIL_PREFERENCE_REWARD_CHOSEN] * each,
        .reward_rejected = sum[HIL_PREFERENCE_REWARD_REJECTED] * each,
        .accuracy = sum[HIL_PREFERENCE_ACCURATE] * each,
        .logp_chosen = sum[HIL_PREFERENCE_LOGP_CHOSEN] * each,
        .logp_rejected = sum[HIL_PREFERENCE_LOGP_REJECTED] * each,
    };
}

void hil_pairs_sum(const hil_preferences *mean, double sum[HIL_PREFERENCES])
{
    double pairs = (double)mean->pairs;
    sum[HIL_PREFERENCE_REWARD_CHOSEN] += mean->reward_chosen * pairs;
    sum[HIL_PREFERENCE_REWARD_REJECTED] += mean->reward_rejected * pairs;
    sum[HIL_PREFERENCE_ACCURATE] += mean->accuracy * pairs;
    sum[HIL_PREFERENCE_LOGP_CHOSEN] += mean->logp_chosen * pairs;
    sum[HIL_PREFERENCE_LOGP_REJECTED] += mean->logp_rejected * pairs;
}
