/* region.c - best fit over sorted arrays: taken blocks, and the free ones between them. */
#include "tier/region.h"

#include "base/alloc.h"

#include <string.h>

typedef struct taken_block {
    size_t offset, bytes;
} taken_block;

typedef struct free_block {
    size_t offset, bytes;
    hil_fence after;
} free_block;

/* Both arrays are sorted by offset; free blocks are never adjacent. */
struct hil_region {
    size_t bytes, align;
    taken_block *taken;
    free_block *free;
    size_t taken_count, taken_capacity;
    size_t free_count, free_capacity;
    size_t used, peak, extent;
};

hil_status hil_region_create(hil_region **out, size_t bytes, size_t align)
{
    assert(align && (align & (align - 1)) == 0);
    hil_status status;
    hil_region *region = NULL;
    *out = NULL;
    HIL_TRY_DONE(HIL_ALLOC(1, &region));
    HIL_TRY_DONE(HIL_GROW(&region->free, &region->free_capacity, 1));
    region->align = align;
    bytes &= ~(align - 1);
    region->bytes = bytes;
    if (bytes) region->free[region->free_count++] = (free_block){.bytes = bytes};
    *out = region;
done:
    if (status != HIL_OK) hil_region_destroy(region);
    return status;
}

void hil_region_destroy(hil_region *region)
{
    if (!region) return;
    hil_free(region->taken);
    hil_free(region->free);
    hil_free(region);
}

/* Index of the first block at or after `offset`; records are `each` bytes and begin with their
   offset. */
static size_t find(const void *blocks, size_t count, size_t each, size_t offset)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (*(const size_t *)(const void *)((const char *)blocks + middle * each) < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static size_t find_taken(const hil_region *region, size_t offset)
{
    return find(region->taken, region->taken_count, sizeof *region->taken, offset);
}

static void remove_free(hil_region *region, size_t i)
{
    --region->free_count;
    memmove(region->free + i, region->free + i + 1,
            (region->free_count - i) * sizeof *region->free);
}

/* Index of the best free block for `bytes`, or free_count. The free block at the region's end
   counts as larger than any other, so addresses do not depend on the size of a region that
   suffices. */
static size_t best_fit(const hil_region *region, size_t bytes)
{
    size_t best = region->free_count;
    for (size_t i = 0; i < region->free_count; ++i) {
        const free_block *block = &region->free[i];
        if (block->bytes < bytes) continue;
        bool tail = block->offset + block->bytes == region->bytes;
        if (best == region->free_count || (!tail && block->bytes < region->free[best].bytes))
            best = i;
    }
    return best;
}

static size_t round_up(const hil_region *region, size_t bytes)
{
    return ((bytes ? bytes : 1) + region->align - 1) & ~(region->align - 1);
}

bool hil_region_fits(const hil_region *region, size_t bytes)
{
    if (bytes > SIZE_MAX - region->align) return false;
    return best_fit(region, round_up(region, bytes)) < region->free_count;
}

hil_status hil_region_take(hil_region *region, size_t bytes, size_t *offset, hil_fence *after,
                           bool *found)
{
    *found = false;
    *offset = 0;
    *after = (hil_fence){0};
    if (bytes > SIZE_MAX - region->align) return HIL_OK;
    bytes = round_up(region, bytes);
    size_t best = best_fit(region, bytes);
    if (best == region->free_count) return HIL_OK;
    HIL_TRY(HIL_GROW(&region->taken, &region->taken_capacity, region->taken_count + 1));
    /* There is at most one free block more than taken ones, so giving back never allocates. */
    HIL_TRY(HIL_GROW(&region->free, &region->free_capacity, region->taken_count + 2));

    free_block *block = &region->free[best];
    *offset = block->offset;
    *after = block->after;
    *found = true;
    block->offset += bytes;
    block->bytes -= bytes;
    if (block->bytes == 0) remove_free(region, best);

    size_t i = find_taken(region, *offset);
    memmove(region->taken + i + 1, region->taken + i,
            (region->taken_count - i) * sizeof *region->taken);
    region->taken[i] = (taken_block){*offset, bytes};
    ++region->taken_count;
    region->used += bytes;
    if (region->peak < region->used) region->peak = region->used;
    if (region->extent < *offset + bytes) region->extent = *offset + bytes;
    return HIL_OK;
}

void hil_region_give(hil_region *region, size_t offset, const hil_fence *after)
{
    size_t i = find_taken(region, offset);
    assert(i < region->taken_count && region->taken[i].offset == offset);
    free_block block = {.offset = offset, .bytes = region->taken[i].bytes};
    if (after) block.after = *after;
    region->used -= block.bytes;
    --region->taken_count;
    memmove(region->taken + i, region->taken + i + 1,
            (region->taken_count - i) * sizeof *region->taken);

    size_t at = find(region->free, region->free_count, sizeof *region->free, offset);
    free_block *free = region->free;
    if (at < region->free_count && free[at].offset == offset + block.bytes) {
        hil_fence_join(&block.after, &free[at].after);
        block.bytes += free[at].bytes;
        remove_free(region, at);
    }
    if (at > 0 && free[at - 1].offset + free[at - 1].bytes == offset) {
        hil_fence_join(&free[at - 1].after, &block.after);
        free[at - 1].bytes += block.bytes;
        return;
    }
    assert(region->free_count < region->free_capacity);
    memmove(free + at + 1, free + at, (region->free_count - at) * sizeof *free);
    free[at] = block;
    ++region->free_count;
}

size_t hil_region_used(const hil_region *region)
{
    return region->used;
}

size_t hil_region_peak(const hil_region *region)
{
    return region->peak;
}

size_t hil_region_extent(const hil_region *region)
{
    return region->extent;
}
