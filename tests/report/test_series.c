/* A series keeps every point of a short run, and the lowest and highest values of a long one. */
#include "report/series.h"
#include "check.h"

static hil_point point[HIL_SERIES_ROOM];

static size_t find(size_t count, double value)
{
    size_t i = 0;
    while (i < count && point[i].value != value) ++i;
    return i;
}

static void check_short(void)
{
    hil_series s = {0};
    for (int i = 1; i <= HIL_SERIES_POINTS; ++i) CHECK_OK(hil_series_add(&s, i, 1.0 / i));
    CHECK_INT(hil_series_points(&s, point), HIL_SERIES_POINTS);
    for (int i = 0; i < HIL_SERIES_POINTS; ++i) {
        CHECK_INT(point[i].step, i + 1);
        CHECK(point[i].value == 1.0 / (i + 1));
    }
    hil_series_free(&s);
}

/* A step that a file has twice is two points; no series has room for more. */
static void check_repeated(void)
{
    hil_series s = {0};
    for (int i = 1; i <= HIL_SERIES_POINTS; ++i) {
        CHECK_OK(hil_series_add(&s, i, i));
        CHECK_OK(hil_series_add(&s, i, -i));
    }
    CHECK_INT(hil_series_points(&s, point), HIL_SERIES_ROOM);
    CHECK(point[0].step == 1 && point[1].step == 1 && point[0].value != point[1].value);
    hil_series_free(&s);
}

/* Spikes up and down anywhere are kept, in the order of their steps, at whatever length. */
static void check_long(int64_t steps)
{
    hil_series s = {0};
    double sum = 0;
    for (int64_t i = 1; i <= steps; ++i) {
        double value = 10 + (double)(i * 7919 % 1000) / 1000;
        if (i == steps / 3) value = 1000;
        if (i == steps / 2) value = -1000;
        if (i == steps) value = 500;
        sum += value;
        CHECK_OK(hil_series_add(&s, i, value));
    }
    CHECK_OK(hil_series_add(&s, steps + 1, NAN));
    size_t count = hil_series_points(&s, point);
    CHECK(count <= HIL_SERIES_POINTS && count > HIL_SERIES_POINTS / 8);
    for (size_t i = 1; i < count; ++i) CHECK(point[i - 1].step < point[i].step);
    size_t high = find(count, 1000), low = find(count, -1000), last = find(count, 500);
    CHECK(high < count && point[high].step == steps / 3);
    CHECK(low < count && point[low].step == steps / 2);
    CHECK(last == count - 1 && point[last].step == steps);
    CHECK_INT(s.added, steps);
    CHECK_NEAR(s.sum, sum, 1e-6);
    CHECK_INT(s.last.step, steps);
    hil_series_free(&s);
}

int main(void)
{
    check_short();
    check_repeated();
    check_long(5001);
    check_long(40000);
    check_long(123457);
    check_long(1000000);
    return 0;
}
