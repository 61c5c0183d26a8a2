/* stacked_export.c - the tensors of files, from those of the model. */
#include "format/stacked.h"

#include "base/alloc.h"
#include "format/stacked_names.h"

#include <stdio.h>
#include <string.h>

/* A tensor that is written: one of the model's, or a stack of them. */
typedef struct group {
    const hil_arch_stack *row; /* of any of its parts; NULL: tensor `only` */
    size_t only;
    size_t *member; /* of a stack: expert 0's parts, then expert 1's, ... */
    size_t members, found;
} group;

struct hil_stacked {
    const hil_export *plain;
    const hil_config *config;
    hil_export export;
    hil_export_tensor *tensor;
    group *group;
    char *names;
    char *run; /* HIL_EXPORT_PIECE bytes, for interleaved parts */
    size_t count;
};

static const hil_arch_stack *find_row(const hil_stacked *s, const char *name, size_t *prefix,
                                      int64_t *expert)
{
    const hil_arch_stack *row = s->config->arch->stacks;
    for (; row && row->tensor; ++row)
        if (row->saved && hil_stacked_match(s->config, row, name, prefix, expert)) return row;
    return NULL;
}

bool hil_stacked_turned(const hil_config *config, const char *name)
{
    hil_stacked s = {.config = config};
    size_t prefix;
    int64_t expert;
    const hil_arch_stack *row = find_row(&s, name, &prefix, &expert);
    return config->mixture.turned && row && hil_stacked_each(row);
}

/* The tensor's place in the list; appended if it is not there yet. */
static size_t find_group(hil_stacked *s, const char *name)
{
    size_t i = s->count;
    while (i > 0 && strcmp(s->tensor[i - 1].name, name) != 0) --i;
    if (i > 0) return i - 1;
    char *copy = s->names + s->count * HIL_STACKED_NAME;
    snprintf(copy, HIL_STACKED_NAME, "%s", name);
    s->tensor[s->count].name = copy;
    return s->count++;
}

static void give_shape(const hil_stacked *s, const hil_arch_stack *row, const hil_shape *one,
                       hil_shape *out)
{
    *out = *one;
    if (hil_stacked_each(row)) {
        *out = (hil_shape){3, {s->config->mixture.experts, one->dim[0], one->dim[1]}};
        out->dim[row->interleaved ? 2 : 1] *= row->parts;
    } else if (row->flat) {
        int64_t experts = s->config->mixture.experts;
        *out = (hil_shape){2, {experts, row->parts * one->dim[0] / experts}};
    }
}

static hil_status add_tensor(hil_stacked *s, size_t i)
{
    const hil_export_tensor *t = &s->plain->tensor[i];
    size_t prefix;
    int64_t expert;
    char name[HIL_STACKED_NAME];
    const hil_arch_stack *row = find_row(s, t->name, &prefix, &expert);
    if (!row) {
        s->group[s->count] = (group){.only = i};
        s->tensor[s->count++] = *t;
        return HIL_OK;
    }
    snprintf(name, sizeof name, "%.*s%s", (int)prefix, t->name, row->tensor);
    size_t at = find_group(s, name);
    group *g = &s->group[at];
    if (!g->row) {
        int64_t experts = hil_stacked_each(row) ? s->config->mixture.experts : 1;
        g->row = row;
        g->members = (size_t)(experts * row->parts);
        HIL_TRY(HIL_ALLOC(g->members, &g->member));
        s->tensor[at].dtype = t->dtype;
        give_shape(s, row, &t->shape, &s->tensor[at].shape);
    }
    g->member[expert * row->parts + row->part] = i;
    ++g->found;
    return HIL_OK;
}

/* Interleaved: number k of each part, one after the other. */
static hil_status read_interleaved(hil_stacked *s, const group *g, size_t each, size_t offset,
                                   size_t *size, char *out)
{
    size_t parts = (size_t)g->row->parts, bytes = hil_dtype_size(s->tensor[g - s->group].dtype);
    size_t expert = offset / (each * parts), at = offset % (each * parts) / parts;
    size_t most = HIL_EXPORT_PIECE / parts / bytes * bytes, take = *size / parts / bytes * bytes;
    if (take > each - at) take = each - at;
    if (take > most) take = most;
    for (size_t p = 0; p < parts; ++p) {
        for (size_t done = 0, n; done < take; done += n) {
            n = take - done;
            HIL_TRY(s->plain->read(s->plain->context, g->member[expert * parts + p], at + done, &n,
                                   s->run + done));
        }
        for (size_t k = 0; k < take / bytes; ++k)
            memcpy(out + (k * parts + p) * bytes, s->run + k * bytes, bytes);
    }
    *size = take * parts;
    return HIL_OK;
}

static hil_status read_group(void *context, size_t i, size_t offset, size_t *size, void *out)
{
    hil_stacked *s = context;
    const group *g = &s->group[i];
    if (!g->row) return s->plain->read(s->plain->context, g->only, offset, size, out);
    const hil_export_tensor *one = &s->plain->tensor[g->member[0]];
    size_t each = (size_t)hil_shape_count(&one->shape) * hil_dtype_size(one->dtype);
    if (g->row->interleaved) return read_interleaved(s, g, each, offset, size, out);
    if (*size > each - offset % each) *size = each - offset % each;
    return s->plain->read(s->plain->context, g->member[offset / each], offset % each, size, out);
}

static hil_status fill(hil_stacked *s)
{
    size_t count = s->plain->count;
    HIL_TRY(HIL_ALLOC(count, &s->tensor));
    HIL_TRY(HIL_ALLOC(count, &s->group));
    HIL_TRY(HIL_ALLOC(count * HIL_STACKED_NAME, &s->names));
    HIL_TRY(HIL_ALLOC(HIL_EXPORT_PIECE, &s->run));
    for (size_t i = 0; i < count; ++i) HIL_TRY(add_tensor(s, i));
    for (size_t i = 0; i < s->count; ++i)
        if (s->group[i].found != s->group[i].members)
            return hil_fail(HIL_ERR_INPUT, "%s cannot be written: parts of it are missing",
                            s->tensor[i].name);
    s->export.tensor = s->tensor;
    s->export.count = s->count;
    s->export.read = read_group;
    s->export.context = s;
    return HIL_OK;
}

hil_status hil_stacked_create(hil_stacked **out, const hil_export *plain, const hil_config *config)
{
    hil_stacked *s;
    *out = NULL;
    HIL_TRY(HIL_ALLOC(1, &s));
    *s = (hil_stacked){.plain = plain, .config = config, .export = *plain};
    hil_status status = config->arch->stacks ? fill(s) : HIL_OK;
    if (status == HIL_OK)
        *out = s;
    else
        hil_stacked_destroy(s);
    return status;
}

const hil_export *hil_stacked_export(const hil_stacked *s)
{
    return &s->export;
}

void hil_stacked_destroy(hil_stacked *s)
{
    if (!s) return;
    for (size_t i = 0; i < s->count; ++i) hil_free(s->group[i].member);
    hil_free(s->tensor);
    hil_free(s->group);
    hil_free(s->names);
    hil_free(s->run);
    hil_free(s);
}
