/* blocks.h - blocks of memory and disk between which random jobs copy, and what each must hold.
   Define before including: WORDS of a block and the size of a PAGE (a block has 2.5 pages). */
#ifndef TESTS_TIER_BLOCKS_H
#define TESTS_TIER_BLOCKS_H

#include "tier/tiers.h"

#include <string.h>

#define BLOCK (WORDS * sizeof(uint64_t))
#define BLOCKS 6 /* of each tier */

/* `words`: what the block must hold when all work issued so far is complete. */
typedef struct block {
    uint64_t *at; /* device, host */
    hil_extent extent;
    hil_fence written, used; /* by the last job that wrote it; by all jobs since */
    uint64_t words[WORDS];
} block;

typedef struct blocks {
    block block[HIL_TIERS][BLOCKS];
    uint64_t state; /* of the random numbers */
} blocks;

static inline uint64_t blocks_draw(blocks *all, uint64_t below)
{
    all->state = all->state * 6364136223846793005u + 1442695040888963407u;
    return (all->state >> 33) % below;
}

/* Takes a random block that is not taken yet. */
static inline block *blocks_take(blocks *all, hil_tier tier, uint64_t *taken)
{
    uint64_t i;
    do i = blocks_draw(all, BLOCKS);
    while (taken[tier] >> i & 1);
    taken[tier] |= (uint64_t)1 << i;
    return &all->block[tier][i];
}

/* Adds a part from one block to another; a block is in a job once. */
static inline void blocks_add(blocks *all, hil_job *job, hil_tier from, hil_tier to,
                              uint64_t taken[HIL_TIERS])
{
    block *source = blocks_take(all, from, taken), *target = blocks_take(all, to, taken);
    hil_fence_join(&job->after, &source->written);
    hil_fence_join(&job->after, &target->written);
    hil_fence_join(&job->after, &target->used);
    hil_part *part = &job->part[job->parts++];
    *part = (hil_part){.to = target->at, .from = source->at, .bytes = BLOCK};
    if (from == HIL_DISK) *part = (hil_part){HIL_PART_READ, target->at, NULL, BLOCK, NULL, 0, 3};
    if (to == HIL_DISK) *part = (hil_part){HIL_PART_WRITE, NULL, source->at, BLOCK, NULL, 0, 3};
    if (from == HIL_DISK) part->disk = &source->extent;
    if (to == HIL_DISK) part->disk = &target->extent;
    memcpy(target->words, source->words, BLOCK);
}

#endif
