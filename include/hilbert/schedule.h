/* schedule.h - what changes from update to update: the learning rate and the loss scale. */
#ifndef HILBERT_SCHEDULE_H
#define HILBERT_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "hilbert/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Learning rates as DeepSpeed's schedulers of these names set them. */
typedef enum hil_curve_kind {
    HIL_CURVE_NONE,
    HIL_CURVE_WARMUP,       /* WarmupLR: rises from `low` to `high`, then stays */
    HIL_CURVE_WARMUP_DECAY, /* WarmupDecayLR: then falls in a line to 0 */
    HIL_CURVE_WARMUP_COSINE /* WarmupCosineLR: then falls in half a cosine to end * high */
} hil_curve_kind;

typedef struct hil_curve {
    hil_curve_kind kind;
    bool linear;      /* the warm-up; false: by the logarithm of the update */
    double low, high; /* of HIL_CURVE_WARMUP_COSINE `low` is a fraction of `high` */
    double end;       /* a fraction of `high` */
    int64_t warmup;   /* updates; fewer than 2 count as 2 */
    int64_t total;    /* updates after which the rate is lowest; 0: all of the run */
} hil_curve;

/* The rate of an update, which count from 1; skipped steps do not count. DeepSpeed sets the rate
   after each update, so the first two have the lowest. `total` is used where the curve has 0. */
HIL_API double hil_curve_rate(const hil_curve *curve, int64_t total, int64_t update);

/* How the loss scale of fp16 begins and changes; all 0: it begins at 65536, each overflow halves
   it, and 2000 updates in a row double it. */
typedef struct hil_loss_scale {
    int64_t start;
    int64_t window;     /* updates since an overflow, but for the first, that double it */
    int64_t least;      /* an overflow at this scale is an error */
    int64_t hysteresis; /* the overflow that halves it: 1 is each, 2 every second ... */
    bool refill;        /* each update starts that count again; false: only a doubling does */
    bool fixed;         /* the scale never changes */
} hil_loss_scale;

#ifdef __cplusplus
}
#endif
#endif
