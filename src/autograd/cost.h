/* cost.h - estimates the seconds of an operation from a machine's measured speeds. */
#ifndef HIL_AUTOGRAD_COST_H
#define HIL_AUTOGRAD_COST_H

#include "ops/op_cost.h"
#include "hilbert/speeds.h"

double hil_cost_seconds(const hil_work *work, const hil_speeds *speeds, hil_dtype compute);

#endif
