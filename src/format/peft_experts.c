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
#define MAGNITUDE_NAME ".lora_magnitude_vector"

/* The name in memory of one in files, but for the rows of the table. */
static void move_root(const hil_config *config, const char *name, char out[HIL_PEFT_NAME])
{
    const char *root = config->arch->root, *blocks = root ? config->arch->names->blocks : "";
    size_t own = strcspn(blocks, ".") + 1;
    bool moved = root && strncmp(name, blocks, own) == 0;
    snprintf(out, HIL_PEFT_NAME, "%s%.300s", moved ? root : "", name + (moved ? own : 0));
}

void hil_peft_parameter_name(const hil_config *config, const char *param, char out[HIL_PEFT_NAME],
                             const hil_arch_stack **row, int64_t *expert)
{
    const hil_arch_stack *at = config->arch->stacks;
    size_t prefix = 0, found;
    int64_t number;
    *row = NULL;
    *expert = 0;
    for (; at && at->tensor; ++at) {
        /* One that is saved has the name in files, another one the name in memory; those of stacks
           may be the same. */
        bool filed = at->saved && !hil_stacked_each(at);
        bool usable = !at->flat && !filed && (!*row || (*row)->saved > at->saved);
        if (!usable || !hil_stacked_match(config, at, param, &found, &number)) continue;
        *row = at;
        *expert = number;
        prefix = found;
    }
    char name[HIL_PEFT_NAME];
    snprintf(name, sizeof name, "%.*s%s", *row ? (int)prefix : 0, param,
             *row ? (*row)->tensor : param);
    move_root(config, name, out);
}

const char *hil_peft_memory_module(const hil_config *config, const char *param,
                                   char module[HIL_PEFT_NAME])
{
    const hil_arch_stack *row;
    int64_t expert;
    char name[HIL_PEFT_NAME];
    hil_peft_parameter_name(config, param, name, &row, &expert);
    hil_peft_module(name, module);
    return strrchr(param, '.') ? strrchr(param, '.') + 1 : "";
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

/* The last part of the name of an adapter's parameter; NULL: it is one of the base's. */
static const char *find_kind(const char *param)
{
    static const char *const kinds[] = {A_NAME, B_NAME, MAGNITUDE_NAME};
    size_t size = strlen(param);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i) {
        size_t own = strlen(kinds[i]);
        if (size > own && strcmp(param + size - own, kinds[i]) == 0) return param + size - own;
    }
    return NULL;
}

/* A whole tensor, which only has another name; false: it has not. */
static bool place_renamed(const char *own, char *name, const char *kind, const hil_shape *shape,
                          hil_peft_place *out)
{
    if (strcmp(own, name) == 0) return false;
    *out = (hil_peft_place){.whole = *shape, .members = 1, .stride = 1};
    if (kind) *strrchr(name, '.') = 0;
    snprintf(out->tensor, sizeof out->tensor, HIL_PEFT_PREFIX "%.300s%s", name, kind ? kind : "");
    return true;
}

/* The A or B of an expert; `each`: the tensor has one of every expert. */
static void place_expert(const hil_config *config, const hil_arch_stack *row, int64_t expert,
                         bool b, const hil_shape *shape, hil_peft_place *out)
{
    int64_t experts = config->mixture.experts, rows = shape->dim[0], cols = shape->dim[1];
    bool swapped = config->arch->swapped;
    *out = (hil_peft_place){.index = expert, .members = experts, .stride = 1, .turned = swapped};
    if (swapped)
        out->whole =
            b ? (hil_shape){2, {experts * cols, rows}} : (hil_shape){2, {cols, rows * experts}};
    else
        out->whole = b ? (hil_shape){2, {row->parts * rows, cols * experts}}
                       : (hil_shape){2, {experts * rows, cols}};
    if (b == swapped) return;
    out->stride = experts;
    if (swapped) return;
    out->index = row->part * experts + expert;
    out->members = row->parts * experts;
    if (row->interleaved) out->run = cols;
}

bool hil_peft_place_of(const hil_peft *peft, const hil_config *config, const char *param,
                       const hil_shape *shape, hil_peft_place *out)
{
    const size_t before = sizeof HIL_PEFT_PREFIX - 1;
    char own[HIL_PEFT_NAME], name[HIL_PEFT_NAME];
    const hil_arch_stack *row;
    int64_t expert;
    if (strncmp(param, HIL_PEFT_PREFIX, before) != 0 || strlen(param) >= sizeof own) return false;
    const char *kind = find_kind(param);
    size_t size = kind ? (size_t)(kind - param) : strlen(param);
    snprintf(own, sizeof own, "%.*s%s", (int)(size - before), param + before,
             kind ? ".weight" : "");
    hil_peft_parameter_name(config, own, name, &row, &expert);
    if (!row || !hil_stacked_each(row)) return place_renamed(own, name, kind, shape, out);
    if (!kind || !hil_peft_is_parameter(peft, name)) return false;
    bool b = strcmp(kind, B_NAME) == 0;
    place_expert(config, row, expert, b, shape, out);
    if (out->turned) kind = b ? A_NAME : B_NAME;
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

/* Where the numbers of a parameter are in the tensor. */
static hil_entry_part part_of(const hil_entry *whole, const hil_shape *shape,
                              const hil_peft_place *place, size_t size)
{
    int64_t each = hil_shape_count(shape), run = place->run ? place->run : each;
    hil_entry_part part = {.whole = whole, .step = place->stride, .run = run, .size = size};
    if (place->turned) { /* column after column */
        bool follow = place->stride == 1;
        part.first = place->index * (follow ? each : 1);
        part.step = follow ? shape->dim[0] : place->whole.dim[1];
        part.run = shape->dim[1];
        part.jump = place->stride;
        return part;
    }
    part.jump = place->members * run;
    part.first = place->index * each;
    if (place->stride > 1)
        part.first =
            place->index / place->stride * place->stride * run + place->index % place->stride;
    return part;
}

/* Adds an entry for a parameter, which load_adapter looks for under `own`. */
static hil_status add_part(opening *o, const hil_param *param, const char *own,
                           const hil_peft_place *place)
{
    const hil_entry *whole = hil_safetensors_find(o->base, place->tensor);
    size_t i = o->file->count;
    int64_t *dim = o->file->dims + HIL_DIMS * i, each = hil_param_elements(param);
    const hil_shape *filed = hil_param_filed(param);
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
    o->parts[i] = part_of(whole, filed, place, size);
    char *name = o->file->names + o->names_used;
    memcpy(name, own, strlen(own) + 1);
    o->names_used += strlen(own) + 1;
    memcpy(dim, filed->dim, sizeof *dim * (size_t)filed->ndim);
    o->file->entry[o->file->count++] = (hil_entry){.name = name,
                                                   .dtype = whole->dtype,
                                                   .ndim = filed->ndim,
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
        char name[HIL_PEFT_NAME];
        hil_peft_place place;
        hil_peft_tensor_name(o->peft, spec->name, name);
        if (!hil_peft_place_of(o->peft, o->config, name, hil_param_filed(p), &place)) continue;
        if (spec->adapter || hil_safetensors_find(o->base, place.tensor))
            HIL_TRY(add_part(o, p, name, &place));
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
    if (!peft->parameters && !config->arch->stacks && !config->arch->root) {
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
