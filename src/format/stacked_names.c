/* stacked_names.c - names of tensors and parameters in the rows of hil_arch.stacks. */
#include "format/stacked_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool hil_stacked_each(const hil_arch_stack *row)
{
    return strchr(row->param, '*');
}

int hil_stacked_block(const hil_config *config, const char *name)
{
    const char *blocks = config->arch->names->blocks;
    size_t size = strlen(blocks), digits;
    if (strncmp(name, blocks, size) != 0) return 0;
    digits = strspn(name + size, "0123456789");
    return digits && name[size + digits] == '.' ? (int)(size + digits + 1) : 0;
}

size_t hil_stacked_prefix(const hil_config *config, const char *name, const char *rest)
{
    size_t size = (size_t)hil_stacked_block(config, name);
    return size && strcmp(name + size, rest) == 0 ? size : 0;
}

void hil_stacked_param_name(const hil_arch_stack *row, const char *name, int prefix, int64_t expert,
                            char out[HIL_STACKED_NAME])
{
    const char *star = strchr(row->param, '*');
    if (star)
        snprintf(out, HIL_STACKED_NAME, "%.*s%.*s%lld%s", prefix, name, (int)(star - row->param),
                 row->param, (long long)expert, star + 1);
    else
        snprintf(out, HIL_STACKED_NAME, "%.*s%s", prefix, name, row->param);
}

bool hil_stacked_match(const hil_config *config, const hil_arch_stack *row, const char *name,
                       size_t *prefix, int64_t *expert)
{
    const char *star = strchr(row->param, '*'), *at;
    *expert = 0;
    *prefix = (size_t)hil_stacked_block(config, name);
    if (!*prefix) return false;
    at = name + *prefix;
    if (!star) return strcmp(at, row->param) == 0;
    size_t before = (size_t)(star - row->param), digits;
    if (strncmp(at, row->param, before) != 0) return false;
    digits = strspn(at + before, "0123456789");
    if (!digits || digits > 9 || strcmp(at + before + digits, star + 1) != 0) return false;
    *expert = strtoll(at + before, NULL, 10);
    return *expert < config->mixture.experts;
}
