/* scaling.c - see [Note: loss scale]. */
#include "optim/scaling.h"

hil_scaling hil_scaling_begin(hil_dtype compute)
{
    if (compute != HIL_F16) return (hil_scaling){.scale = 1};
    return (hil_scaling){.scale = HIL_SCALING_START, .window = HIL_SCALING_WINDOW};
}

void hil_scaling_advance(hil_scaling *s, bool finite)
{
    if (!finite) {
        assert(s->scale > 1);
        s->scale /= 2;
        s->good = 0;
        ++s->skipped;
    } else if (s->window && ++s->good >= s->window) {
        s->good = 0;
        if (s->scale < HIL_SCALING_MOST) s->scale *= 2;
    }
}
