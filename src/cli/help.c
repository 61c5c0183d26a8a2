/* help.c - prints --help from the table that parsing uses. */
#include "cli/options.h"

#include <stdlib.h>
#include <string.h>

#define HELP_COLUMN 26

static void print_choice(FILE *out, const char *words, unsigned index)
{
    for (; index; --index) words += strcspn(words, "|") + 1;
    fprintf(out, "%.*s", (int)strcspn(words, "|"), words);
}

static void print_size(FILE *out, uint64_t bytes)
{
    static const char *const unit[] = {"", "K", "M", "G", "T"};
    size_t i = 0;
    for (; bytes && bytes % 1024 == 0 && i + 1 < sizeof unit / sizeof *unit; ++i) bytes /= 1024;
    fprintf(out, "%llu%s", (unsigned long long)bytes, unit[i]);
}

/* Prints the shortest text that reads back as the same number. */
static void print_real(FILE *out, double number)
{
    char text[40];
    for (int digits = 1; digits <= 17; ++digits) {
        snprintf(text, sizeof text, "%.*g", digits, number);
        if (strtod(text, NULL) == number) break;
    }
    char *padding = strstr(text, "e-0");
    if (padding) memmove(padding + 2, padding + 3, strlen(padding + 2));
    fputs(text, out);
}

static void print_list(FILE *out, const void *field)
{
    char *const *item;
    size_t count;
    memcpy(&item, field, sizeof item);
    memcpy(&count, (const char *)field + sizeof item, sizeof count);
    if (count == 0) fputs("none", out);
    for (size_t i = 0; i < count; ++i) fprintf(out, "%s%s", i ? "," : "", item[i]);
}

static void print_disks(FILE *out, const void *field)
{
    size_t count;
    memcpy(&count, (const char *)field + sizeof(hil_disk_budget *), sizeof count);
    if (count == 0)
        fputs("none", out);
    else
        fprintf(out, "%zu folder%s", count, count == 1 ? "" : "s");
}

void hil_option_print(FILE *out, const hil_option *option, const void *values)
{
    const void *field = (const char *)values + option->offset;
    const char *text = NULL;
    switch (option->kind) {
    case HIL_OPTION_ON:
    case HIL_OPTION_OFF:
        fputs(*(const bool *)field == (option->kind == HIL_OPTION_ON) ? "on" : "off", out);
        return;
    case HIL_OPTION_WHOLE:
        fprintf(out, "%lld",
                option->width == sizeof(int) ? (long long)*(const int *)field
                                             : (long long)*(const int64_t *)field);
        return;
    case HIL_OPTION_SEED:
        fprintf(out, "%llu", (unsigned long long)*(const uint64_t *)field);
        return;
    case HIL_OPTION_SIZE:
    case HIL_OPTION_MEMORY:
    case HIL_OPTION_DEVICE:
        print_size(out, *(const uint64_t *)field);
        return;
    case HIL_OPTION_REAL:
        print_real(out, *(const double *)field);
        return;
    case HIL_OPTION_CHOICE:
        print_choice(out, option->value,
                     option->width == sizeof(bool) ? *(const bool *)field
                                                   : *(const unsigned *)field);
        return;
    case HIL_OPTION_LIST:
        print_list(out, field);
        return;
    case HIL_OPTION_DISK:
        print_disks(out, field);
        return;
    default:
        memcpy(&text, field, sizeof text);
        fputs(text ? text : "none", out);
    }
}

static void print_option(FILE *out, const hil_option *option, const void *values)
{
    int width = fprintf(out, "  --%s%s%s", option->name, option->value ? " " : "",
                        option->value ? option->value : "");
    if (width >= HELP_COLUMN) {
        fputc('\n', out);
        width = 0;
    }
    fprintf(out, "%*s%s", HELP_COLUMN - width, "", option->help);
    if (option->required) {
        fputs(" (required)\n", out);
        return;
    }
    fputs(" (default: ", out);
    if (option->initial)
        fputs(option->initial, out);
    else
        hil_option_print(out, option, values);
    fputs(")\n", out);
}

void hil_options_help(const hil_command *command, const void *values, FILE *out)
{
    fprintf(out, "Usage: hilbert %s %s\n\n%s\n", command->name, command->usage, command->summary);
    for (size_t i = 0; i < command->count; ++i) {
        const hil_option *option = &command->option[i];
        if (option->group) fprintf(out, "\n%s:\n", option->group);
        print_option(out, option, values);
    }
    fprintf(out, "  --help%*sthis text\n", HELP_COLUMN - 8, "");
    if (command->ranks)
        fprintf(
            out,
            "\nWith several ranks (mpirun -n N hilbert %s ...), --threads and --device-memory are "
            "for "
            "each\nof them; --host-memory and --disk are for a machine, whose ranks divide them.\n",
            command->name);
    fprintf(out, "\n%s:\n%s", strchr(command->example, '\n')[1] ? "Examples" : "Example",
            command->example);
}
