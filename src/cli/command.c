/* command.c - functions that commands share: parsing, failures, output, signals. */
#include "cli/command.h"
#include "cli/launch.h"

#include <errno.h>
#include <float.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const hil_range hil_range_count = {1, 0x1p53, "a whole number of 1 or more"};
const hil_range hil_range_index = {0, 0x1p53, "a whole number of 0 or more"};
const hil_range hil_range_budget = {1, 0x1p63, "1 byte or more"};
const hil_range hil_range_threads = {0, 4096, "0 (all) to 4096"};
const hil_range hil_range_stage = {1, 3, "1, 2 or 3"};
const hil_range hil_range_positive = {DBL_TRUE_MIN, DBL_MAX, "more than 0"};
const hil_range hil_range_amount = {0, DBL_MAX, "0 or more"};
const hil_range hil_range_below_one = {0, 1 - DBL_EPSILON / 2, "at least 0 and less than 1"};
const hil_range hil_range_up_to_one = {DBL_TRUE_MIN, 1, "more than 0 and at most 1"};

int hil_command_fail(hil_status status)
{
    hil_launch_report(status);
    return status == HIL_ERR_USAGE ? 2 : 1;
}

int hil_command_flush(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) return 0;
    return hil_command_fail(
        hil_fail(HIL_ERR_IO, "cannot write to the standard output: %s", strerror(errno)));
}

const char *hil_command_find(char path[HIL_PATH_MAX], const char *const *place, size_t count)
{
    char folder[HIL_PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 1);
    if (length <= 0) return NULL;
    folder[length] = '\0';
    *strrchr(folder, '/') = '\0';
    for (size_t i = 0; i < count; ++i)
        if (hil_path_join(path, folder, place[i]) == HIL_OK && access(path, F_OK) == 0) return path;
    return NULL;
}

bool hil_command_begin(const hil_command *command, int argc, char **argv, void *values,
                       hil_parsed *parsed, int *code)
{
    hil_status status = hil_options_parse(parsed, command, argc, argv, values);
    if (status == HIL_OK && !parsed->help) return true;
    if (status == HIL_OK) {
        hil_options_help(command, values, stdout);
        *code = hil_command_flush();
    } else {
        *code = hil_command_fail(status);
    }
    hil_parsed_free(parsed);
    return false;
}

void hil_command_report_sizes(const hil_parsed *parsed, const hil_observer *observer)
{
    if (parsed->understood.size && observer->note)
        observer->note(observer->context, parsed->understood.data);
}

volatile int hil_command_stop;
static const char *stop_words;

static void on_signal(int number)
{
    if (hil_command_stop) _exit(128 + number);
    hil_command_stop = number;
    int error = errno;
    if (stop_words && write(STDERR_FILENO, stop_words, strlen(stop_words)) < 0) stop_words = NULL;
    errno = error;
}

void hil_command_catch_signals(const char *say)
{
    stop_words = say;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGINT);
    sigaddset(&action.sa_mask, SIGTERM);
    sigaddset(&action.sa_mask, SIGUSR1);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL); /* mpirun forwards it to its ranks */
}

int hil_command_stopped(void)
{
    return 128 + (hil_command_stop ? hil_command_stop : SIGTERM);
}

/* Prints with one write and without stdio, whose lock another thread may hold forever. */
static void print_lost(const char *message)
{
    char line[1600];
    int size = snprintf(line, sizeof line, "%shilbert: %.1500s\n",
                        isatty(STDERR_FILENO) == 1 ? "\n" : "", message);
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    /* Does not block on a full pipe that no process reads. */
    if (poll(&out, 1, 500) <= 0 || write(STDERR_FILENO, line, (size_t)size) < 0) return;
}

void hil_command_lost(void *context, const char *message)
{
    (void)context;
    /* A launcher that ends a job kills the ranks one by one, and soon this one: do not report the
       ranks that it killed first. */
    if (hil_command_stop) nanosleep(&(struct timespec){2, 0}, NULL);
    if (message) print_lost(message);
    _exit(HIL_COMMAND_LOST);
}
