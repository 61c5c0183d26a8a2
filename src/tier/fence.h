/* fence.h - "when these transfers are over": one number per link. Links retire their jobs in order,
   so job n is over when the link has retired n jobs. */
#ifndef HIL_TIER_FENCE_H
#define HIL_TIER_FENCE_H

#include "base/fail.h"

typedef enum hil_tier { HIL_DEVICE, HIL_HOST, HIL_DISK, HIL_TIERS } hil_tier;

typedef enum hil_link {
    HIL_LINK_FETCH,   /* disk -> host: weights and activations that compute will need */
    HIL_LINK_STASH,   /* host -> disk: gradients and activations */
    HIL_LINK_IN,      /* host -> device: weights, in turn, each after its update */
    HIL_LINK_BACK,    /* host -> device: what left it, which waits for no update */
    HIL_LINK_OUT,     /* device -> host */
    HIL_LINK_READ,    /* the sweep: states to where they are updated */
    HIL_LINK_UPDATE,  /* the sweep: arithmetic */
    HIL_LINK_WRITE,   /* the sweep: states back home */
    HIL_LINK_GATHER,  /* slices of weights from all ranks */
    HIL_LINK_REDUCE,  /* gradients to the ranks that own them, and their sum */
    HIL_LINK_SAVE,    /* states to a checkpoint */
    HIL_LINK_COMPUTE, /* no transfers: marks in what a device was given to compute */
    HIL_LINKS
} hil_link;

typedef struct hil_fence {
    uint64_t after[HIL_LINKS]; /* 0: nothing */
} hil_fence;

/* Both. */
static inline void hil_fence_join(hil_fence *fence, const hil_fence *other)
{
    for (int i = 0; i < HIL_LINKS; ++i)
        if (fence->after[i] < other->after[i]) fence->after[i] = other->after[i];
}

#endif
