/* train_report.c - what a training run tells its report: options, machine, plan, notes. */
#include "run/train.h"

#include "hilbert/version.h"

#include "base/clock.h"
#include "base/note.h"
#include "plan/plan_file.h"
#include "plan/plan_report.h"

#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

typedef hil_training job;

static void on_note(void *context, const char *line)
{
    job *j = context;
    if (j->metrics.reporter)
        hil_reporter_note(j->metrics.reporter, line);
    else if (j->notes || (j->notes = json_array()))
        json_array_append_new(j->notes, json_string(line));
    if (j->outer && j->outer->note) j->outer->note(j->outer->context, line);
}

static void on_progress(void *context, const char *what, uint64_t done, uint64_t total)
{
    const job *j = context;
    if (j->outer && j->outer->progress) j->outer->progress(j->outer->context, what, done, total);
}

static void on_step(void *context, const hil_step_report *report)
{
    const job *j = context;
    if (j->outer && j->outer->step) j->outer->step(j->outer->context, report);
}

static void on_eval(void *context, int64_t step, double loss)
{
    const job *j = context;
    if (j->outer && j->outer->eval) j->outer->eval(j->outer->context, step, loss);
}

void hil_training_watch(job *j, const hil_observer *observer)
{
    j->outer = observer;
    j->watch = (hil_observer){
        .context = j, .note = on_note, .progress = on_progress, .step = on_step, .eval = on_eval};
    j->observer = &j->watch;
}

static json_t *describe_plan(const job *j)
{
    const hil_planned *planned = &j->trainer->planned;
    hil_plan_view view = {
        .outline = &planned->outline, .plan = &planned->plan, .machine = &planned->machine};
    hil_plan_report r;
    hil_plan_report_fill(&view, &r);
    json_t *all = hil_plan_predicted(&planned->plan);
    json_object_set_new(all, "memory", hil_plan_report_rows(&r));
    json_object_set_new(all, "advice", json_string(r.advice));
    json_object_set_new(all, "assumed_speeds",
                        hil_plan_assumed(&planned->machine, &j->options->memory));
    return all;
}

static json_t *describe_environment(const job *j)
{
    const hil_device *device = j->trainer->device;
    char host[64] = "";
    struct utsname system = {0};
    gethostname(host, sizeof host - 1);
    uname(&system);
    json_t *all = json_pack(
        "{s:s, s:s, s:s, s:I, s:o}", "host", host, "machine", j->trainer->planned.machine.name,
        "instructions", j->run.isa, "ranks", (json_int_t)j->run.ranks, "system",
        json_sprintf("%s %s, %s", system.sysname, system.release, system.machine));
    if (all && device) json_object_set_new(all, "device", json_string(device->name));
    return all;
}

static json_t *describe_model(const job *j)
{
    json_t *all = json_pack("{s:s, s:s, s:I}", "folder", j->options->model, "type",
                            j->source.config.arch->name, "parameters", (json_int_t)j->parameters);
    if (all && j->options->adapter.source)
        json_object_set_new(all, "adapter", json_string(j->options->adapter.source));
    return all;
}

/* The options that decide the numbers, by their names. */
static hil_status describe_options(const job *j, json_t **out)
{
    json_t *state;
    HIL_TRY(hil_run_state_write(j->options, &j->run, &state));
    *out = json_incref(json_object_get(state, "options"));
    json_decref(state);
    return HIL_OK;
}

/* The object of run.json. */
static hil_status describe(const job *j, json_t **out)
{
    char now[32];
    json_t *options;
    HIL_TRY(describe_options(j, &options));
    const hil_tier_budgets *b = &j->budget;
    json_t *notes = j->notes ? json_incref(j->notes) : json_array();
    *out = json_pack("{s:s, s:s, s:I, s:o, s:o, s:o, s:{s:I, s:I, s:I}, s:o, s:o}", "version",
                     hil_version(), "started", hil_clock_date(now), "steps", (json_int_t)j->steps,
                     "model", describe_model(j), "options", options, "environment",
                     describe_environment(j), "budget", "device", (json_int_t)b->device, "host",
                     (json_int_t)b->host, "disk", (json_int_t)b->disk, "plan", describe_plan(j),
                     "notes", notes);
    if (*out && j->options->command)
        json_object_set_new(*out, "command", json_string(j->options->command));
    return *out ? HIL_OK : hil_fail(HIL_ERR_INPUT, "a name of the run is not UTF-8");
}

hil_status hil_training_open_report(job *j)
{
    const hil_train_options *o = j->options;
    json_t *about;
    if (!o->report && !o->tensorboard) return HIL_OK;
    hil_status status = describe(j, &about);
    hil_reporter_options options = {.folder = j->folder.path,
                                    .lock = &j->folder.lock,
                                    .events = o->tensorboard,
                                    .page = o->report,
                                    .step = j->resumed};
    if (status == HIL_OK) status = hil_reporter_open(&j->metrics.reporter, &options, about);
    if (status == HIL_OK || status == HIL_ERR_MEMORY || o->tensorboard) return status;
    hil_note(j->observer, "there will be no report: %s", hil_status_message());
    return HIL_OK;
}

void hil_training_close_report(job *j, hil_status status)
{
    const char *state = status == HIL_OK                ? "finished"
                        : status == HIL_ERR_INTERRUPTED ? "stopped"
                                                        : "failed";
    char message[1024]; /* of the run's failure, which the reporter's must not replace */
    snprintf(message, sizeof message, "%s", hil_status_message());
    bool failed = status != HIL_OK && status != HIL_ERR_INTERRUPTED;
    hil_status shown = hil_reporter_close(
        j->metrics.reporter, (hil_run_end){.state = state, .failure = failed ? message : NULL});
    j->metrics.reporter = NULL;
    if (shown != HIL_OK) hil_note(j->observer, "the report is not whole: %s", hil_status_message());
    if (status != HIL_OK) (void)!hil_fail(status, "%s", message);
    json_decref(j->notes);
    j->notes = NULL;
}
