/* reporter.c - the thread that shows a run. */
#include "run/reporter.h"

#include "base/clock.h"
#include "report/events.h"
#include "report/html.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PAUSE_SECONDS 10.0
#define PAUSE_MOST 120.0    /* the page takes a run for killed after 300 */
#define PAUSES_PER_WORK 200 /* seconds of pause for each second of work */

struct hil_reporter {
    char about_path[HIL_PATH_MAX], page_path[HIL_PATH_MAX];
    const hil_lock *held; /* on the output folder */
    bool page;
    hil_events *events;
    hil_history history; /* of the thread, as `events` is */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    /* Guarded by the lock. */
    hil_text lines, notes;  /* not yet taken by the thread; each ends with a newline */
    hil_run_end end;        /* of the run */
    bool ending, forgotten; /* forgotten: a line was lost for lack of memory */
    /* Of the thread, until it is joined. */
    hil_status status;
    char message[512]; /* of the first failure */
};

static void keep_failure(hil_reporter *r, hil_status status)
{
    if (status == HIL_OK || r->status != HIL_OK) return;
    r->status = status;
    snprintf(r->message, sizeof r->message, "%s", hil_status_message());
}

static hil_status add_line(hil_reporter *r, const char *line, size_t size)
{
    json_t *object;
    int64_t step;
    HIL_TRY(hil_history_parse(line, size, "metrics.jsonl", &object, &step));
    hil_status status = hil_history_add(&r->history, object, step);
    if (status == HIL_OK && r->events) status = hil_events_add(r->events, object, step);
    json_decref(object);
    return status;
}

static void add_lines(hil_reporter *r, const hil_text *lines)
{
    const char *at = lines->data, *end = at + lines->size;
    while (at < end) {
        const char *next = memchr(at, '\n', (size_t)(end - at));
        keep_failure(r, add_line(r, at, (size_t)(next - at)));
        at = next + 1;
    }
    if (r->events) keep_failure(r, hil_events_flush(r->events));
}

static hil_status add_notes(json_t *about, const hil_text *notes)
{
    json_t *list = json_object_get(about, "notes");
    const char *at = notes->data, *end = at + notes->size;
    while (at < end) {
        const char *next = memchr(at, '\n', (size_t)(end - at));
        if (json_array_append_new(list, json_stringn(at, (size_t)(next - at))) != 0)
            return hil_fail(HIL_ERR_MEMORY, "no memory for the notes of a run");
        at = next + 1;
    }
    return HIL_OK;
}

static hil_status write_about(hil_reporter *r, hil_run_end end)
{
    char now[32];
    json_t *about = r->history.about;
    /* What is no text, because a path is none, is left out. */
    json_t *failure = end.failure ? json_string(end.failure) : NULL;
    if (failure) json_object_set_new(about, "failure", failure);
    if (json_object_set_new(about, "state", json_string(end.state)) != 0 ||
        json_object_set_new(about, "updated", json_string(hil_clock_date(now))) != 0)
        return hil_fail(HIL_ERR_MEMORY, "no memory for run.json");
    char *text = json_dumps(about, JSON_INDENT(1) | JSON_REAL_PRECISION(15));
    if (!text) return hil_fail(HIL_ERR_MEMORY, "no memory for run.json");
    hil_status status = hil_file_replace(r->about_path, text, strlen(text));
    free(text);
    return status;
}

/* Writes into the output folder, unless another one has its name now. */
static hil_status write_files(hil_reporter *r, hil_run_end end)
{
    HIL_TRY(hil_lock_check(r->held));
    HIL_TRY(write_about(r, end));
    return hil_html_write(&r->history, 1, r->page_path);
}

/* Takes what was queued and writes it all. */
static void show(hil_reporter *r, hil_text *lines, hil_text *notes, hil_run_end end)
{
    if (lines->size) add_lines(r, lines);
    if (notes->size) keep_failure(r, add_notes(r->history.about, notes));
    if (r->page) keep_failure(r, write_files(r, end));
    hil_text_free(lines);
    hil_text_free(notes);
}

static void sleep_until(hil_reporter *r, double pause)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    double whole = (double)until.tv_nsec * 1e-9 + pause;
    until.tv_sec += (time_t)whole;
    until.tv_nsec = (long)((whole - (double)(time_t)whole) * 1e9);
    while (!r->ending && pthread_cond_timedwait(&r->wake, &r->lock, &until) == 0) {
    }
}

double hil_reporter_pause(double work)
{
    return fmin(fmax(PAUSES_PER_WORK * work, PAUSE_SECONDS), PAUSE_MOST);
}

static void *run_reporter(void *argument)
{
    hil_reporter *r = argument;
    double pause = 0;
    for (bool ending = false; !ending;) {
        pthread_mutex_lock(&r->lock);
        sleep_until(r, pause);
        hil_text lines = r->lines, notes = r->notes;
        r->lines = r->notes = (hil_text){0};
        hil_run_end end = r->end;
        ending = r->ending;
        pthread_mutex_unlock(&r->lock);
        double began = hil_clock_now();
        show(r, &lines, &notes, end);
        pause = hil_reporter_pause(hil_clock_now() - began);
    }
    return NULL;
}

static hil_status fill(hil_reporter *r, const hil_reporter_options *o)
{
    HIL_TRY(hil_path_join(r->about_path, o->folder, "run.json"));
    HIL_TRY(hil_path_join(r->page_path, o->folder, "report.html"));
    if (!json_object_get(r->history.about, "notes") &&
        json_object_set_new(r->history.about, "notes", json_array()) != 0)
        return hil_fail(HIL_ERR_MEMORY, "no memory for run.json");
    if (o->events) HIL_TRY(hil_events_open(&r->events, o->events, o->step));
    return o->step > 0 ? hil_history_read_metrics(&r->history, o->folder)
                       : hil_text_copy(o->folder, &r->history.name);
}

static void destroy(hil_reporter *r)
{
    hil_events_close(r->events);
    hil_history_free(&r->history);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->wake);
    hil_text_free(&r->lines);
    hil_text_free(&r->notes);
    hil_free(r);
}

/* The thread blocks all signals: handlers run on the program's own threads. */
static hil_status start(hil_reporter *r)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&r->thread, NULL, run_reporter, r);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error ? hil_fail(HIL_ERR_MEMORY, "cannot start a thread: %s", strerror(error)) : HIL_OK;
}

hil_status hil_reporter_open(hil_reporter **out, const hil_reporter_options *o, json_t *about)
{
    hil_reporter *r;
    pthread_condattr_t monotonic;
    hil_status status = HIL_ALLOC(1, &r);
    if (status != HIL_OK) json_decref(about);
    HIL_TRY(status);
    r->history.about = about;
    r->page = o->page;
    r->held = o->lock;
    r->end.state = "running";
    pthread_mutex_init(&r->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&r->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    status = fill(r, o);
    if (status == HIL_OK) status = start(r);
    if (status == HIL_OK)
        *out = r;
    else
        destroy(r);
    return status;
}

static void queue(hil_reporter *r, hil_text *list, const char *text, size_t size)
{
    pthread_mutex_lock(&r->lock);
    size_t before = list->size;
    if (hil_text_add(list, text, size) != HIL_OK || hil_text_add(list, "\n", 1) != HIL_OK) {
        list->size = before; /* every line in it ends */
        r->forgotten = true;
    }
    pthread_mutex_unlock(&r->lock);
}

void hil_reporter_line(hil_reporter *r, const char *line, size_t size)
{
    if (r) queue(r, &r->lines, line, size);
}

void hil_reporter_note(hil_reporter *r, const char *text)
{
    if (r) queue(r, &r->notes, text, strlen(text));
}

hil_status hil_reporter_close(hil_reporter *r, hil_run_end end)
{
    if (!r) return HIL_OK;
    pthread_mutex_lock(&r->lock);
    r->end = end;
    r->ending = true;
    pthread_cond_signal(&r->wake);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->thread, NULL);
    hil_status status = r->status;
    if (status != HIL_OK)
        (void)!hil_fail(status, "%s", r->message);
    else if (r->forgotten)
        status = hil_fail(HIL_ERR_MEMORY, "no memory for all lines of the report");
    destroy(r);
    return status;
}
