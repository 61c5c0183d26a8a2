/* A timeline is JSON with every span of every thread; before close it lacks only the bracket. */
#include "tier/timeline.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "check.h"
#include "io/file.h"

#include <pthread.h>
#include <unistd.h>

#define SPANS 10000 /* per thread: more than the buffer holds */

static char path[] = "/tmp/hilbert-timeline-XXXXXX";

/* The file's contents, followed by `end`. */
static json_t *load(const char *end)
{
    hil_bytes map;
    hil_text text = {0};
    json_t *list;
    CHECK_OK(hil_bytes_read(&map, path));
    CHECK_OK(hil_text_add(&text, map.data, map.size));
    CHECK_OK(hil_text_add(&text, end, strlen(end)));
    CHECK_OK(hil_json_parse(text.data, text.size, path, &list));
    CHECK(json_is_array(list));
    hil_text_free(&text);
    hil_bytes_free(&map);
    return list;
}

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static double number_of(const json_t *object, const char *key)
{
    CHECK(json_is_number(json_object_get(object, key)));
    return json_number_value(json_object_get(object, key));
}

typedef struct writer {
    hil_timeline *timeline;
    int track;
    double start;
} writer;

/* Adjacent spans of a microsecond. */
static void *write_spans(void *context)
{
    const writer *w = context;
    for (int i = 0; i < SPANS; ++i)
        hil_timeline_add(w->timeline, w->track, i % 2 ? "odd" : "even", w->start + i * 1e-6,
                         w->start + (i + 1) * 1e-6, (uint64_t)i);
    return NULL;
}

static void check_names(const json_t *list)
{
    const json_t *event;
    size_t i;
    int tracks = 0, processes = 0;
    json_array_foreach(list, i, event)
    {
        if (strcmp(text_of(event, "ph"), "M") != 0) continue;
        const json_t *args = json_object_get(event, "args");
        if (strcmp(text_of(event, "name"), "process_name") == 0) {
            CHECK_TEXT(text_of(args, "name"), "hilbert");
            ++processes;
        }
        if (strcmp(text_of(event, "name"), "thread_name") == 0) {
            CHECK(strlen(text_of(args, "name")) > 0);
            ++tracks;
        }
    }
    CHECK_INT(tracks, HIL_TRACKS);
    CHECK_INT(processes, 1);
}

static void check_threads(void)
{
    enum { WRITERS = 3 };
    hil_timeline *timeline;
    CHECK_OK(hil_timeline_open(&timeline, path, hil_clock_now()));
    double now = hil_clock_now();
    long allocated = hil_alloc_count();
    writer of[WRITERS] = {{timeline, HIL_LINK_IN, now},
                          {timeline, HIL_LINK_OUT, now},
                          {timeline, HIL_TRACK_COMPUTE, now}};
    pthread_t thread[WRITERS];
    for (int i = 0; i < WRITERS; ++i)
        CHECK_INT(pthread_create(&thread[i], NULL, write_spans, &of[i]), 0);
    for (int i = 0; i < WRITERS; ++i) pthread_join(thread[i], NULL);
    CHECK_OK(hil_timeline_flush(timeline));
    CHECK_INT(hil_alloc_count(), allocated);
    hil_timeline_close(timeline);

    json_t *list = load("");
    const json_t *event;
    size_t i;
    int64_t count[HIL_TRACKS + 1] = {0}, bytes[HIL_TRACKS + 1] = {0};
    double end[HIL_TRACKS + 1] = {0};
    check_names(list);
    json_array_foreach(list, i, event)
    {
        if (strcmp(text_of(event, "ph"), "X") != 0) continue;
        int tid = (int)number_of(event, "tid");
        const json_t *args = json_object_get(event, "args");
        CHECK_INT(number_of(event, "pid"), 1);
        CHECK_TEXT(text_of(event, "name"), count[tid] % 2 ? "odd" : "even");
        CHECK(number_of(event, "ts") >= end[tid] - 1e-4);
        CHECK_NEAR(number_of(event, "dur"), 1, 0.0011);
        end[tid] = number_of(event, "ts") + number_of(event, "dur");
        bytes[tid] += args ? (int64_t)number_of(args, "bytes") : 0;
        ++count[tid];
    }
    for (int k = 0; k < WRITERS; ++k) CHECK_INT(count[of[k].track + 1], SPANS);
    CHECK_INT(bytes[HIL_LINK_IN + 1], (int64_t)SPANS * (SPANS - 1) / 2);
    CHECK_INT(bytes[HIL_LINK_OUT + 1], (int64_t)SPANS * (SPANS - 1) / 2);
    json_decref(list);
}

/* The file of a run that is killed after a step. */
static void check_cut(void)
{
    hil_timeline *timeline;
    CHECK_OK(hil_timeline_open(&timeline, path, hil_clock_now()));
    json_decref(load("]"));
    double now = hil_clock_now();
    hil_timeline_add(timeline, HIL_TRACK_WAIT,
                     "a \"name\" with \\ and \xc3\xa9 and a newline\n that "
                     "is too long",
                     now, now + 0.25, 0);
    CHECK_OK(hil_timeline_flush(timeline));
    json_t *list = load("]");
    const json_t *last = json_array_get(list, json_array_size(list) - 1);
    CHECK_TEXT(text_of(last, "name"), "a ?name? with ? and ?? and a newline? that is t");
    CHECK_NEAR(number_of(last, "dur"), 250000, 1e-2);
    json_decref(list);
    hil_timeline_add(timeline, HIL_LINK_FETCH, NULL, now, now + 1, 7);
    hil_timeline_close(timeline);
    list = load("");
    last = json_array_get(list, json_array_size(list) - 1);
    CHECK_INT(number_of(json_object_get(last, "args"), "bytes"), 7);
    json_decref(list);
}

static void check_failures(void)
{
    hil_timeline *timeline;
    CHECK_FAILS(hil_timeline_open(&timeline, "/nowhere/trace.json", hil_clock_now()), HIL_ERR_IO,
                "cannot write /nowhere/trace.json: No such file");
    CHECK_OK(hil_timeline_open(&timeline, "/dev/full", hil_clock_now()));
    CHECK_FAILS(hil_timeline_flush(timeline), HIL_ERR_IO, "No space left on device");
    hil_timeline_close(timeline);
    hil_timeline_close(NULL);
}

int main(void)
{
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    check_threads();
    check_cut();
    check_failures();
    unlink(path);
    return 0;
}
