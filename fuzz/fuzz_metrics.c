/* fuzz_metrics.c - any bytes as the metrics of a run that goes on: what is kept are whole lines of
   steps that were, and keeping them again changes nothing. */
#include "run/metrics.h"

#include "base/json.h"
#include "mutate.h"
#include "place.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
FUZZ_MUTATOR(mutate_jsonl)

enum { STEP = 5, MOST = 1 << 16 };

static size_t keep(const char *path, char kept[MOST], hil_metrics *metrics)
{
    hil_status status = hil_metrics_open(metrics, path, STEP);
    assert(status == HIL_OK);
    hil_metrics_close(metrics);
    FILE *file = fopen(path, "rb");
    assert(file);
    size_t size = fread(kept, 1, MOST, file);
    fclose(file);
    return size;
}

static void check(const char *lines, size_t size)
{
    for (size_t at = 0; at < size;) {
        const char *end = memchr(lines + at, '\n', size - at);
        json_t *object;
        assert(end);
        hil_status status = hil_json_parse(lines + at, (size_t)(end - lines) - at, "line", &object);
        assert(status == HIL_OK);
        assert(json_integer_value(json_object_get(object, "step")) <= STEP);
        json_decref(object);
        at = (size_t)(end - lines) + 1;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static char folder[PLACE_PATH], path[PLACE_PATH], kept[MOST], again[MOST];
    hil_metrics first, second;
    if (size > MOST) return 0;
    if (!folder[0]) {
        place_make(folder);
        place_path(folder, "metrics.jsonl", path);
    }
    place_write(path, bytes, size);
    size_t left = keep(path, kept, &first);
    assert(left <= size);
    check(kept, left);
    size_t same = keep(path, again, &second);
    assert(same == left && memcmp(kept, again, left) == 0 && first.evaluated == second.evaluated);
    return 0;
}
