/* main.c - hilbert COMMAND: finds the command and runs it. */
#include "cli/command.h"
#include "cli/launch.h"
#include "base/cpu.h"
#include "hilbert/version.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COMMANDS = 15 };

static const hil_command *const commands[COMMANDS] = {
    &hil_command_train,    &hil_command_eval,    &hil_command_generate, &hil_command_chat,
    &hil_command_tokenize, &hil_command_inspect, &hil_command_export,   &hil_command_verify,
    &hil_command_bench,    &hil_command_probe,   &hil_command_plan,     &hil_command_merge,
    &hil_command_quantize, &hil_command_report,  &hil_command_top,
};

/* If a standard descriptor is closed, the next file opened would get its number, and messages would
   be written into that file. Opens placeholders that refuse every read and write. */
static bool hold_standard_descriptors(void)
{
    for (int fd = 0; fd <= 2; ++fd)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd)
            return false;
    return true;
}

static int print_help(void)
{
    printf("hilbert %s trains Hugging Face language models.\n\n"
           "Usage: hilbert COMMAND [options]\n\nCommands:\n",
           hil_version());
    for (size_t i = 0; i < COMMANDS; ++i)
        printf("  %-10s %s\n", commands[i]->name, commands[i]->summary);
    printf("\nhilbert COMMAND --help   the options of a command with their defaults\n"
           "hilbert help COMMAND     the same\n"
           "hilbert --version        the version, and which MPI there is\n\nExamples:\n%s",
           hil_command_train.example);
    return hil_command_flush();
}

static int unknown(const char *name)
{
    const char *names[COMMANDS];
    for (size_t i = 0; i < COMMANDS; ++i) names[i] = commands[i]->name;
    const char *near = hil_text_nearest(name, names, COMMANDS);
    if (near)
        return hil_command_fail(
            hil_fail(HIL_ERR_USAGE, "unknown command '%s'; did you mean %s?", name, near));
    return hil_command_fail(
        hil_fail(HIL_ERR_USAGE, "unknown command '%s'; see hilbert --help", name));
}

/* `hilbert help [COMMAND]`; `name` is NULL without a command. */
static int help(const char *name)
{
    if (!name) return print_help();
    for (size_t i = 0; i < COMMANDS; ++i)
        if (strcmp(name, commands[i]->name) == 0)
            return commands[i]->run(1, (char *[]){(char[]){"--help"}, NULL});
    return unknown(name);
}

static int print_version(void)
{
    char mpi[1024];
    hil_launch_describe(mpi, sizeof mpi);
    printf("hilbert %s\n%s\n", hil_version(), mpi);
    return hil_command_flush();
}

static int run(const hil_command *command, int argc, char **argv)
{
    int ranks = hil_launch_ranks();
    if (ranks > 1 && !command->ranks)
        return hil_command_fail(hil_fail(HIL_ERR_USAGE,
                                         "%s runs in one process, but %d were started; start it "
                                         "without mpirun or srun",
                                         command->name, ranks));
    return command->run(argc, argv);
}

static int missing(void)
{
    char list[256] = "";
    for (size_t i = 0; i < COMMANDS; ++i) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s",
                 i == 0              ? ""
                 : i + 1 == COMMANDS ? " or "
                                     : ", ",
                 commands[i]->name);
    }
    return hil_command_fail(
        hil_fail(HIL_ERR_USAGE, "a command is missing: %s; see hilbert --help", list));
}

static int choose(int argc, char **argv)
{
    if (argc < 2) return missing();
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) return print_help();
    if (strcmp(argv[1], "--version") == 0) return print_version();
    if (strcmp(argv[1], "help") == 0) return help(argv[2]);
    for (size_t i = 0; i < COMMANDS; ++i)
        if (strcmp(argv[1], commands[i]->name) == 0) return run(commands[i], argc - 2, argv + 2);
    return unknown(argv[1]);
}

/* HILBERT_INSTRUCTIONS names the best instruction set that may be used. */
static hil_status limit_instructions(void)
{
    const char *name = getenv("HILBERT_INSTRUCTIONS");
    if (!name || !*name) return HIL_OK;
    for (int level = HIL_CPU_PORTABLE; level <= HIL_CPU_AMX; ++level)
        if (strcmp(name, hil_cpu_name((hil_cpu_level)level)) == 0) {
            hil_cpu_limit((hil_cpu_level)level);
            return HIL_OK;
        }
    return hil_fail(
        HIL_ERR_USAGE,
        "HILBERT_INSTRUCTIONS is '%s', expected portable, avx2, avx512, avx512bf16 or amx", name);
}

int main(int argc, char **argv)
{
    if (!hold_standard_descriptors()) return 1;
    signal(SIGPIPE, SIG_DFL); /* a closed pipe ends the program without a message */
    signal(SIGXFSZ, SIG_IGN); /* a file beyond `ulimit -f` is a failed write, with a message */
    hil_status status = hil_launch_begin();
    if (status == HIL_OK) status = limit_instructions();
    if (status != HIL_OK) return hil_command_fail(status);
    return choose(argc, argv);
}
