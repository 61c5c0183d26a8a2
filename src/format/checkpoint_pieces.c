/* checkpoint_pieces.c - the checksums of a file's pieces, gathered from all ranks. */
#include "format/checkpoint_pieces.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

hil_status hil_pieces_add(hil_pieces *pieces, const hil_manifest_piece *piece)
{
    HIL_TRY(HIL_GROW(&pieces->piece, &pieces->capacity, pieces->count + 1));
    pieces->piece[pieces->count++] = *piece;
    return HIL_OK;
}

void hil_pieces_free(hil_pieces *pieces)
{
    hil_free(pieces->piece);
    *pieces = (hil_pieces){0};
}

static int compare_offset(const void *left, const void *right)
{
    uint64_t a = ((const hil_manifest_piece *)left)->offset,
             b = ((const hil_manifest_piece *)right)->offset;
    return a < b ? -1 : a > b;
}

/* All-gathers lists of `count[r]` pieces, each padded to `most`, and removes the padding. */
static hil_status gather_lists(hil_pieces *pieces, hil_comm *comm, const uint64_t *count,
                               uint64_t most)
{
    hil_manifest_piece *all = NULL;
    size_t ranks = (size_t)hil_comm_size(comm), used = 0;
    hil_status status = HIL_ALLOC(most * ranks, &all);
    if (status == HIL_OK) status = HIL_GROW(&pieces->piece, &pieces->capacity, most);
    HIL_TRY_DONE(hil_comm_agree(comm, HIL_CHANNEL_SAVE, status, NULL));
    HIL_TRY_DONE(hil_comm_gather(comm, HIL_CHANNEL_SAVE, pieces->piece, all, most * sizeof *all));
    for (size_t r = 0; r < ranks; used += count[r++])
        memmove(all + used, all + r * most, count[r] * sizeof *all);
    hil_pieces_free(pieces);
    *pieces = (hil_pieces){all, used, most * ranks};
    all = NULL;
done:
    hil_free(all);
    return status;
}

hil_status hil_pieces_gather(hil_pieces *pieces, hil_comm *comm)
{
    uint64_t mine = pieces->count, most = 1, *count = NULL;
    int ranks = hil_comm_size(comm);
    hil_status status = HIL_ALLOC(ranks, &count);
    HIL_TRY_DONE(hil_comm_agree(comm, HIL_CHANNEL_SAVE, status, NULL));
    HIL_TRY_DONE(hil_comm_gather(comm, HIL_CHANNEL_SAVE, &mine, count, sizeof mine));
    for (int r = 0; r < ranks; ++r)
        if (count[r] > most) most = count[r];
    HIL_TRY_DONE(gather_lists(pieces, comm, count, most));
    if (pieces->count) qsort(pieces->piece, pieces->count, sizeof *pieces->piece, compare_offset);
done:
    hil_free(count);
    return status;
}

hil_status hil_pieces_check(const hil_pieces *pieces, uint64_t bytes, const char *path)
{
    uint64_t at = 0;
    for (size_t i = 0; i < pieces->count && pieces->piece[i].offset == at; ++i)
        at += pieces->piece[i].bytes;
    if (at == bytes) return HIL_OK;
    return hil_fail(HIL_ERR_USAGE, "%s was not written once and whole: see byte %llu of %llu", path,
                    (unsigned long long)at, (unsigned long long)bytes);
}
