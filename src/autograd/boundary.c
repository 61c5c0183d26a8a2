/* boundary.c - boundary values between segments, as movables; see [Note: boundaries]. */
#include "autograd/boundary.h"

#include "base/alloc.h"

hil_status hil_boundaries_reserve(hil_boundaries *boundaries, int64_t slots)
{
    if (slots <= boundaries->slots) return HIL_OK;
    hil_boundaries_free(boundaries);
    HIL_TRY(HIL_ALLOC(slots * boundaries->segments, &boundaries->outputs));
    boundaries->slots = slots;
    return HIL_OK;
}

void hil_boundaries_free(hil_boundaries *boundaries)
{
    for (int64_t i = 0; i < boundaries->slots * boundaries->segments; ++i) {
        assert(boundaries->outputs[i].count == 0);
        hil_free(boundaries->outputs[i].value);
    }
    hil_free(boundaries->outputs);
    boundaries->outputs = NULL;
    boundaries->slots = 0;
}

/* The number of the value that owns the memory of output i; -1: the batch. */
static int root_of(const hil_boundaries *boundaries, const hil_tape *tape, const hil_values *out,
                   int i)
{
    const hil_value *root = out->value[i]->root;
    int64_t slot = tape->micro_index;
    if (root->owned) return tape->segment * HIL_VALUES_MAX + i;
    for (int j = 0; j < i; ++j)
        if (out->value[j]->root == root)
            return hil_boundaries_at(boundaries, slot, tape->segment)->value[j].root;
    return root->boundary < 0 ? -1 : hil_boundaries_find(boundaries, slot, root->boundary)->root;
}

hil_status hil_boundaries_keep(hil_boundaries *boundaries, const hil_tape *tape,
                               const hil_values *out)
{
    hil_outputs *kept = hil_boundaries_at(boundaries, tape->micro_index, tape->segment);
    HIL_TRY(HIL_GROW(&kept->value, &kept->room, out->count));
    kept->count = out->count;
    kept->wants = tape->wants;
    for (int i = 0; i < out->count; ++i) {
        hil_value *v = out->value[i];
        hil_boundary *b = &kept->value[i];
        *b = (hil_boundary){.name = out->name[i],
                            .tensor = v->tensor,
                            .ids = v->ids,
                            .root = root_of(boundaries, tape, out, i),
                            .wants = v->root->wants && v->tensor.dtype != HIL_I32};
        b->memory.bytes = hil_tensor_bytes(&v->root->tensor);
        b->memory.data = hil_tape_take_memory(v);
    }
    return HIL_OK;
}

static bool exists(const hil_movable *movable)
{
    return movable->data || movable->stored;
}

static hil_status prefetch(hil_boundaries *boundaries, hil_movable *movable)
{
    return exists(movable) ? hil_movable_prefetch(boundaries->offload, movable) : HIL_OK;
}

static hil_status wait(hil_boundaries *boundaries, hil_movable *movable, void **data)
{
    if (exists(movable))
        HIL_TRY(hil_movable_wait(boundaries->offload, movable, HIL_WAIT_ACTIVATIONS));
    *data = movable->data;
    return HIL_OK;
}

static hil_status offload(hil_boundaries *boundaries, hil_movable *movable, int number)
{
    hil_tier tier = boundaries->place[number / HIL_VALUES_MAX].tier;
    if (tier == HIL_DEVICE || !movable->data || !movable->bytes) return HIL_OK;
    return hil_movable_offload_later(boundaries->offload, movable, tier);
}

/* Passes the device memory to the caller and frees all other copies. */
static hil_status take(hil_boundaries *boundaries, hil_movable *movable, void **data)
{
    HIL_TRY(wait(boundaries, movable, data));
    movable->data = NULL;
    if (movable->stored) hil_movable_free(boundaries->offload, movable);
    return HIL_OK;
}

static void drop(hil_boundaries *boundaries, hil_movable *movable)
{
    if (exists(movable)) hil_movable_free(boundaries->offload, movable);
}

hil_status hil_boundaries_prefetch(hil_boundaries *boundaries, int64_t slot, int number)
{
    return prefetch(boundaries, &hil_boundaries_find(boundaries, slot, number)->memory);
}

hil_status hil_boundaries_wait(hil_boundaries *boundaries, int64_t slot, int number, void **data)
{
    return wait(boundaries, &hil_boundaries_find(boundaries, slot, number)->memory, data);
}

hil_status hil_boundaries_offload(hil_boundaries *boundaries, int64_t slot, int number)
{
    return offload(boundaries, &hil_boundaries_find(boundaries, slot, number)->memory, number);
}

hil_status hil_boundaries_take(hil_boundaries *boundaries, int64_t slot, int number, void **data)
{
    return take(boundaries, &hil_boundaries_find(boundaries, slot, number)->memory, data);
}

void hil_boundaries_drop(hil_boundaries *boundaries, int64_t slot, int number)
{
    drop(boundaries, &hil_boundaries_find(boundaries, slot, number)->memory);
}

hil_status hil_boundaries_gradient_add(hil_boundaries *boundaries, int64_t slot, int number,
                                       const hil_context *context, void *data)
{
    hil_boundary *b = hil_boundaries_find(boundaries, slot, number);
    if (!exists(&b->gradient)) {
        b->gradient = (hil_movable){.data = data, .bytes = hil_tensor_bytes(&b->tensor)};
        return HIL_OK;
    }
    void *sum;
    hil_status status = wait(boundaries, &b->gradient, &sum);
    if (status == HIL_OK) {
        hil_movable_discard_copy(boundaries->offload, &b->gradient);
        status = hil_tape_add(context, &b->tensor, sum, data);
    }
    hil_buffers_give(boundaries->buffers, data);
    return status;
}

hil_status hil_boundaries_gradient_prefetch(hil_boundaries *boundaries, int64_t slot, int number)
{
    return prefetch(boundaries, &hil_boundaries_find(boundaries, slot, number)->gradient);
}

hil_status hil_boundaries_gradient_offload(hil_boundaries *boundaries, int64_t slot, int number)
{
    return offload(boundaries, &hil_boundaries_find(boundaries, slot, number)->gradient, number);
}

hil_status hil_boundaries_gradient_take(hil_boundaries *boundaries, int64_t slot, int number,
                                        void **data)
{
    return take(boundaries, &hil_boundaries_find(boundaries, slot, number)->gradient, data);
}

void hil_boundaries_clear(hil_boundaries *boundaries, int64_t slot, int segment)
{
    hil_outputs *out = hil_boundaries_at(boundaries, slot, segment);
    for (int i = 0; i < out->count; ++i) {
        drop(boundaries, &out->value[i].memory);
        drop(boundaries, &out->value[i].gradient);
    }
    out->count = 0;
}
