/* series.h - one number of a run over its steps, with few points however long the run is. */
#ifndef HIL_REPORT_SERIES_H
#define HIL_REPORT_SERIES_H

#include "base/alloc.h"

/* Most points of a series. One with more is thinned: of several steps in a row it keeps the lowest
   and the highest value. */
enum { HIL_SERIES_POINTS = 5000, HIL_SERIES_ROOM = 2 * HIL_SERIES_POINTS };

typedef struct hil_point {
    int64_t step;
    double value;
} hil_point;

/* The lowest and the highest value of `width` steps; both are the same point if there is one. */
typedef struct hil_point_range {
    hil_point low, high;
} hil_point_range;

/* Owns its memory. Zeroed: empty. */
typedef struct hil_series {
    char *name;
    hil_point_range *range;
    size_t count, capacity;
    int64_t width;  /* steps of a range; 0: empty */
    hil_point last; /* the latest point */
    double sum;     /* of all values, those that were thinned out too */
    int64_t added;  /* number of these values */
} hil_series;

/* Adds a point; steps do not fall. What is not finite is left out. */
hil_status hil_series_add(hil_series *series, int64_t step, double value);
/* Copies the points in the order of their steps to `out`, which has room for HIL_SERIES_ROOM: a
   step that was added twice has two points. Returns their number. */
size_t hil_series_points(const hil_series *series, hil_point *out);
void hil_series_free(hil_series *series);

#endif
