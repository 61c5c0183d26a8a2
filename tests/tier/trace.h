/* trace.h - reads a timeline back, by track. */
#ifndef HIL_TESTS_TRACE_H
#define HIL_TESTS_TRACE_H

#include "base/alloc.h"
#include "base/json.h"
#include "check.h"
#include "io/file.h"
#include "tier/links.h"
#include "tier/timeline.h"

typedef struct trace_track {
    double end, seconds;
    uint64_t bytes;
    int spans, forward, backward, recompute;
} trace_track;

typedef struct trace {
    trace_track track[HIL_TRACKS];
    double wait[HIL_WAITS]; /* seconds by reason */
} trace;

static inline double trace_number(const json_t *object, const char *key)
{
    CHECK(json_is_number(json_object_get(object, key)));
    return json_number_value(json_object_get(object, key));
}

static inline int trace_by_start(const void *a, const void *b)
{
    json_t *const *x = a, *const *y = b;
    double first = trace_number(*x, "ts"), second = trace_number(*y, "ts");
    return first < second ? -1 : first > second;
}

static inline void trace_add_wait(trace *t, const char *name, double seconds)
{
    static const char *const reason[HIL_WAITS] = {"weights", "update", "activations", "gradients",
                                                  "memory"};
    for (int i = 0; i < HIL_WAITS; ++i)
        if (strcmp(name, reason[i]) == 0) {
            t->wait[i] += seconds;
            return;
        }
    check_die(__FILE__, __LINE__, name);
}

/* Spans of one track must not overlap: Perfetto would not show them. */
static inline void trace_add(trace *t, const json_t *event)
{
    const char *name = json_string_value(json_object_get(event, "name"));
    int tid = (int)trace_number(event, "tid");
    CHECK(tid >= 1 && tid <= HIL_TRACKS);
    trace_track *k = &t->track[tid - 1];
    double start = trace_number(event, "ts"), length = trace_number(event, "dur");
    if (start < k->end - 2e-3) {
        fprintf(stderr, "%s on track %d begins at %.3f before %.3f\n", name, tid, start, k->end);
        exit(1);
    }
    k->end = start + length;
    k->seconds += length * 1e-6;
    if (tid - 1 < HIL_LINK_COMPUTE)
        k->bytes += (uint64_t)trace_number(json_object_get(event, "args"), "bytes");
    if (tid - 1 == HIL_TRACK_WAIT) trace_add_wait(t, name, length * 1e-6);
    k->forward += strstr(name, " forward") != NULL;
    k->backward += strstr(name, " backward") != NULL;
    k->recompute += strstr(name, " recompute") != NULL;
    ++k->spans;
}

/* Spans are in the order of their ends. */
static inline trace trace_read(const char *path)
{
    trace t = {0};
    hil_bytes map;
    json_t *list, **event;
    CHECK_OK(hil_bytes_read(&map, path));
    CHECK_OK(hil_json_parse(map.data, map.size, path, &list));
    hil_bytes_free(&map);
    size_t size = json_array_size(list), count = 0;
    CHECK_OK(HIL_ALLOC(size, &event));
    for (size_t i = 0; i < size; ++i) {
        json_t *e = json_array_get(list, i);
        if (strcmp(json_string_value(json_object_get(e, "ph")), "X") == 0) event[count++] = e;
    }
    qsort(event, count, sizeof *event, trace_by_start);
    for (size_t i = 0; i < count; ++i) trace_add(&t, event[i]);
    hil_free(event);
    json_decref(list);
    return t;
}

#endif
