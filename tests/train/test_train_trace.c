/* --trace: the timeline of a run tells the same story as its account. */
#include "job.h"
#include "tier/timeline.h"

#define STEPS 3

static json_t *load(const char *path)
{
    hil_map map;
    json_t *list;
    CHECK_OK(hil_map_open(&map, path));
    CHECK_OK(hil_json_parse(map.data, map.size, path, &list));
    hil_map_close(&map);
    return list;
}

static double number(const json_t *object, const char *key)
{
    CHECK(json_is_number(json_object_get(object, key)));
    return json_number_value(json_object_get(object, key));
}

typedef struct track {
    double end, seconds, bytes;
    int spans, forward, backward, recompute;
} track;

/* Perfetto shows nested spans of a track, but not ones that overlap by a part. */
static void add_span(track *t, const json_t *event)
{
    const char *name = json_string_value(json_object_get(event, "name"));
    const json_t *args = json_object_get(event, "args");
    double start = number(event, "ts"), length = number(event, "dur");
    CHECK(start >= t->end - 1e-3);
    t->end = start + length;
    t->seconds += length * 1e-6;
    t->bytes += args ? number(args, "bytes") : 0;
    t->forward += strstr(name, " forward") != NULL;
    t->backward += strstr(name, " backward") != NULL;
    t->recompute += strstr(name, " recompute") != NULL;
    ++t->spans;
}

static int by_start(const void *a, const void *b)
{
    double x = number(*(json_t *const *)a, "ts"), y = number(*(json_t *const *)b, "ts");
    return x < y ? -1 : x > y;
}

/* Spans are written when they end; several threads write. */
static void read_tracks(const char *path, track tracks[HIL_TRACKS])
{
    json_t *list = load(path), **event;
    size_t size = json_array_size(list), count = 0;
    CHECK_OK(HIL_ALLOC(size, &event));
    for (size_t i = 0; i < size; ++i) {
        json_t *e = json_array_get(list, i);
        if (strcmp(json_string_value(json_object_get(e, "ph")), "X") == 0) event[count++] = e;
    }
    qsort(event, count, sizeof *event, by_start);
    memset(tracks, 0, HIL_TRACKS * sizeof *tracks);
    for (size_t i = 0; i < count; ++i) {
        int tid = (int)number(event[i], "tid");
        CHECK(tid >= 1 && tid <= HIL_TRACKS);
        add_span(&tracks[tid - 1], event[i]);
    }
    hil_free(event);
    json_decref(list);
}

/* Embedding, two blocks and the head, which runs once; two micro-batches. */
static void check_compute(job_place *place, bool recompute)
{
    char out[JOB_PATH], trace[JOB_PATH];
    track tracks[HIL_TRACKS];
    hil_train_options options =
        job_options(place, "llama3", job_path(place, out, recompute ? "again" : "kept"));
    options.trace = job_path(place, trace, "trace.json");
    options.steps = STEPS;
    options.micro_batch = options.batch / 2;
    options.recompute = recompute;
    hil_train_result result = job_train(&options);
    read_tracks(trace, tracks);
    const track *compute = &tracks[HIL_TRACK_COMPUTE];
    CHECK_INT(compute->forward, STEPS * 2 * 4);
    CHECK_INT(compute->backward, STEPS * 2 * 4);
    CHECK_INT(compute->recompute, recompute ? STEPS * 2 * 3 : 0);
    CHECK(compute->seconds > 0 && compute->seconds <= result.seconds);
}

int main(void)
{
    job_place place;
    job_begin(&place);
    check_compute(&place, false);
    check_compute(&place, true);
    job_end(&place);
    return 0;
}
