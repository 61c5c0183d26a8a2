/* deepspeed_batch.c - the arithmetic of ds_config.json: batch sizes and the scheduler's curve. */
#include "hilbert/deepspeed.h"

#include "base/fail.h"

static int64_t whole(const hil_deepspeed_number *number)
{
    return number->origin == HIL_DEEPSPEED_GIVEN ? (int64_t)number->value : 0;
}

static bool is_auto(const hil_deepspeed_number *number)
{
    return number->origin == HIL_DEEPSPEED_AUTO;
}

hil_status hil_deepspeed_complete(const hil_deepspeed_config *c, int64_t ranks,
                                  hil_deepspeed_batches *out)
{
    int64_t b = whole(&c->batch), m = whole(&c->micro_batch), a = whole(&c->accumulation);
    bool once = !a && !is_auto(&c->accumulation) && !is_auto(m ? &c->batch : &c->micro_batch);
    *out = (hil_deepspeed_batches){b, m, a};
    if (b && m) {
        if (!a) a = b / m / ranks;
    } else if (b || m) {
        if (once) a = 1;
        if (!a) return HIL_OK;
        if (!m) m = b / ranks / a;
        if (!b && (double)m * (double)a * (double)ranks <= 1e15) b = m * a * ranks;
    } else {
        return HIL_OK;
    }
    if ((double)b != (double)m * (double)a * (double)ranks)
        return hil_fail(HIL_ERR_USAGE,
                        "train_batch_size %lld is not train_micro_batch_size_per_gpu %lld x "
                        "gradient_accumulation_steps %lld x %lld rank%s",
                        (long long)b, (long long)m, (long long)a, (long long)ranks,
                        ranks == 1 ? "" : "s");
    *out = (hil_deepspeed_batches){b, m, a};
    return HIL_OK;
}

static double choose(const hil_deepspeed_number *number, double otherwise)
{
    return number->value == number->value ? number->value : otherwise;
}

hil_curve hil_deepspeed_curve(const hil_deepspeed_config *c, double lr, int64_t warmup)
{
    return (hil_curve){.kind = c->scheduler,
                       .linear = c->warmup_linear,
                       .low = choose(&c->warmup_low, 0),
                       .high = choose(&c->warmup_high, lr),
                       .end = choose(&c->cosine_end, 0.0001),
                       .warmup = (int64_t)choose(&c->warmup, (double)warmup),
                       .total = (int64_t)choose(&c->total, 0)};
}
