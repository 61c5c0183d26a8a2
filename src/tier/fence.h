/* fence.h - a set of transfers to wait for: one job number per link. A link retires its jobs in
   order, so job n is complete when the link has retired n jobs. */
#ifndef HIL_TIER_FENCE_H
#define HIL_TIER_FENCE_H

#include "base/fail.h"

typedef enum hil_tier { HIL_DEVICE, HIL_HOST, HIL_DISK, HIL_TIERS } hil_tier;

typedef enum hil_link {
    HIL_LINK_FETCH,   /* disk -> host: prefetched weights and activations */
    HIL_LINK_STASH,   /* host -> disk: gradients and activations */
    HIL_LINK_IN,      /* host -> device: weights, in order of use, each after its update */
    HIL_LINK_BACK,    /* host -> device: offloaded tensors, which wait for no update */
    HIL_LINK_OUT,     /* device -> host: copy-out of offloaded tensors and gradients */
    HIL_LINK_READ,    /* the sweep: states to where they are updated */
    HIL_LINK_UPDATE,  /* the sweep: arithmetic */
    HIL_LINK_WRITE,   /* the sweep: write-back of states */
    HIL_LINK_GATHER,  /* all-gather of weights over the ranks */
    HIL_LINK_REDUCE,  /* reduce-scatter of gradients to the ranks that own them */
    HIL_LINK_SAVE,    /* states to a checkpoint */
    HIL_LINK_COMPUTE, /* no transfers: marks in the device's compute stream */
    HIL_LINKS
} hil_link;

typedef struct hil_fence {
    uint64_t after[HIL_LINKS]; /* number of the last job to wait for; 0: none */
} hil_fence;

/* Makes *fence wait for both. */
static inline void hil_fence_join(hil_fence *fence, const hil_fence *other)
{
    for (int i = 0; i < HIL_LINKS; ++i)
        if (fence->after[i] < other->after[i]) fence->after[i] = other->after[i];
}

#endif
