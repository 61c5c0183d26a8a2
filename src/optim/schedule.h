/* schedule.h - the learning rate of each step. */
#ifndef HIL_OPTIM_SCHEDULE_H
#define HIL_OPTIM_SCHEDULE_H

#include <stdint.h>

typedef enum hil_schedule_kind { HIL_COSINE, HIL_LINEAR, HIL_CONSTANT } hil_schedule_kind;

/* Step s counts from 1. s <= warmup: base * s / warmup. Afterwards, with
   p = (s - 1 - warmup) / (steps - warmup): cosine least + (base - least) * (1 + cos(pi p)) / 2,
   linear least + (base - least) * (1 - p), constant base. */
double hil_schedule_rate(hil_schedule_kind kind, double base, double least, int64_t warmup,
                         int64_t steps, int64_t s);

#endif
