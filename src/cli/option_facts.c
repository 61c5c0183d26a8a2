/* option_facts.c - the options of a process as facts that ranks compare. */
#include "cli/options.h"
#include "hilbert/version.h"

hil_status hil_options_facts(const hil_command *command, const void *values,
                             hil_fact fact[HIL_FACTS_MAX], size_t *count, char **text)
{
    long name[HIL_OPTIONS_MAX], value[HIL_OPTIONS_MAX];
    size_t used = 0, size;
    FILE *out = open_memstream(text, &size);
    for (size_t i = 0; out && i < command->count; ++i) {
        const hil_option *option = &command->option[i];
        if (option->per_rank) continue;
        name[used] = ftell(out);
        fprintf(out, "--%s%c", option->name, 0);
        value[used++] = ftell(out);
        hil_option_print(out, option, values);
        fputc(0, out);
    }
    if (!out || fclose(out) != 0)
        return hil_fail(HIL_ERR_MEMORY, "no memory is left to compare options");
    fact[0] = (hil_fact){"hilbert of version", hil_version()};
    fact[1] = (hil_fact){"the command", command->name};
    for (size_t i = 0; i < used; ++i) fact[2 + i] = (hil_fact){*text + name[i], *text + value[i]};
    *count = 2 + used;
    return HIL_OK;
}
