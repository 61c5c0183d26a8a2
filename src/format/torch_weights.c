/* torch_weights.c - the tensors of a file of torch.save under one view. */
#include "format/torch_weights.h"

#include "base/alloc.h"
#include "format/safetensors_file.h"
#include "format/torch_file.h"

#include <stdio.h>
#include <string.h>

static hil_status read_bytes(const void *context, const hil_entry *entry, size_t first, void *out,
                             size_t size)
{
    return hil_torch_read_bytes(context, entry->offset + first, out, size);
}

static void release(void *own)
{
    hil_torch_close(own);
}

/* Names and the file are borrowed from `torch`. */
static hil_status add_tensor(hil_safetensors *file, const hil_torch *torch, const char *name,
                             const hil_pickle_value *value)
{
    hil_torch_tensor tensor;
    char message[900];
    hil_status status = hil_torch_find(torch, value, &tensor);
    if (status == HIL_ERR_INPUT) {
        snprintf(message, sizeof message, "%s", hil_status_message());
        return hil_fail(status, "tensor \"%.200s\": %s", name, message);
    }
    HIL_TRY(status);
    int64_t *dim = file->dims + file->count * HIL_TORCH_DIMS;
    memcpy(dim, tensor.dim, sizeof tensor.dim);
    file->entry[file->count++] =
        (hil_entry){.name = name,
                    .dtype = tensor.dtype,
                    .ndim = tensor.ndim,
                    .dim = dim,
                    .offset = tensor.offset,
                    .bytes = (size_t)tensor.elements * tensor.element_bytes,
                    .file = file};
    return HIL_OK;
}

static bool is_tensor(const hil_pickle_value *key, const hil_pickle_value *value)
{
    return key->kind == HIL_PICKLE_TEXT && value->kind == HIL_PICKLE_TENSOR;
}

static hil_status add_all(hil_safetensors *file, const hil_torch *torch)
{
    const hil_pickle_value *root = hil_torch_root(torch);
    size_t count = 0, items = root->kind == HIL_PICKLE_DICT ? root->count : 0;
    for (size_t i = 0; i + 1 < items; i += 2) count += is_tensor(root->item[i], root->item[i + 1]);
    if (!count)
        return hil_fail(HIL_ERR_INPUT, "%s holds no tensors with names: it is no file of weights",
                        hil_torch_name(torch));
    HIL_TRY(HIL_ALLOC(count, &file->entry));
    HIL_TRY(HIL_ALLOC(count * HIL_TORCH_DIMS, &file->dims));
    for (size_t i = 0; i + 1 < items; i += 2)
        if (is_tensor(root->item[i], root->item[i + 1]))
            HIL_TRY(add_tensor(file, torch, root->item[i]->text, root->item[i + 1]));
    HIL_TRY(hil_safetensors_index(file));
    for (size_t i = 1; i < file->count; ++i)
        if (strcmp(file->by_name[i - 1]->name, file->by_name[i]->name) == 0)
            return hil_fail(HIL_ERR_INPUT, "%s holds tensor \"%.200s\" twice",
                            hil_torch_name(torch), file->by_name[i]->name);
    return HIL_OK;
}

/* Takes the file over, also on failure. */
static hil_status make_view(hil_safetensors **out, hil_torch *torch)
{
    hil_safetensors *file;
    hil_status status = HIL_ALLOC(1, &file);
    if (status != HIL_OK) {
        hil_torch_close(torch);
        return status;
    }
    file->own = torch;
    file->release = release;
    file->source = (hil_safetensors_source){read_bytes, torch};
    status = add_all(file, torch);
    if (status == HIL_OK)
        *out = file;
    else
        hil_safetensors_close(file);
    return status;
}

hil_status hil_torch_weights_open(hil_safetensors **out, const char *path)
{
    hil_torch *torch;
    *out = NULL;
    HIL_TRY(hil_torch_open(&torch, path));
    return make_view(out, torch);
}

hil_status hil_torch_weights_parse(hil_safetensors **out, const char *bytes, size_t size,
                                   const char *what)
{
    hil_torch *torch;
    *out = NULL;
    HIL_TRY(hil_torch_parse(&torch, bytes, size, what));
    return make_view(out, torch);
}
