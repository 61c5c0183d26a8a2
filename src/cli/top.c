/* top.c - hilbert top: follows a run from another terminal. */
#include "cli/command.h"
#include "cli/panel.h"
#include "cli/progress.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PAUSE 1 /* seconds between two looks */

typedef struct top_values {
    const char *folder;
    bool once;
} top_values;

static const hil_option options[] = {
    HIL_ROW("once", ON, top_values, once, NULL, "print the present state and end",
            .group = "Options"),
};

/* A run that is followed. */
typedef struct top_run {
    char metrics[HIL_PATH_MAX], about[HIL_PATH_MAX];
    FILE *file;
    int64_t at;  /* where the next line of metrics.jsonl begins */
    ino_t inode; /* of that file */
    hil_panel panel;
    hil_step_report report; /* of the latest step */
    char state[32];
    double seconds; /* of the steps seen */
    double idle;    /* seconds since metrics.jsonl was written */
    int64_t steps;
} top_run;

static uint64_t bytes_of(const json_t *object, const char *key)
{
    return (uint64_t)json_number_value(json_object_get(object, key));
}

static double number_of(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static void take_step(top_run *t, const json_t *line)
{
    hil_step_report *r = &t->report;
    const json_t *wait = json_object_get(line, "wait_seconds");
    r->step = json_integer_value(json_object_get(line, "step"));
    r->loss = json_is_number(json_object_get(line, "loss")) ? number_of(line, "loss") : NAN;
    r->seconds = number_of(line, "seconds");
    r->tokens_per_second = number_of(line, "tokens_per_second");
    r->account.device_peak = bytes_of(line, "device_peak");
    r->account.host_peak = bytes_of(line, "host_peak");
    r->account.disk_peak = bytes_of(line, "disk_peak");
    r->account.wait_seconds = (hil_wait_seconds){
        .weights = number_of(wait, "weights"),
        .update = number_of(wait, "update"),
        .activations = number_of(wait, "activations"),
        .gradients = number_of(wait, "gradients"),
        .memory = number_of(wait, "memory"),
    };
    t->seconds += r->seconds;
    ++t->steps;
    r->seconds_left = t->seconds / (double)t->steps * (double)(r->steps - r->step);
    hil_panel_add(&t->panel, r->loss);
}

/* The run was resumed or replaced: its metrics are another file. */
static void begin_again(top_run *t)
{
    fclose(t->file);
    t->file = NULL;
    t->at = t->steps = 0;
    t->seconds = 0;
    hil_panel_forget(&t->panel);
}

/* Takes the whole lines that were added since the last look. */
static hil_status read_metrics(top_run *t)
{
    struct stat now;
    char *text = NULL;
    size_t room = 0;
    hil_status status = HIL_OK;
    ssize_t size;
    bool there = stat(t->metrics, &now) == 0;
    if (t->file && there && (now.st_ino != t->inode || now.st_size < t->at)) begin_again(t);
    if (!t->file) t->file = fopen(t->metrics, "re");
    if (there) t->inode = now.st_ino;
    if (!t->file && errno == ENOENT)
        return hil_fail(HIL_ERR_INPUT, "%s: there is no such file: is this the --out of a run?",
                        t->metrics);
    if (!t->file) return hil_fail(HIL_ERR_INPUT, "cannot read %s: %s", t->metrics, strerror(errno));
    t->idle = there ? (double)(time(NULL) - now.st_mtime) : 0;
    fseeko(t->file, t->at, SEEK_SET);
    while (status == HIL_OK && (size = getline(&text, &room, t->file)) > 0 &&
           text[size - 1] == '\n') {
        json_t *line;
        status = hil_json_parse(text, (size_t)size, t->metrics, &line);
        if (status != HIL_OK) break;
        if (json_object_get(line, "loss"))
            take_step(t, line);
        else if (json_object_get(line, "eval_loss"))
            t->panel.eval_loss = number_of(line, "eval_loss");
        json_decref(line);
        t->at += size;
    }
    free(text);
    clearerr(t->file);
    return status;
}

/* Number of steps, budgets and state; a run without run.json has none. */
static hil_status read_about(top_run *t)
{
    json_error_t error;
    json_t *about = json_load_file(t->about, 0, &error);
    if (!about && json_error_code(&error) == json_error_cannot_open_file) return HIL_OK;
    if (!about) return hil_fail(HIL_ERR_INPUT, "cannot read %s: %s", t->about, error.text);
    const json_t *budget = json_object_get(about, "budget");
    const char *state = json_string_value(json_object_get(about, "state"));
    t->report.steps = json_integer_value(json_object_get(about, "steps"));
    t->report.budget = (hil_tier_budgets){bytes_of(budget, "device"), bytes_of(budget, "host"),
                                          bytes_of(budget, "disk")};
    snprintf(t->state, sizeof t->state, "%s", state ? state : "");
    json_decref(about);
    return HIL_OK;
}

/* Whether the run may still add to its files. A run that was killed stays "running": its folder is
   no longer locked then, but a reader has no business with locks, so the user ends top. */
static bool goes_on(const top_run *t)
{
    return strcmp(t->state, "running") == 0;
}

/* Whether a step takes so much longer than those before that the run may have been killed. An
   evaluation or a save takes long, too. */
static bool is_silent(const top_run *t)
{
    double usual = t->steps ? t->seconds / (double)t->steps : 0;
    return goes_on(t) && t->idle > 60 && t->idle > 10 * usual;
}

static void print_line(const top_run *t)
{
    const hil_step_report *r = &t->report;
    char count[32], time[32], since[32];
    printf("step %lld/%lld  loss %.4f  %s tokens/s  %s left  %s", (long long)r->step,
           (long long)r->steps, r->loss, hil_progress_count(count, llround(r->tokens_per_second)),
           hil_progress_time(time, r->seconds_left), t->state);
    if (is_silent(t))
        printf(", but no step for %s: was it killed?", hil_progress_time(since, t->idle));
    printf("\n");
    fflush(stdout);
}

static hil_status follow(const top_values *values, top_run *t)
{
    bool panel = isatty(STDOUT_FILENO) == 1 && hil_panel_begin(&t->panel, stdout) && !values->once;
    hil_panel_forget(&t->panel);
    HIL_TRY(hil_path_join(t->metrics, values->folder, "metrics.jsonl"));
    HIL_TRY(hil_path_join(t->about, values->folder, "run.json"));
    int64_t shown = -1;
    bool silent = false;
    for (;;) {
        HIL_TRY(read_about(t));
        HIL_TRY(read_metrics(t));
        bool last = values->once || !goes_on(t) || hil_command_stop;
        if (panel && t->steps)
            hil_panel_draw(&t->panel, &t->report,
                           is_silent(t) ? "no step for long: was it killed?"
                           : goes_on(t) ? NULL
                                        : t->state);
        else if (!panel && (t->report.step != shown || is_silent(t) != silent || last))
            print_line(t);
        shown = t->report.step;
        silent = is_silent(t);
        if (last) return HIL_OK;
        nanosleep(&(struct timespec){.tv_sec = PAUSE}, NULL);
    }
}

static int run(int argc, char **argv)
{
    top_values values = {0};
    static top_run followed;
    hil_parsed parsed;
    int code = 0;
    if (!hil_command_begin(&hil_command_top, argc, argv, &values, &parsed, &code)) return code;
    hil_command_catch_signals(NULL);
    hil_status status = follow(&values, &followed);
    if (followed.file) fclose(followed.file);
    code = status == HIL_OK ? hil_command_flush() : hil_command_fail(status);
    hil_parsed_free(&parsed);
    return code;
}

const hil_command hil_command_top = {
    .name = "top",
    .summary = "Follows a run that trains, from another terminal.",
    .usage = "OUT [--once]",
    .example = "  hilbert top tuned\n",
    .option = options,
    .count = sizeof options / sizeof *options,
    .operand = {{.name = "run's output folder", .offset = offsetof(top_values, folder)}},
    .run = run,
};
