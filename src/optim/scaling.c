/* scaling.c - see [Note: loss scale]. */
#include "optim/scaling.h"

hil_scaling hil_scaling_begin(hil_dtype compute, const hil_loss_scale *rule)
{
    if (compute != HIL_F16) return (hil_scaling){.scale = 1};
    if (!rule || !rule->start)
        return (hil_scaling){.scale = HIL_SCALING_START, .window = HIL_SCALING_WINDOW};
    return (hil_scaling){.scale = rule->start,
                         .good = -1,
                         .window = rule->fixed ? INT64_MAX : rule->window,
                         .left = rule->hysteresis,
                         .rule = *rule};
}

bool hil_scaling_skips(const hil_scaling *s)
{
    int64_t least = s->rule.least > 1 ? s->rule.least : 1;
    return s->rule.fixed || s->left > 1 || s->scale > least;
}

static void overflow(hil_scaling *s)
{
    assert(hil_scaling_skips(s));
    ++s->skipped;
    s->good = s->rule.start ? -1 : 0;
    if (s->rule.fixed) return;
    if (s->left > 1) {
        --s->left;
        return;
    }
    s->scale /= 2;
    if (s->scale < s->rule.least) s->scale = s->rule.least;
}

void hil_scaling_advance(hil_scaling *s, bool finite)
{
    int64_t most = s->rule.start ? INT64_C(1) << 62 : HIL_SCALING_MOST;
    if (!finite) {
        overflow(s);
        return;
    }
    if (s->rule.refill) s->left = s->rule.hysteresis;
    if (s->window && ++s->good >= s->window) {
        s->good = 0;
        s->left = s->rule.hysteresis;
        if (s->scale < most) s->scale *= 2;
    }
}
