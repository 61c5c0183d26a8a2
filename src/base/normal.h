/* normal.h - normally distributed numbers of a Philox stream, many at a time. */
#ifndef HIL_BASE_NORMAL_H
#define HIL_BASE_NORMAL_H

#include <stdint.h>

/* Numbers [first, first + count) of the stream (key, high), times `scale`. Numbers 4g .. 4g+3 are
   the two pairs that Box-Muller makes of the four words of counter (g, high): with 32 bits each for
   radius and angle, computed in double, rounded once, then scaled. The same bits on every machine.
 */
void hil_normal_fill(uint64_t key, uint64_t high, int64_t first, int64_t count, float scale,
                     float *out);

#endif
