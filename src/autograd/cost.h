/* cost.h - estimates the seconds of an operation from a machine's measured speeds. */
#ifndef HIL_AUTOGRAD_COST_H
#define HIL_AUTOGRAD_COST_H

#include "ops/op_cost.h"
#include "hilbert/speeds.h"
#include "tensor/quant.h"

#define HIL_COST_RUNS 2 /* of the CPU's pool: part of hil_speeds.op_call */

/* hil_speeds.cached of a model whose states have so many bytes: what small operations read was in
   the caches, but large states push it out before it is used again. */
double hil_cost_cached(const hil_speeds *speeds, double states);
/* What the CPU adds to multiplying: loops over elements, packing, memory, runs of the pool and
   further tiles. */
double hil_cost_rest(const hil_work *work, const hil_speeds *speeds, hil_dtype compute);
/* Expanding a quantized tile to `bytes`. */
double hil_cost_expand(const hil_quant_tile *tile, size_t bytes, const hil_speeds *speeds);
double hil_cost_seconds(const hil_work *work, const hil_speeds *speeds, hil_dtype compute);

#endif
