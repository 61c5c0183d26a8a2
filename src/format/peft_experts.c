/* peft_experts.c - where PEFT's stacked tensors have the adapter of an expert. */
#include "format/peft_experts.h"

#include "base/alloc.h"
#include "format/entry_part.h"
#include "format/safetensors_file.h"
#include "format/weights.h"

#include <stdio.h>
#include <string.h>

#define A_NAME ".lora_A.weight"
#define B_NAME ".lora_B.weight"

void hil_peft_parameter_name(const hil_config *config, const char *param, char out[HIL_PEFT_NAME],
                             const hil_arch_stack **row, int64_t *expert)
{
    const hil_arch_stack *at = config->arch->stacks;
    size_t prefix = 0, found;
    int64_t number;
    *row = NULL;
    *expert = 0;
    for (; at && at->tensor; ++at) {
        /* One that is saved has the name in files, another one the name in memory. */
        bool usable = !at->flat && (!*row || (*row)->saved > at->saved);
        if (!usable || !hil_stacked_match(config, at, param, &found, &number)) continue;
        *row = at;
        *expert = number;
        prefix = found;
    }
    snprintf(out, HIL_PEFT_NAME, "%.*s%s", *row ? (int)prefix : 0, param,
             *row ? (*row)->tensor : param);
}

/* How many parameters of the same module PEFT wraps after this one: those that follow it in the
   table and are targets. */
static int wraps(const hil_peft *peft, const hil_arch_stack *row, const char *name)
{
    size_t block = strlen(name) - strlen(row->tensor);
    size_t module = (size_t)(strrchr(row->tensor, '.') - row->tensor) + 1;
    const char *last = row->tensor;
    char other[HIL_PEFT_NAME];
    int count = 0;
    for (++row; row->tensor; ++row) {
        if (strncmp(row->tensor, last, module) != 0 || strcmp(row->tensor, last) == 0) continue;
        last = row->tensor;
        snprintf(other, sizeof other, "%.*s%s", (int)block, name, row->tensor);
        count += hil_peft_is_parameter(peft, other);
    }
    return count;
}

bool hil_peft_place_of(const hil_peft *peft, const hil_config *config, const char *param,
                       const hil_shape *shape, hil_peft_place *out)
{
    const size_t before = sizeof HIL_PEFT_PREFIX - 1, after = sizeof A_NAME - 1;
    size_t size = strlen(param);
    char own[HIL_PEFT_NAME], name[HIL_PEFT_NAME];
    const hil_arch_stack *row;
    int64_t expert;
    if (size <= before + after || size >= sizeof own) return false;
    const char *kind = param + size - after;
    bool b = strcmp(kind, B_NAME) == 0;
    if ((!b && strcmp(kind, A_NAME) != 0) || strncmp(param, HIL_PEFT_PREFIX, before) != 0)
        return false;
    snprintf(own, sizeof own, "%.*s.weight", (int)(size - before - after), param + before);
    hil_peft_parameter_name(config, own, name, &row, &expert);
    if (!row || !hil_peft_is_parameter(peft, name)) return false;
    int64_t experts = hil_stacked_each(row) ? config->mixture.experts : 1;
    *out = (hil_peft_place){.whole = {2, {experts * shape->dim[0], shape->dim[1]}},
                            .index = expert,
                            .members = experts,
                            .stride = 1};
    if (b) {
        out->whole = (hil_shape){2, {row->parts * shape->dim[0], shape->dim[1] * experts}};
        out->index = row->part * experts + expert;
        out->members = row->parts * experts;
        out->stride = experts;
        if (row->interleaved) out->run = shape->dim[1];
    }
    int wrapped = wraps(peft, row, name);
    *strrchr(name, '.') = 0;
    snprintf(out->tensor, sizeof out->tensor, HIL_PEFT_PREFIX "%.300s", name);
    for (int i = 0; i < wrapped; ++i)
        strncat(out->tensor, ".base_layer", sizeof out->tensor - strlen(out->tensor) - 1);
    strncat(out->tensor, kind, sizeof out->tensor - strlen(out->tensor) - 1);
    return true;
}

typedef struct opening {
    const hil_peft *peft;
    const hil_config *config;
    const hil_store *store;
    hil_safetensors *file, *base;
    hil_entry_part *parts;
    bool *used; /* entries of the base that were cut into parts */
    size_t names_used;
    bool base_owned; /* by `file` */
} opening;

static hil_status read_part(const void *parts, const hil_entry *entry, size_t first, void *out,
                            size_t size)
{
    return hil_entry_part_read((const hil_entry_part *)parts + entry->offset, first, out, size);
}

/* Adds an entry for a matrix of an expert. */
static hil_status add_part(opening *o, const hil_param *param, const hil_peft_place *place)
{
    const hil_param_spec *spec = hil_param_spec_of(param);
    const hil_entry *whole = hil_safetensors_find(o->base, place->tensor);
    size_t i = o->file->count;
    int64_t *dim = o->file->dims + HIL_DIMS * i, each = hil_param_elements(param);
    hil_shape shape;
    hil_dtype dtype;
    char text[64];
    if (!whole)
        return hil_fail(HIL_ERR_INPUT, "the adapter folder has no tensor %s", place->tensor);
    HIL_TRY(hil_entry_dtype(whole, &dtype));
    HIL_TRY(hil_entry_shape(whole, &shape));
    if (!hil_shape_equal(&shape, &place->whole))
        return hil_fail(HIL_ERR_INPUT,
                        "the adapter's tensor %s has shape %s, but by the model and the adapter's "
                        "config it is (%lld, %lld)",
                        place->tensor, hil_entry_shape_text(whole, text),
                        (long long)place->whole.dim[0], (long long)place->whole.dim[1]);
    size_t size = hil_dtype_size(dtype);
    int64_t run = place->run ? place->run : each;
    o->parts[i] = (hil_entry_part){.whole = whole,
                                   .first = place->index / place->stride * place->stride * run +
                                            place->index % place->stride,
                                   .step = place->stride,
                                   .run = run,
                                   .jump = place->members * run,
                                   .size = size};
    if (place->stride == 1) o->parts[i].first = place->index * each;
    char *name = o->file->names + o->names_used;
    memcpy(name, spec->name, strlen(spec->name) + 1);
    o->names_used += strlen(spec->name) + 1;
    memcpy(dim, spec->shape.dim, sizeof *dim * (size_t)spec->shape.ndim);
    o->file->entry[o->file->count++] = (hil_entry){.name = name,
                                                   .dtype = whole->dtype,
                                                   .ndim = spec->shape.ndim,
                                                   .dim = dim,
                                                   .offset = i,
                                                   .bytes = (size_t)each * size,
                                                   .file = o->file};
    for (size_t k = 0; k < hil_safetensors_count(o->base); ++k)
        if (hil_safetensors_at(o->base, k) == whole) o->used[k] = true;
    return HIL_OK;
}

static hil_status add_all(opening *o)
{
    size_t params = hil_store_count(o->store), base = hil_safetensors_count(o->base);
    HIL_TRY(HIL_ALLOC(base, &o->used));
    HIL_TRY(hil_safetensors_reserve(o->file, params + base, HIL_PEFT_NAME));
    HIL_TRY(HIL_ALLOC(params + base, &o->parts));
    o->file->own = o->parts;
    o->file->source = (hil_safetensors_source){read_part, o->parts};
    for (size_t i = 0; i < params; ++i) {
        const hil_param *p = hil_store_at(o->store, i);
        const hil_param_spec *spec = hil_param_spec_of(p);
        hil_peft_place place;
        if (spec->adapter &&
            hil_peft_place_of(o->peft, o->config, spec->name, &spec->shape, &place))
            HIL_TRY(add_part(o, p, &place));
    }
    for (size_t i = 0; i < base; ++i)
        if (!o->used[i]) o->file->entry[o->file->count++] = *hil_safetensors_at(o->base, i);
    return hil_safetensors_index(o->file);
}

/* Makes the view, which owns the base from then on. */
static hil_status make_view(opening *o)
{
    hil_status status = HIL_ALLOC(1, &o->file->shard);
    if (status != HIL_OK) return status;
    o->file->shard[o->file->shards++] = o->base;
    o->base_owned = true;
    return add_all(o);
}

hil_status hil_peft_experts_open(hil_safetensors **out, const char *folder, const hil_peft *peft,
                                 const hil_config *config, const hil_store *store)
{
    opening o = {.peft = peft, .config = config, .store = store};
    *out = NULL;
    HIL_TRY(hil_weights_open_adapter(&o.base, folder));
    if (!peft->parameters) {
        *out = o.base;
        return HIL_OK;
    }
    hil_status status = HIL_ALLOC(1, &o.file);
    if (status == HIL_OK) status = make_view(&o);
    hil_free(o.used);
    if (status == HIL_OK) {
        *out = o.file;
        return HIL_OK;
    }
    if (!o.base_owned) hil_safetensors_close(o.base);
    hil_safetensors_close(o.file);
    return status;
}
