/* xielu.h - the formula of xIELU, shared by CPU and GPU. */
#ifndef HIL_OPS_ELEMENTS_XIELU_H
#define HIL_OPS_ELEMENTS_XIELU_H

#include "tensor/tensor.h"

#include <math.h>

enum { HIL_XIELU_POSITIVE, HIL_XIELU_NEGATIVE, HIL_XIELU_BETA, HIL_XIELU_EPS, HIL_XIELU_NUMBERS };

/* What the operation's parameters mean. */
typedef struct hil_xielu {
    float positive, negative, beta, eps;  /* the first two: softplus, the second plus beta */
    float positive_slope, negative_slope; /* of these by their parameters */
} hil_xielu;

static inline HIL_BOTH float hil_xielu_softplus(float x)
{
    return x > 20 ? x : log1pf(expf(x));
}

static inline HIL_BOTH hil_xielu hil_xielu_of(const float number[HIL_XIELU_NUMBERS])
{
    float positive = number[HIL_XIELU_POSITIVE], negative = number[HIL_XIELU_NEGATIVE];
    hil_xielu x = {
        hil_xielu_softplus(positive), number[HIL_XIELU_BETA] + hil_xielu_softplus(negative),
        number[HIL_XIELU_BETA],       number[HIL_XIELU_EPS],
        1 / (1 + expf(-positive)),    1 / (1 + expf(-negative))};
    return x;
}

static inline HIL_BOTH float hil_xielu_value(const hil_xielu *p, float x)
{
    if (x > 0) return p->positive * x * x + p->beta * x;
    return (expm1f(x < p->eps ? x : p->eps) - x) * p->negative + p->beta * x;
}

/* The derivative by x; *by: that by the parameter of x's side. */
static inline HIL_BOTH float hil_xielu_slope(const hil_xielu *p, float x, float *by)
{
    if (x > 0) {
        *by = x * x * p->positive_slope;
        return 2 * p->positive * x + p->beta;
    }
    float less = expm1f(x < p->eps ? x : p->eps), steep = x < p->eps ? less + 1 : 0;
    if (x == p->eps) steep = 0.5f * (less + 1);
    *by = (less - x) * p->negative_slope;
    return (steep - 1) * p->negative + p->beta;
}

#endif
