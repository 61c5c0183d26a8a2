/* stacked_export.c - the tensors of files, from those of the model. */
#include "format/stacked.h"

#include "base/alloc.h"
#include "format/peft_experts.h"
#include "format/stacked_names.h"

#include <stdio.h>
#include <string.h>

/* A tensor that is written: one of the model's, or a stack of them. */
typedef struct group {
    size_t *member; /* of a stack: expert 0's parts, then expert 1's, ...; NULL: tensor `only` */
    size_t only;
    size_t members, found;
    size_t stride; /* so many members are interleaved, number by number; 1: members follow each
                      other */
    size_t run;    /* after so many numbers of each of those, the next ones follow; 0: after all */
    bool turned;   /* of the transposes of the members */
} group;

struct hil_stacked {
    const hil_export *plain;
    const hil_config *config;
    const hil_peft *peft; /* NULL: a model */
    hil_export export;
    hil_export_tensor *tensor;
    group *group;
    char *names;
    char *run;                         /* HIL_EXPORT_PIECE bytes, for interleaved parts */
    char *turned;                      /* the transpose of a member */
    size_t turned_room, turned_member; /* bytes; which one it is, plus one */
    char *piece;                       /* as large, of a member to transpose */
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

bool hil_stacked_transposed(const hil_config *config, const char *name)
{
    hil_stacked s = {.config = config};
    size_t prefix;
    int64_t expert;
    const hil_arch_stack *row = find_row(&s, name, &prefix, &expert);
    return config->mixture.transposed && row && hil_stacked_each(row);
}

/* The tensor's place in the list; appended if it is not there yet. */
static size_t find_group(hil_stacked *s, const char *name)
{
    size_t i = s->count;
    while (i > 0 && strcmp(s->tensor[i - 1].name, name) != 0) --i;
    if (i > 0) return i - 1;
    char *copy = s->names + s->count * HIL_PEFT_NAME;
    snprintf(copy, HIL_PEFT_NAME, "%s", name);
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
    } else if (row->flat == HIL_FLAT_NUMBER) {
        out->ndim = 0;
    } else if (row->flat == HIL_FLAT_HEADS) {
        *out = (hil_shape){4, {1, 1, one->dim[0], 1}};
    } else if (row->flat) {
        int64_t experts = row->flat == HIL_FLAT_ROW ? 1 : s->config->mixture.experts;
        *out = (hil_shape){2, {experts, row->parts * one->dim[0] / experts}};
    }
}

/* Where the tensor of the model goes; false: it is written as it is. */
static bool find_place(const hil_stacked *s, const hil_export_tensor *t, hil_peft_place *out)
{
    size_t prefix;
    int64_t expert;
    if (s->peft) return hil_peft_place_of(s->peft, s->config, t->name, &t->shape, out);
    const hil_arch_stack *row = find_row(s, t->name, &prefix, &expert);
    if (!row) return false;
    int64_t experts = hil_stacked_each(row) ? s->config->mixture.experts : 1;
    *out = (hil_peft_place){.index = expert * row->parts + row->part,
                            .members = experts * row->parts,
                            .stride = row->interleaved ? row->parts : 1};
    snprintf(out->tensor, sizeof out->tensor, "%.*s%s", (int)prefix, t->name, row->tensor);
    give_shape(s, row, &t->shape, &out->whole);
    return true;
}

static hil_status add_tensor(hil_stacked *s, size_t i)
{
    const hil_export_tensor *t = &s->plain->tensor[i];
    hil_peft_place place;
    if (!find_place(s, t, &place)) {
        s->group[s->count] = (group){.only = i};
        s->tensor[s->count++] = *t;
        return HIL_OK;
    }
    size_t at = find_group(s, place.tensor);
    group *g = &s->group[at];
    if (!g->member) {
        g->members = (size_t)place.members;
        g->stride = (size_t)place.stride;
        g->run = (size_t)place.run;
        g->turned = place.turned;
        HIL_TRY(HIL_ALLOC(g->members, &g->member));
        s->tensor[at].dtype = t->dtype;
        s->tensor[at].shape = place.whole;
    }
    g->member[place.index] = i;
    ++g->found;
    return HIL_OK;
}

/* Makes the transpose of a member, unless it is the one that was made last. */
static hil_status turn_member(hil_stacked *s, size_t member)
{
    const hil_export_tensor *t = &s->plain->tensor[member];
    size_t size = hil_dtype_size(t->dtype), bytes = (size_t)hil_shape_count(&t->shape) * size;
    size_t rows = (size_t)t->shape.dim[0], cols = (size_t)t->shape.dim[1];
    if (s->turned_member == member + 1) return HIL_OK;
    s->turned_member = 0;
    HIL_TRY(HIL_GROW(&s->turned, &s->turned_room, bytes));
    for (size_t at = 0, n; at < bytes; at += n) {
        n = bytes - at < HIL_EXPORT_PIECE ? bytes - at : HIL_EXPORT_PIECE / size * size;
        HIL_TRY(s->plain->read(s->plain->context, member, at, &n, s->piece));
        for (size_t k = 0; k < n / size; ++k) {
            size_t from = at / size + k, to = from % cols * rows + from / cols;
            memcpy(s->turned + to * size, s->piece + k * size, size);
        }
    }
    s->turned_member = member + 1;
    return HIL_OK;
}

/* Reads a piece of a member, or of its transpose. */
static hil_status read_member(hil_stacked *s, const group *g, size_t i, size_t at, size_t *size,
                              void *out)
{
    size_t member = g->member[i];
    if (!g->turned) return s->plain->read(s->plain->context, member, at, size, out);
    HIL_TRY(turn_member(s, member));
    memcpy(out, s->turned + at, *size);
    return HIL_OK;
}

/* Number k of each interleaved member, one after the other. */
static hil_status read_interleaved(hil_stacked *s, const group *g, size_t each, size_t offset,
                                   size_t *size, char *out)
{
    size_t parts = g->stride, bytes = hil_dtype_size(s->tensor[g - s->group].dtype);
    size_t run = g->run ? g->run * bytes : each, number = offset / (run * parts);
    size_t first = number * parts % g->members, in_run = offset % (run * parts) / parts;
    size_t at = number * parts / g->members * run + in_run;
    size_t most = HIL_EXPORT_PIECE / parts / bytes * bytes, take = *size / parts / bytes * bytes;
    if (take > run - in_run) take = run - in_run;
    if (take > most) take = most;
    for (size_t p = 0; p < parts; ++p) {
        for (size_t done = 0, n; done < take; done += n) {
            n = take - done;
            HIL_TRY(read_member(s, g, first + p, at + done, &n, s->run + done));
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
    if (!g->member) return s->plain->read(s->plain->context, g->only, offset, size, out);
    const hil_export_tensor *one = &s->plain->tensor[g->member[0]];
    size_t each = (size_t)hil_shape_count(&one->shape) * hil_dtype_size(one->dtype);
    if (g->stride > 1) return read_interleaved(s, g, each, offset, size, out);
    if (*size > each - offset % each) *size = each - offset % each;
    return read_member(s, g, offset / each, offset % each, size, out);
}

static hil_status fill(hil_stacked *s)
{
    size_t count = s->plain->count;
    HIL_TRY(HIL_ALLOC(count, &s->tensor));
    HIL_TRY(HIL_ALLOC(count, &s->group));
    HIL_TRY(HIL_ALLOC(count * HIL_PEFT_NAME, &s->names));
    HIL_TRY(HIL_ALLOC(HIL_EXPORT_PIECE, &s->run));
    HIL_TRY(HIL_ALLOC(HIL_EXPORT_PIECE, &s->piece));
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

hil_status hil_stacked_create(hil_stacked **out, const hil_export *plain, const hil_config *config,
                              const hil_peft *peft)
{
    hil_stacked *s;
    *out = NULL;
    HIL_TRY(HIL_ALLOC(1, &s));
    *s = (hil_stacked){.plain = plain, .config = config, .peft = peft, .export = *plain};
    bool plainly = !config->arch->stacks && !(peft && config->arch->root);
    hil_status status = plainly ? HIL_OK : fill(s);
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
    hil_free(s->piece);
    hil_free(s->turned);
    hil_free(s);
}
