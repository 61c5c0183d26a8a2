/* curve.c - learning rates of DeepSpeed's schedulers. */
#include "hilbert/schedule.h"

#include <math.h>

/* From 0 to 1 over the warm-up; `i` counts from 0. */
static double warm(const hil_curve *c, double warmup, double i)
{
    return c->linear ? i / warmup : log(i + 1) / log(warmup);
}

static double after(const hil_curve *c, double warmup, double total, double i)
{
    double rest = total > warmup + 1 ? total - warmup : 1;
    if (c->kind == HIL_CURVE_WARMUP) return c->high;
    if (c->kind == HIL_CURVE_WARMUP_DECAY) {
        double left = (total - i) / rest;
        return c->low + (c->high - c->low) * (left > 0 ? left : 0);
    }
    double p = (i - warmup + 1) / rest;
    double share = (1 + cos(3.14159265358979323846 * (p < 1 ? p : 1))) / 2;
    return c->high * fmax(0, c->end + (1 - c->end) * share);
}

double hil_curve_rate(const hil_curve *c, int64_t total, int64_t update)
{
    bool cosine = c->kind == HIL_CURVE_WARMUP_COSINE;
    double warmup = c->warmup > 2 ? (double)c->warmup : 2, i = (double)(update - 2);
    if (i < 0) return cosine ? 0 : c->low;
    if (i >= warmup) return after(c, warmup, (double)(c->total ? c->total : total), i);
    double share = warm(c, warmup, i);
    return cosine ? c->high * (c->low + (1 - c->low) * share) : c->low + (c->high - c->low) * share;
}
