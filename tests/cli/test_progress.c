/* The panel and the live line are redrawn in place and cleared; plain lines are few, for any number
   of steps. */
#include "cli/progress.h"
#include "check.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static char seen[1 << 20];

static hil_step_report report_of(int64_t step, int64_t steps, double seconds, double left)
{
    return (hil_step_report){.step = step,
                             .steps = steps,
                             .loss = 2.5,
                             .seconds = seconds,
                             .tokens_per_second = 12345.4,
                             .seconds_left = left};
}

static void report(const hil_progress *progress, int64_t step, int64_t steps, double seconds)
{
    const hil_step_report line = report_of(step, steps, seconds, 65);
    progress->hooks.step(progress->hooks.context, &line);
}

static int count(const char *text, const char *words)
{
    int n = 0;
    for (; (text = strstr(text, words)); ++text) ++n;
    return n;
}

static void check_plain(void)
{
    hil_progress progress;
    FILE *out = tmpfile();
    CHECK(out != NULL);
    hil_progress_begin(&progress, out, HIL_VERBOSITY_NORMAL);
    const hil_observer *hooks = &progress.hooks;
    hooks->note(hooks->context, "a note");
    for (uint64_t i = 0; i < 10000; ++i) hooks->progress(hooks->context, "tokenizing", i, 10000);
    for (int64_t i = 1; i <= 100000; ++i) report(&progress, i, 100000, 1e-6);
    hooks->eval(hooks->context, 7, 3.25);
    hil_progress_end(&progress);
    rewind(out);
    seen[fread(seen, 1, sizeof seen - 1, out)] = 0;
    fclose(out);
    CHECK(strstr(seen, "a note\n") == seen);
    CHECK(strstr(seen, "step 1/100000  loss 2.5000  12,345 tokens/s  1:05 left\n"));
    CHECK(strstr(seen, "step 100000/100000  "));
    CHECK(strstr(seen, "step 7  eval loss 3.2500\n"));
    CHECK(count(seen, "\n") < 10);
    CHECK(strchr(seen, '\r') == NULL && strchr(seen, '\033') == NULL);
}

static void check_slow_steps(void)
{
    hil_progress progress;
    FILE *out = tmpfile();
    CHECK(out != NULL);
    hil_progress_begin(&progress, out, HIL_VERBOSITY_NORMAL);
    for (int64_t i = 1; i <= 20; ++i) report(&progress, i, 1000, 1.5);
    rewind(out);
    seen[fread(seen, 1, sizeof seen - 1, out)] = 0;
    fclose(out);
    CHECK_INT(count(seen, "\n"), 20);
}

/* With budgets a line also shows the use of each; the summary shows the transfers. */
static void check_budgets(void)
{
    hil_progress progress;
    FILE *out = tmpfile();
    CHECK(out != NULL);
    hil_progress_begin(&progress, out, HIL_VERBOSITY_NORMAL);
    hil_step_account account = {.device_peak = 626688,
                                .host_peak = 950000,
                                .disk_peak = 12 << 20,
                                .disk_read_bytes = 3 << 20,
                                .disk_written_bytes = 2000,
                                .to_device_bytes = 1 << 30,
                                .wait_seconds = {.weights = 0.25, .update = 0.05}};
    hil_step_report line = report_of(1, 2, 2, 65);
    line.account = account;
    line.budget = (hil_tier_budgets){700 << 10, 1 << 20, 0};
    hil_train_result result = {.account = account, .budget = line.budget, .limit = "disk"};
    progress.hooks.step(progress.hooks.context, &line);
    hil_progress_account(&progress, &result);
    result.account.wait_seconds.weights = 0.01;
    result.limit = "compute";
    hil_progress_account(&progress, &result);
    result = (hil_train_result){.account = {.device_peak = 7}};
    hil_progress_account(&progress, &result);
    rewind(out);
    seen[fread(seen, 1, sizeof seen - 1, out)] = 0;
    fclose(out);
    CHECK_TEXT(seen, "step 1/2  loss 2.5000  12,345 tokens/s  1:05 left"
                     "  device 612K/700K  host 928K/1M  disk 12M  waiting 15%\n"
                     "peak of each budget:  device 612K/700K  host 928K/1M  disk 12M\n"
                     "moved per step: 3M read from disk, 2.0K written to disk; 1G host to device, "
                     "0 device to host\n"
                     "waited 0.3 s, 15% of the time, most for weights to be loaded (12%); "
                     "limited by: disk\n"
                     "peak of each budget:  device 612K/700K  host 928K/1M  disk 12M\n"
                     "moved per step: 3M read from disk, 2.0K written to disk; 1G host to device, "
                     "0 device to host\n"
                     "waited 0.1 s, 3% of the time; limited by: compute\n");
}

/* Moves the times of the last lines into the past. */
static void age(hil_progress *progress, double seconds)
{
    progress->work.begun_at -= seconds;
    progress->shown_at -= seconds;
}

/* An hour of reading, then an hour of evaluations: few lines, and no two equal in a row. */
static void check_long_work(void)
{
    static const struct {
        const char *what;
        uint64_t total, times;
    } work[] = {{"reading data", 3600, 1}, {"reading something", 0, 1}, {"evaluating", 60, 60}};
    for (size_t w = 0; w < sizeof work / sizeof *work; ++w) {
        hil_progress progress;
        FILE *out = tmpfile();
        CHECK(out != NULL);
        hil_progress_begin(&progress, out, HIL_VERBOSITY_NORMAL);
        for (uint64_t i = 0; i < 3600; ++i) {
            uint64_t done = i % (3600 / work[w].times);
            progress.hooks.progress(progress.hooks.context, work[w].what, done, work[w].total);
            age(&progress, 1);
        }
        rewind(out);
        seen[fread(seen, 1, sizeof seen - 1, out)] = 0;
        fclose(out);
        CHECK(count(seen, "\n") >= 4 && count(seen, "\n") <= 15);
        CHECK_INT(count(seen, work[w].what), count(seen, "\n"));
        if (w == 0) {
            CHECK(strstr(seen, "reading data: 0%\nreading data: 10%\nreading data: 20%\n") == seen);
            CHECK_INT(count(seen, "data: 90%\n"), 1);
        }
    }
}

/* A terminal of that size, with its other end in *master; NULL: not on this machine. */
static FILE *open_terminal(unsigned short rows, unsigned short width, int *master)
{
    char name[64];
    *master = posix_openpt(O_RDWR | O_NOCTTY);
    if (*master < 0 || grantpt(*master) || unlockpt(*master) ||
        ptsname_r(*master, name, sizeof name))
        return NULL;
    int slave = open(name, O_RDWR | O_NOCTTY);
    CHECK(slave >= 0);
    struct termios mode;
    CHECK(tcgetattr(slave, &mode) == 0);
    cfmakeraw(&mode);
    CHECK(tcsetattr(slave, TCSANOW, &mode) == 0);
    CHECK(ioctl(slave, TIOCSWINSZ, &(struct winsize){.ws_row = rows, .ws_col = width}) == 0);
    return fdopen(slave, "w");
}

/* Reads what the terminal received into `seen`. */
static void close_terminal(FILE *out, int master)
{
    fflush(out);
    size_t size = 0;
    for (struct pollfd ready = {master, POLLIN, 0}; poll(&ready, 1, 200) == 1;)
        size += (size_t)read(master, seen + size, sizeof seen - 1 - size);
    seen[size] = 0;
    fclose(out);
    close(master);
}

static void check_live(void)
{
    int master;
    FILE *out = open_terminal(24, 40, &master);
    if (!out) return;
    hil_progress progress;
    hil_progress_begin(&progress, out, HIL_VERBOSITY_NORMAL);
    CHECK(progress.live);
    for (int64_t i = 1; i <= 1000; ++i) report(&progress, i, 1000, 1e-6);
    progress.hooks.note(progress.hooks.context, "said");
    usleep(110000);
    report(&progress, 1000, 1000, 1e-6);
    hil_progress_end(&progress);
    close_terminal(out, master);
    CHECK_TEXT(seen, "\rstep 1/1000  loss 2.5000  1:05 left"
                     "\r                                   \rsaid\n"
                     "\rstep 1000/1000  loss 2.5000  1:05 left"
                     "\r                                      \r");
}

/* With all budgets: the important parts fit 80 columns, and no part is truncated. */
static void check_width(void)
{
    static const struct {
        unsigned short width;
        const char *line;
    } terminal[] = {
        {60, "\rstep 9000/10000  loss 2.5000  25:01:01 left  waiting 15%"},
        {80, "\rstep 9000/10000  loss 2.5000  12,345 tokens/s  25:01:01 left  waiting 15%"},
        {100, "\rstep 9000/10000  loss 2.5000  12,345 tokens/s  25:01:01 left  device 23G/24G"
              "  waiting 15%"},
        {200, "\rstep 9000/10000  loss 2.5000  12,345 tokens/s  25:01:01 left  device 23G/24G"
              "  host 10G/80G  disk 900G/1T  waiting 15%"},
    };
    const uint64_t giga = 1 << 30;
    hil_step_report line = report_of(9000, 10000, 2, 90061);
    line.account = (hil_step_account){.device_peak = 23 * giga,
                                      .host_peak = 10 * giga,
                                      .disk_peak = 900 * giga,
                                      .wait_seconds = {.weights = 0.3}};
    line.budget = (hil_tier_budgets){24 * giga, 80 * giga, 1024 * giga};
    for (size_t i = 0; i < sizeof terminal / sizeof *terminal; ++i) {
        int master;
        hil_progress progress;
        FILE *out = open_terminal(14, terminal[i].width, &master);
        if (!out) return;
        hil_progress_begin(&progress, out, HIL_VERBOSITY_NORMAL);
        progress.hooks.step(progress.hooks.context, &line);
        close_terminal(out, master);
        CHECK_TEXT(seen, terminal[i].line);
    }
}

/* Where there is room a panel shows the steps: without colours if the user wants none, in ASCII
   where the locale is not UTF-8. A note is printed above it, and at the end it is gone. */
static void check_panel(void)
{
    int master;
    hil_progress progress;
    hil_step_report line = report_of(1, 2, 2, 65);
    line.account = (hil_step_account){.device_peak = 512 << 10, .wait_seconds = {.update = 1}};
    line.budget = (hil_tier_budgets){1 << 20, 0, 0};
    setenv("TERM", "xterm", 1);
    setenv("NO_COLOR", "1", 1);
    setenv("LC_ALL", "C", 1);
    FILE *out = open_terminal(24, 60, &master);
    if (!out) return;
    hil_progress_begin(&progress, out, HIL_VERBOSITY_NORMAL);
    progress.hooks.step(progress.hooks.context, &line);
    progress.hooks.note(progress.hooks.context, "said");
    hil_progress_end(&progress);
    close_terminal(out, master);
    CHECK_TEXT(seen, "step 1/2  #################................  50%  1:05 left\033[K\n"
                     "loss 2.5       _  lowest 2.5\033[K\n"
                     "device ###############...............  512K/1M\033[K\n"
                     "12,345 tokens/s, a step 2.0 s, waiting 50%, most for the up\033[K\n"
                     "\033[4A\r\033[Jsaid\n");
    unsetenv("NO_COLOR");
    setenv("LC_ALL", "C.UTF-8", 1);
    out = open_terminal(24, 60, &master);
    hil_progress_begin(&progress, out, HIL_VERBOSITY_NORMAL);
    progress.hooks.step(progress.hooks.context, &line);
    close_terminal(out, master);
    CHECK(strstr(seen, "\033[36m\u2588\u2588") && strstr(seen, "\033[0m\u2591"));
    setenv("TERM", "dumb", 1);
    out = open_terminal(24, 60, &master);
    hil_progress_begin(&progress, out, HIL_VERBOSITY_NORMAL);
    progress.hooks.step(progress.hooks.context, &line);
    close_terminal(out, master);
    CHECK(seen[0] == '\r' && !strchr(seen, '\033'));
}

static void check_words(void)
{
    char out[32];
    CHECK_TEXT(hil_progress_time(out, 0.44), "0.4 s");
    CHECK_TEXT(hil_progress_time(out, 9.96), "10 s");
    CHECK_TEXT(hil_progress_time(out, 59.4), "59 s");
    CHECK_TEXT(hil_progress_time(out, 59.6), "1:00");
    CHECK_TEXT(hil_progress_time(out, 3599.6), "1:00:00");
    CHECK_TEXT(hil_progress_time(out, 90061), "25:01:01");
    CHECK_TEXT(hil_progress_time(out, NAN), "?");
    CHECK_TEXT(hil_progress_time(out, -1), "?");
    CHECK_TEXT(hil_progress_bytes(out, 999), "999");
    CHECK_TEXT(hil_progress_bytes(out, 1000), "1.0K");
    CHECK_TEXT(hil_progress_bytes(out, 1536), "1.5K");
    CHECK_TEXT(hil_progress_bytes(out, 10 << 20), "10M");
    CHECK_TEXT(hil_progress_bytes(out, UINT64_MAX), "16E");
    CHECK_TEXT(hil_progress_count(out, 0), "0");
    CHECK_TEXT(hil_progress_count(out, 999), "999");
    CHECK_TEXT(hil_progress_count(out, 1000), "1,000");
    CHECK_TEXT(hil_progress_count(out, -123456), "-123,456");
    CHECK_TEXT(hil_progress_count(out, INT64_MAX), "9,223,372,036,854,775,807");
}

int main(void)
{
    check_plain();
    check_slow_steps();
    check_budgets();
    check_long_work();
    check_panel();
    check_live();
    check_width();
    check_words();
    hil_progress quiet;
    hil_progress_begin(&quiet, stderr, HIL_VERBOSITY_QUIET);
    CHECK(!quiet.hooks.step && !quiet.hooks.note && !quiet.live);
    return 0;
}
