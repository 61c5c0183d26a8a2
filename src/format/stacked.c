/* stacked.c - opens a folder's weights as tensors of the model. */
#include "format/stacked.h"

#include "base/alloc.h"
#include "format/coded.h"
#include "format/entry_part.h"
#include "format/mxfp4.h"
#include "format/recut.h"
#include "format/safetensors_file.h"
#include "format/stacked_names.h"

#include <stdio.h>
#include <string.h>

/* Where an entry's numbers are. */
typedef struct part {
    hil_entry_part plain;
    hil_mxfp4 packed; /* instead, where it has blocks */
} part;

typedef struct opening {
    const hil_config *config;
    hil_safetensors *file, *base;
    part *parts;
    size_t used, names_used, dims_used; /* of what `file` has */
} opening;

static hil_status read_part(const void *context, const hil_entry *entry, size_t first, void *out,
                            size_t size)
{
    const part *p = (const part *)context + entry->offset;
    if (p->packed.blocks) return hil_mxfp4_read(&p->packed, first, out, size);
    return hil_entry_part_read(&p->plain, first, out, size);
}

/* Whether tensors may have the names of a model with images, of which this is the text model. */
static bool is_wrapped(const hil_config *config)
{
    return config->whole[0] || config->arch->wrapped;
}

/* The name that a tensor has in a folder of the text model alone. */
static void text_name(const hil_config *config, const char *name, char out[HIL_STACKED_NAME])
{
    static const struct {
        const char *from, *to;
    } prefixes[] = {{"language_model.model.", "model."},
                    {"language_model.lm_head.", "lm_head."},
                    {"model.language_model.", "model."}};
    size_t cut = 0;
    const char *front = "";
    for (size_t i = 0; is_wrapped(config) && i < sizeof prefixes / sizeof *prefixes; ++i)
        if (strncmp(name, prefixes[i].from, strlen(prefixes[i].from)) == 0) {
            cut = strlen(prefixes[i].from);
            front = prefixes[i].to;
            break;
        }
    snprintf(out, HIL_STACKED_NAME, "%s%s", front, name + cut);
}

/* Whether the tensor is of the row, or is that in MXFP4. */
static bool is_of(const opening *o, const hil_arch_stack *row, const hil_entry *entry, bool *packed)
{
    char name[HIL_STACKED_NAME], own[HIL_STACKED_NAME];
    text_name(o->config, entry->name, own);
    snprintf(name, sizeof name, "%s_blocks", row->tensor);
    *packed = o->config->mixture.packed && hil_stacked_prefix(o->config, own, name);
    return *packed || hil_stacked_prefix(o->config, own, row->tensor);
}

/* How many entries the rows make of a tensor; 0: none is about it. */
static size_t count_parts(const opening *o, const hil_entry *entry)
{
    size_t count = 0;
    bool packed;
    const hil_arch_stack *row = o->config->arch->stacks;
    for (; row && row->tensor; ++row)
        if (is_of(o, row, entry, &packed))
            count += hil_stacked_each(row) ? (size_t)o->config->mixture.experts : 1;
    return count;
}

static hil_status check_whole(const opening *o, const hil_arch_stack *row, const hil_entry *entry)
{
    int64_t experts = o->config->mixture.experts;
    int last = row->interleaved ? entry->ndim - 1 : 1;
    char text[64];
    bool fits = hil_stacked_each(row) ? entry->ndim == 3 && entry->dim[0] == experts : true;
    if (row->parts > 1)
        fits = fits && last >= 0 && entry->ndim > last && entry->dim[last] % row->parts == 0;
    if (fits) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT,
                    "tensor %s has shape %s, which does not hold %d part%s of each of the %lld "
                    "experts of config.json",
                    entry->name, hil_entry_shape_text(entry, text), row->parts,
                    row->parts > 1 ? "s" : "", (long long)experts);
}

/* The shape of a part: without the dimension of experts, and its share of the one that is cut. */
static void give_shape(opening *o, const hil_arch_stack *row, const hil_entry *whole,
                       hil_entry *out)
{
    int64_t *dim = o->file->dims + o->dims_used;
    bool each = hil_stacked_each(row);
    int first = each ? 1 : 0;
    out->dim = dim;
    out->ndim = whole->ndim - first;
    for (int i = 0; i < out->ndim; ++i) dim[i] = whole->dim[first + i];
    if (!each && row->flat) {
        out->ndim = 1;
        dim[0] = 1;
        for (int i = 0; i < whole->ndim; ++i) dim[0] *= whole->dim[i];
    }
    dim[row->interleaved ? out->ndim - 1 : 0] /= row->parts;
    o->dims_used += (size_t)out->ndim;
}

static hil_status add_part(opening *o, const hil_arch_stack *row, const hil_entry *whole,
                           int64_t expert)
{
    hil_entry *entry = &o->file->entry[o->used];
    hil_entry_part *p = &o->parts[o->used].plain;
    char name[HIL_STACKED_NAME], own[HIL_STACKED_NAME];
    text_name(o->config, whole->name, own);
    int prefix = (int)hil_stacked_prefix(o->config, own, row->tensor);
    int64_t experts = hil_stacked_each(row) ? o->config->mixture.experts : 1;
    hil_shape shape;
    hil_dtype dtype;
    HIL_TRY(hil_entry_dtype(whole, &dtype));
    HIL_TRY(hil_entry_shape(whole, &shape));
    int64_t each = hil_shape_count(&shape) / experts;
    p->whole = whole;
    p->size = hil_dtype_size(dtype);
    p->step = row->interleaved ? row->parts : 1;
    p->first = expert * each + (row->interleaved ? row->part : row->part * (each / row->parts));
    hil_stacked_param_name(row, own, prefix, expert, name);
    *entry = (hil_entry){.name = o->file->names + o->names_used,
                         .dtype = whole->dtype,
                         .offset = o->used,
                         .bytes = (size_t)(each / row->parts) * p->size,
                         .file = o->file};
    memcpy(o->file->names + o->names_used, name, strlen(name) + 1);
    o->names_used += strlen(name) + 1;
    give_shape(o, row, whole, entry);
    ++o->used;
    return HIL_OK;
}

/* The same of a matrix in MXFP4, which is `whole` and the tensor of its scales. */
static hil_status add_packed(opening *o, const hil_arch_stack *row, const hil_entry *whole,
                             int64_t expert)
{
    hil_entry *entry = &o->file->entry[o->used];
    int64_t *dim = o->file->dims + o->dims_used;
    char *name = o->file->names + o->names_used, other[HIL_STACKED_NAME];
    size_t end = strlen(whole->name) - strlen("blocks");
    snprintf(other, sizeof other, "%.*sscales", (int)end, whole->name);
    const hil_entry *scales = hil_safetensors_find(o->base, other);
    if (!hil_mxfp4_fits(whole, scales, o->config->mixture.experts) || whole->dim[1] % row->parts)
        return hil_fail(HIL_ERR_INPUT, "tensor %s and %s are not experts in MXFP4", whole->name,
                        other);
    hil_stacked_param_name(row, whole->name, hil_stacked_block(o->config, whole->name), expert,
                           name);
    dim[0] = whole->dim[1] / row->parts;
    dim[1] = whole->dim[2] * HIL_MXFP4_GROUP;
    *entry = (hil_entry){.name = name,
                         .dtype = "BF16",
                         .ndim = 2,
                         .dim = dim,
                         .offset = o->used,
                         .bytes = (size_t)(dim[0] * dim[1]) * sizeof(uint16_t),
                         .file = o->file};
    o->parts[o->used++].packed = (hil_mxfp4){whole, scales, expert, row->part, row->parts};
    o->names_used += strlen(name) + 1;
    o->dims_used += 2;
    return HIL_OK;
}

static hil_status add_parts(opening *o, const hil_entry *entry)
{
    for (const hil_arch_stack *row = o->config->arch->stacks; row->tensor; ++row) {
        bool packed;
        if (!is_of(o, row, entry, &packed)) continue;
        if (!packed) HIL_TRY(check_whole(o, row, entry));
        int64_t count = hil_stacked_each(row) ? o->config->mixture.experts : 1;
        for (int64_t e = 0; e < count; ++e)
            HIL_TRY(packed ? add_packed(o, row, entry, e) : add_part(o, row, entry, e));
    }
    return HIL_OK;
}

static hil_status add_whole(opening *o, const hil_entry *entry)
{
    hil_entry *own = &o->file->entry[o->used++];
    char *name = o->file->names + o->names_used;
    *own = *entry;
    if (!is_wrapped(o->config)) return HIL_OK;
    text_name(o->config, entry->name, name);
    own->name = name;
    o->names_used += strlen(name) + 1;
    return HIL_OK;
}

static hil_status add_all(opening *o)
{
    size_t count = 0, whole = hil_safetensors_count(o->base);
    for (size_t i = 0; i < whole; ++i) {
        size_t parts = count_parts(o, hil_safetensors_at(o->base, i));
        count += parts ? parts : 1;
    }
    HIL_TRY(hil_safetensors_reserve(o->file, count, HIL_STACKED_NAME));
    HIL_TRY(HIL_ALLOC(count, &o->parts));
    o->file->own = o->parts;
    o->file->source = (hil_safetensors_source){read_part, o->parts};
    for (size_t i = 0; i < whole; ++i) {
        const hil_entry *entry = hil_safetensors_at(o->base, i);
        HIL_TRY(count_parts(o, entry) ? add_parts(o, entry) : add_whole(o, entry));
    }
    o->file->count = o->used;
    return hil_safetensors_index(o->file);
}

hil_status hil_stacked_open(hil_safetensors **out, const char *folder, const hil_config *config)
{
    opening o = {.config = config};
    *out = NULL;
    HIL_TRY(hil_safetensors_open_folder(&o.base, folder));
    if (config->packing.method) HIL_TRY(hil_coded_open(&o.base, o.base, &config->packing));
    HIL_TRY(hil_recut_open(&o.base, o.base, config));
    if (!config->arch->stacks && !is_wrapped(config)) {
        *out = o.base;
        return HIL_OK;
    }
    hil_status status = HIL_ALLOC(1, &o.file);
    if (status == HIL_OK) status = HIL_ALLOC(1, &o.file->shard);
    if (status == HIL_OK) {
        o.file->shard[o.file->shards++] = o.base;
        status = add_all(&o);
    } else {
        hil_safetensors_close(o.base);
    }
    if (status == HIL_OK)
        *out = o.file;
    else
        hil_safetensors_close(o.file);
    return status;
}
