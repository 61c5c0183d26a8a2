/* series.c - collects points and thins them. */
#include "report/series.h"

#include <math.h>

static bool same(const hil_point *a, const hil_point *b)
{
    return a->step == b->step && a->value == b->value;
}

static void widen(hil_point_range *range, const hil_point_range *by)
{
    if (by->low.value < range->low.value) range->low = by->low;
    if (by->high.value > range->high.value) range->high = by->high;
}

/* Joins ranges into ranges of more steps. Ranges of one step have one point each, the others two;
   so the first time four become one, and later two. */
static void thin(hil_series *s)
{
    size_t kept = 0;
    s->width *= s->width == 1 ? 4 : 2;
    for (size_t i = 1; i < s->count; ++i) {
        const hil_point_range *next = &s->range[i];
        if (next->low.step / s->width == s->range[kept].low.step / s->width)
            widen(&s->range[kept], next);
        else
            s->range[++kept] = *next;
    }
    s->count = kept + 1;
}

hil_status hil_series_add(hil_series *s, int64_t step, double value)
{
    hil_point point = {step, value};
    hil_point_range range = {point, point};
    if (!isfinite(value)) return HIL_OK;
    if (!s->width) s->width = 1;
    s->last = point;
    s->sum += value;
    ++s->added;
    hil_point_range *at = s->count ? &s->range[s->count - 1] : NULL;
    if (at && step / s->width == at->low.step / s->width) {
        widen(at, &range);
        return HIL_OK;
    }
    HIL_TRY(HIL_GROW(&s->range, &s->capacity, s->count + 1));
    s->range[s->count++] = range;
    while (s->count > (s->width == 1 ? HIL_SERIES_POINTS : HIL_SERIES_POINTS / 2)) thin(s);
    return HIL_OK;
}

size_t hil_series_points(const hil_series *s, hil_point *out)
{
    size_t count = 0;
    for (size_t i = 0; i < s->count; ++i) {
        const hil_point *low = &s->range[i].low, *high = &s->range[i].high;
        bool rises = low->step <= high->step;
        out[count++] = rises ? *low : *high;
        if (!same(low, high)) out[count++] = rises ? *high : *low;
    }
    return count;
}

void hil_series_free(hil_series *s)
{
    hil_free(s->name);
    hil_free(s->range);
    *s = (hil_series){0};
}
