/* progress.c - the live line, the plain lines, and how often they are printed. */
#include "cli/progress.h"
#include "base/clock.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#define REDRAW_SECONDS 0.1
#define PLAIN_SECONDS 1.0
#define PLAIN_LINES 40   /* about how many lines a run of fast steps prints at most */
#define WORK_SECONDS 5.0 /* before the first plain line of other work; then grows */
#define WORK_GROWTH 1.5
#define WORK_PERCENT 10

const char *hil_progress_time(char out[32], double seconds)
{
    if (!(seconds >= 0) || seconds > 3.6e9) {
        snprintf(out, 32, "?");
    } else if (seconds < 9.95) {
        snprintf(out, 32, "%.1f s", seconds);
    } else {
        long long s = llround(seconds), m = s / 60, h = m / 60;
        if (s < 60)
            snprintf(out, 32, "%lld s", s);
        else if (h == 0)
            snprintf(out, 32, "%lld:%02lld", m, s % 60);
        else
            snprintf(out, 32, "%lld:%02lld:%02lld", h, m % 60, s % 60);
    }
    return out;
}

const char *hil_progress_count(char out[32], int64_t count)
{
    char digits[24];
    int size = snprintf(digits, sizeof digits, "%lld", (long long)count), at = 0;
    for (int i = 0; i < size; ++i) {
        out[at++] = digits[i];
        int left = size - 1 - i;
        if (left && left % 3 == 0 && digits[i] != '-') out[at++] = ',';
    }
    out[at] = 0;
    return out;
}

const char *hil_progress_bytes(char out[32], uint64_t bytes)
{
    static const char *const units[] = {"", "K", "M", "G", "T", "P", "E"};
    int unit = 0;
    double size = (double)bytes;
    for (; size >= 1000 && unit < 6; size /= 1024) ++unit;
    bool whole = unit == 0 || size >= 9.95 || size == floor(size);
    snprintf(out, 32, "%.*f%s", whole ? 0 : 1, size, units[unit]);
    return out;
}

static int columns(FILE *out)
{
    int width = hil_panel_columns(out);
    return width ? width : 79;
}

/* Clears the old line with spaces, not with an escape sequence: works on every terminal. */
static void draw(hil_progress *progress, const char *line)
{
    int width = columns(progress->out), size = (int)strlen(line);
    hil_panel_clear(&progress->panel);
    if (size > width) size = width;
    fprintf(progress->out, "\r%.*s%*s", size, line,
            progress->drawn > size ? progress->drawn - size : 0, "");
    if (size == 0) fputc('\r', progress->out);
    fflush(progress->out);
    progress->drawn = size;
}

static void print(hil_progress *progress, const char *line)
{
    hil_progress_end(progress);
    fprintf(progress->out, "%s\n", line);
    fflush(progress->out);
}

static void on_note(void *context, const char *line)
{
    print(context, line);
}

/* Whether to print a plain line about this work. Repeated work, such as evaluation, keeps the
   interval that earlier rounds reached. */
static bool work_due(hil_progress *progress, const char *what, uint64_t done, double percent)
{
    struct hil_progress_work *work = &progress->work;
    double now = hil_clock_now();
    bool other = strncmp(work->what, what, sizeof work->what - 1) != 0;
    if (other) {
        snprintf(work->what, sizeof work->what, "%s", what);
        work->wait = WORK_SECONDS;
    }
    if (other || done < work->done) {
        work->begun_at = now;
        work->percent = -WORK_PERCENT;
    }
    work->done = done;
    if (now - fmax(work->begun_at, progress->shown_at) < work->wait) return false;
    if (percent >= 0 && percent < work->percent + WORK_PERCENT) return false;
    work->percent = percent;
    work->wait *= WORK_GROWTH;
    return true;
}

static void on_progress(void *context, const char *what, uint64_t done, uint64_t total)
{
    hil_progress *progress = context;
    double now = hil_clock_now(), percent = -1; /* unknown */
    if (total) percent = floor(100 * fmin(1, (double)done / (double)total));
    if (progress->live ? now - fmax(progress->shown_at, progress->begun_at) < REDRAW_SECONDS
                       : !work_due(progress, what, done, percent))
        return;
    progress->shown_at = now;
    char line[160];
    if (total)
        snprintf(line, sizeof line, "%.120s: %.0f%%", what, percent);
    else
        snprintf(line, sizeof line, "%.120s ...", what);
    if (progress->live)
        draw(progress, line);
    else
        print(progress, line);
}

/* Whether to print a plain line about this step: the first, the last, every slow step, and of fast
   steps so many that a log of any run stays readable. */
static bool plain_due(const hil_progress *progress, const hil_step_report *report, double now)
{
    if (progress->shown_at <= 0 || report->step == 1 || report->step >= report->steps) return true;
    double whole = now - progress->begun_at + fmax(0, report->seconds_left);
    double every = fmax(PLAIN_SECONDS, whole / PLAIN_LINES);
    return report->seconds >= PLAIN_SECONDS || now - progress->shown_at >= every;
}

static bool has_budget(const hil_tier_budgets *budget, const hil_step_account *account)
{
    return budget->device || budget->host || budget->disk || account->disk_peak;
}

static double waited(const hil_wait_seconds *wait)
{
    return wait->weights + wait->update + wait->activations + wait->gradients + wait->memory;
}

/* Appends "NAME PEAK/BUDGET" to a line. */
static void add_tier(char *line, size_t room, const char *name, uint64_t peak, uint64_t budget)
{
    char a[32], b[32];
    size_t size = strlen(line);
    if (!peak && !budget) return;
    snprintf(line + size, room - size, "  %s %s%s%s", name, hil_progress_bytes(a, peak),
             budget ? "/" : "", budget ? hil_progress_bytes(b, budget) : "");
}

static void add_tiers(char *line, size_t room, const hil_step_account *account,
                      const hil_tier_budgets *budget)
{
    add_tier(line, room, "device", account->device_peak, budget->device);
    add_tier(line, room, "host", account->host_peak, budget->host);
    add_tier(line, room, "disk", account->disk_peak, budget->disk);
}

/* The parts of a step's line, from left to right. */
enum part { STEP, LOSS, SPEED, LEFT, DEVICE, HOST, DISK, WAITING, PARTS };

static void fill_parts(char part[PARTS][64], const hil_step_report *r)
{
    char text[32];
    memset(part, 0, PARTS * sizeof *part);
    snprintf(part[STEP], 64, "step %lld/%lld", (long long)r->step, (long long)r->steps);
    snprintf(part[LOSS], 64, "  loss %.4f", r->loss);
    snprintf(part[SPEED], 64, "  %s tokens/s",
             hil_progress_count(text, llround(r->tokens_per_second)));
    snprintf(part[LEFT], 64, "  %s left", hil_progress_time(text, r->seconds_left));
    if (!has_budget(&r->budget, &r->account)) return;
    add_tier(part[DEVICE], 64, "device", r->account.device_peak, r->budget.device);
    add_tier(part[HOST], 64, "host", r->account.host_peak, r->budget.host);
    add_tier(part[DISK], 64, "disk", r->account.disk_peak, r->budget.disk);
    snprintf(part[WAITING], 64, "  waiting %.0f%%",
             100 * waited(&r->account.wait_seconds) / r->seconds);
}

/* Composes a line of at most `width` columns from whole parts; drops the least important ones. */
static void compose_step(char *line, size_t room, int width, const hil_step_report *report)
{
    static const enum part by_weight[PARTS] = {STEP,    LOSS,   LEFT, SPEED,
                                               WAITING, DEVICE, HOST, DISK};
    char part[PARTS][64];
    bool fits[PARTS];
    int used = 0;
    fill_parts(part, report);
    for (int i = 0; i < PARTS; ++i) {
        int size = (int)strlen(part[by_weight[i]]);
        fits[by_weight[i]] = used + size <= width;
        if (fits[by_weight[i]]) used += size;
    }
    line[0] = 0;
    for (int i = 0; i < PARTS; ++i)
        if (fits[i]) snprintf(line + strlen(line), room - strlen(line), "%s", part[i]);
}

static void on_step(void *context, const hil_step_report *report)
{
    hil_progress *progress = context;
    double now = hil_clock_now();
    ++progress->steps;
    progress->seconds += report->seconds;
    if (progress->panelled) hil_panel_add(&progress->panel, report->loss);
    if (progress->live ? now - progress->shown_at < REDRAW_SECONDS
                       : !plain_due(progress, report, now))
        return;
    progress->shown_at = now;
    if (progress->panelled) {
        if (progress->drawn) draw(progress, "");
        hil_panel_draw(&progress->panel, report, NULL);
        return;
    }
    char line[PARTS * 64];
    compose_step(line, sizeof line, progress->live ? columns(progress->out) : INT_MAX, report);
    if (progress->live)
        draw(progress, line);
    else
        print(progress, line);
}

static void on_eval(void *context, int64_t step, double loss)
{
    hil_progress *progress = context;
    char line[100];
    progress->panel.eval_loss = loss;
    snprintf(line, sizeof line, "step %lld  eval loss %.4f", (long long)step, loss);
    print(progress, line);
}

void hil_progress_begin(hil_progress *progress, FILE *out, hil_verbosity verbosity)
{
    *progress = (hil_progress){.out = out, .begun_at = hil_clock_now()};
    if (verbosity == HIL_VERBOSITY_QUIET) return;
    progress->live = isatty(fileno(out)) == 1;
    progress->panelled = progress->live && hil_panel_begin(&progress->panel, out);
    progress->hooks = (hil_observer){
        .context = progress,
        .note = on_note,
        .progress = on_progress,
        .step = on_step,
        .eval = on_eval,
    };
}

void hil_progress_end(hil_progress *progress)
{
    hil_panel_clear(&progress->panel);
    if (progress->drawn) draw(progress, "");
}

/* Below this share of the time no reason for the stalls is printed. */
#define WAITING_MATTERS 0.05

static void print_waiting(FILE *out, const hil_wait_seconds *wait, double seconds)
{
    const struct {
        const char *what;
        double seconds;
    } reason[] = {{"weights to be loaded", wait->weights},
                  {"the optimizer's update", wait->update},
                  {"activations to be loaded", wait->activations},
                  {"gradients to be offloaded", wait->gradients},
                  {"device memory to be freed", wait->memory}};
    double all = waited(wait), share = all / seconds;
    size_t most = 0;
    char time[32];
    for (size_t i = 1; i < sizeof reason / sizeof *reason; ++i)
        if (reason[i].seconds > reason[most].seconds) most = i;
    fprintf(out, "waited %s, %.0f%% of the time", hil_progress_time(time, all), 100 * share);
    if (share >= WAITING_MATTERS)
        fprintf(out, ", most for %s (%.0f%%)", reason[most].what,
                100 * reason[most].seconds / seconds);
}

void hil_progress_account(const hil_progress *progress, const hil_train_result *result)
{
    const hil_step_account *a = &result->account;
    if (!has_budget(&result->budget, a) || progress->steps == 0) return;
    uint64_t steps = (uint64_t)progress->steps;
    char line[200] = "", bytes[4][32];
    add_tiers(line, sizeof line, a, &result->budget);
    fprintf(progress->out, "peak of each budget:%s", line);
    if (result->ranks > 1) fprintf(progress->out, " (rank 0 of %d)", result->ranks);
    fputc('\n', progress->out);
    fprintf(
        progress->out,
        "moved per step: %s read from disk, %s written to disk; %s host to device, %s device to "
        "host\n",
        hil_progress_bytes(bytes[0], a->disk_read_bytes / steps),
        hil_progress_bytes(bytes[1], a->disk_written_bytes / steps),
        hil_progress_bytes(bytes[2], a->to_device_bytes / steps),
        hil_progress_bytes(bytes[3], a->to_host_bytes / steps));
    if (a->skipped_bytes)
        fprintf(progress->out, "not moved per step: %s of experts without tokens\n",
                hil_progress_bytes(bytes[0], a->skipped_bytes / steps));
    if (result->ranks > 1)
        fprintf(progress->out, "from other ranks per step: weights %s, gradients %s\n",
                hil_progress_bytes(bytes[0], a->gathered_bytes / steps),
                hil_progress_bytes(bytes[1], a->reduced_bytes / steps));
    print_waiting(progress->out, &a->wait_seconds, progress->seconds);
    fprintf(progress->out, "; limited by: %s\n", result->limit);
}
