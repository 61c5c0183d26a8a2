/* fuzz_history.c - any lines as the metrics of a run: what is taken gives curves with rising steps,
   of few points, between the lowest and the highest value. */
#include "report/history.h"

#include "mutate.h"

#include <assert.h>
#include <math.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
FUZZ_MUTATOR(mutate_jsonl)

static void check(const hil_series *series)
{
    static hil_point point[HIL_SERIES_ROOM];
    size_t count = hil_series_points(series, point);
    assert(count <= HIL_SERIES_ROOM && (int64_t)count <= series->added);
    for (size_t i = 0; i < count; ++i) {
        assert(isfinite(point[i].value));
        assert(i == 0 || point[i - 1].step <= point[i].step);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    hil_history history = {0};
    const char *at = (const char *)bytes, *end = at + size;
    while (at < end) {
        const char *next = memchr(at, '\n', (size_t)(end - at));
        json_t *object;
        int64_t step;
        size_t length = (size_t)((next ? next : end) - at);
        if (hil_history_parse(at, length, "line", &object, &step) == HIL_OK) {
            hil_status status = hil_history_add(&history, object, step);
            assert(status == HIL_OK || status == HIL_ERR_INPUT);
            json_decref(object);
        }
        at += length + 1;
    }
    for (size_t i = 0; i < history.count; ++i) check(&history.series[i]);
    hil_history_free(&history);
    return 0;
}
