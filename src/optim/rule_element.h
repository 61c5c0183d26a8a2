/* rule_element.h - the formulas of rule.h for one element, for CPU and GPU. */
#ifndef HIL_OPTIM_RULE_ELEMENT_H
#define HIL_OPTIM_RULE_ELEMENT_H

#include "optim/rule.h"

#include <math.h>

/* Only the multiply-adds written as such here are fused. */
static inline HIL_BOTH void hil_adamw_moments(const hil_rule_step *s, float *m, float *v, float g)
{
    float grad = g * s->factor;
    *m = fmaf(s->beta1_rest, grad - *m, *m);
    *v = fmaf(s->beta2_rest * grad, grad, s->beta2 * *v);
}

/* The new weight. */
static inline HIL_BOTH float hil_adamw_element(const hil_rule_step *s, float w, float *m, float *v,
                                               float g)
{
    hil_adamw_moments(s, m, v, g);
    float divisor = fmaf(sqrtf(*v), s->root, s->eps);
    return fmaf(-s->rate, *m / divisor, s->shrink * w);
}

static inline HIL_BOTH float hil_lion_element(const hil_rule_step *s, float w, float *m, float g)
{
    float step = g * s->factor - *m;
    float u = fmaf(s->beta1_rest, step, *m);
    float sign = (u > 0 ? 1.0f : 0.0f) - (u < 0 ? 1.0f : 0.0f);
    *m = fmaf(s->beta2_rest, step, *m);
    return fmaf(-s->rate, sign, s->shrink * w);
}

/* Nesterov's momentum, from the sum of the gradients g. */
static inline HIL_BOTH float hil_muon_momentum(const hil_rule_step *s, float *m, float g)
{
    float grad = g * s->factor;
    *m = fmaf(HIL_MUON_REST, grad - *m, *m);
    return fmaf(HIL_MUON_MOMENTUM, *m - grad, grad);
}

static inline HIL_BOTH float hil_muon_element(const hil_rule_step *s, float w, float u)
{
    return fmaf(-s->lr, u, s->shrink * w);
}

#endif
