/* recut.c - reads kernels of q, k and v across the tensors that have their rows. */
#include "format/recut.h"

#include "base/alloc.h"
#include "format/safetensors_file.h"
#include "model/arch.h"

#include <stdio.h>
#include <string.h>

enum { PARTS = 3, DIMS = 3 };

/* The kernels of a layer, and where one of them begins in all of them. */
typedef struct kernel {
    const hil_entry *part[PARTS];
    size_t first;
} kernel;

static hil_status read_kernel(const void *kernels, const hil_entry *entry, size_t first, void *out,
                              size_t size)
{
    const kernel *k = (const kernel *)kernels + entry->offset;
    size_t at = k->first + first;
    char *to = out;
    for (int i = 0; i < PARTS && size; ++i) {
        size_t bytes = k->part[i]->bytes, n = bytes > at ? bytes - at : 0;
        if (n > size) n = size;
        if (n) HIL_TRY(hil_entry_read(k->part[i], at, to, n));
        at = at > bytes ? at - bytes : 0;
        to += n, size -= n;
    }
    return HIL_OK;
}

/* The rows that the kernels of q, k and v should have. */
static void find_rows(const hil_config *c, int64_t rows[PARTS])
{
    rows[0] = rows[1] = c->delta.key_heads * c->delta.key_dim;
    rows[2] = c->delta.heads * c->delta.value_dim;
}

/* Finds those of layer n; false: they are not there, fit, or are no kernels of that many rows. */
static bool find_kernels(const hil_safetensors *base, const hil_config *c, int64_t n,
                         const hil_entry *part[PARTS])
{
    const hil_delta_names *m = c->arch->delta;
    const char *const names[PARTS] = {m->q_kernel, m->k_kernel, m->v_kernel};
    int64_t rows[PARTS], sum = 0, total = 0;
    bool fit = true, alike = true;
    char name[256];
    find_rows(c, rows);
    for (int i = 0; i < PARTS; ++i) {
        snprintf(name, sizeof name, "%s%lld.%s.weight", c->arch->names->blocks, (long long)n,
                 names[i]);
        part[i] = hil_safetensors_find(base, name);
        if (!part[i] || part[i]->ndim != DIMS || part[i]->dim[0] > PARTS * HIL_CONFIG_WIDTH_MAX)
            return false;
        sum += part[i]->dim[0], total += rows[i];
        fit = fit && part[i]->dim[0] == rows[i];
        alike = alike && strcmp(part[i]->dtype, part[0]->dtype) == 0 &&
                part[i]->dim[1] == part[0]->dim[1] && part[i]->dim[2] == part[0]->dim[2];
    }
    return !fit && alike && sum == total && total > 0;
}

/* Makes the entries of a layer's kernels, whose numbers are `kernels`. */
static void set_kernels(hil_safetensors *file, const hil_safetensors *base, const hil_config *c,
                        kernel *kernels, size_t count)
{
    int64_t rows[PARTS], all = 0;
    size_t bytes = 0, first = 0;
    find_rows(c, rows);
    for (int i = 0; i < PARTS; ++i) {
        bytes += kernels[count].part[i]->bytes;
        all += rows[i];
    }
    for (int i = 0; i < PARTS; ++i) {
        const hil_entry *part = kernels[count].part[i];
        hil_entry *entry = &file->entry[part - base->entry];
        int64_t *dim = file->dims + (count + (size_t)i) * DIMS;
        memcpy(dim, part->dim, DIMS * sizeof *dim);
        dim[0] = rows[i];
        memcpy(kernels[count + (size_t)i].part, kernels[count].part, sizeof kernels->part);
        kernels[count + (size_t)i].first = first;
        entry->dim = dim;
        entry->offset = count + (size_t)i;
        entry->bytes = bytes / (size_t)all * (size_t)rows[i];
        entry->file = file;
        first += entry->bytes;
    }
}

static hil_status fill(hil_safetensors *file, const hil_safetensors *base, const hil_config *c,
                       size_t layers)
{
    kernel *kernels;
    size_t used = 0;
    HIL_TRY(hil_safetensors_reserve(file, base->count, 1));
    HIL_TRY(HIL_ALLOC(layers * PARTS, &kernels));
    file->own = kernels;
    file->source = (hil_safetensors_source){read_kernel, kernels};
    memcpy(file->entry, base->entry, base->count * sizeof *file->entry);
    file->count = base->count;
    for (int64_t n = 0; n < c->layers; ++n) {
        if (!find_kernels(base, c, n, kernels[used].part)) continue;
        set_kernels(file, base, c, kernels, used);
        used += PARTS;
        if (used == layers * PARTS) break;
    }
    return hil_safetensors_index(file);
}

hil_status hil_recut_open(hil_safetensors **out, hil_safetensors *base, const hil_config *config)
{
    const hil_entry *part[PARTS];
    hil_safetensors *file = NULL;
    size_t layers = 0;
    bool apart = config->arch->delta && config->arch->delta->q_kernel;
    *out = base;
    for (int64_t n = 0; apart && n < config->layers; ++n)
        layers += find_kernels(base, config, n, part);
    if (!layers) return HIL_OK;
    *out = NULL;
    hil_status status = HIL_ALLOC(1, &file);
    if (status == HIL_OK) status = HIL_ALLOC(1, &file->shard);
    if (status != HIL_OK) {
        hil_safetensors_close(base);
        hil_free(file);
        return status;
    }
    file->shard[file->shards++] = base;
    status = fill(file, base, config, layers);
    if (status == HIL_OK)
        *out = file;
    else
        hil_safetensors_close(file);
    return status;
}
