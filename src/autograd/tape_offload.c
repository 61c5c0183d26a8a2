/* tape_offload.c - offloads what a tape keeps for backward, and fetches it back. */
#include "autograd/tape.h"

struct hil_offloaded {
    hil_movable movable;
    hil_tensor *tensor; /* a value's, or one that an operation saved */
    hil_value *value;   /* NULL: saved by an operation */
    hil_offloaded *next;
};

/* Sets the address of every value to its root's. */
static void show_all(hil_tape *tape)
{
    for (hil_value *v = tape->values; v; v = v->next) v->tensor.data = v->root->tensor.data;
}

static hil_status store(hil_tape *tape, hil_tensor *tensor, hil_value *value, hil_tier tier)
{
    hil_offloaded *entry;
    size_t bytes = hil_tensor_bytes(tensor);
    if (!tensor->data || !bytes) return HIL_OK;
    HIL_TRY(HIL_ARENA_NEW(&tape->arena, 1, &entry));
    *entry =
        (hil_offloaded){{.data = tensor->data, .bytes = bytes}, tensor, value, tape->offloaded};
    tape->offloaded = entry;
    tensor->data = NULL;
    if (value) value->owned = false;
    return hil_movable_offload_later(tape->context->offload, &entry->movable, tier);
}

hil_status hil_tape_offload(hil_tape *tape, hil_tier tier)
{
    for (hil_value *v = tape->values; v; v = v->next)
        if (v->owned) HIL_TRY(store(tape, &v->tensor, v, tier));
    for (hil_node *node = tape->last; node; node = node->previous)
        for (int i = 0; i < node->saveds; ++i) HIL_TRY(store(tape, &node->saved[i], NULL, tier));
    show_all(tape);
    return HIL_OK;
}

uint64_t hil_tape_kept(const hil_tape *tape)
{
    uint64_t bytes = 0;
    for (const hil_offloaded *a = tape->offloaded; a; a = a->next) bytes += a->movable.bytes;
    for (const hil_value *v = tape->values; v; v = v->next)
        if (v->owned) bytes += hil_tensor_bytes(&v->tensor);
    for (const hil_node *node = tape->last; node; node = node->previous)
        for (int i = 0; i < node->saveds; ++i)
            if (node->saved[i].data) bytes += hil_tensor_bytes(&node->saved[i]);
    return bytes;
}

hil_status hil_tape_prefetch(hil_tape *tape)
{
    for (hil_offloaded *a = tape->offloaded; a; a = a->next)
        HIL_TRY(hil_movable_prefetch(tape->context->offload, &a->movable));
    return HIL_OK;
}

hil_status hil_tape_restore(hil_tape *tape)
{
    hil_offload *offload = tape->context->offload;
    if (!tape->offloaded) return HIL_OK;
    for (hil_offloaded *a = tape->offloaded; a; a = a->next) {
        HIL_TRY(hil_movable_wait(offload, &a->movable, HIL_WAIT_ACTIVATIONS));
        a->tensor->data = a->movable.data;
        if (a->value) a->value->owned = true;
        a->movable.data = NULL;
        hil_movable_free(offload, &a->movable);
        tape->offloaded = a->next;
    }
    show_all(tape);
    return HIL_OK;
}

void hil_tape_forget(hil_tape *tape)
{
    for (hil_offloaded *a = tape->offloaded; a; a = a->next)
        hil_movable_free(tape->context->offload, &a->movable);
    tape->offloaded = NULL;
}
