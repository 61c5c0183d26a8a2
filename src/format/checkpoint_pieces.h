/* checkpoint_pieces.h - the checksums of a file's pieces, gathered from all ranks. */
#ifndef HIL_FORMAT_CHECKPOINT_PIECES_H
#define HIL_FORMAT_CHECKPOINT_PIECES_H

#include "format/checkpoint_manifest.h"

/* Owns the pieces. */
typedef struct hil_pieces {
    hil_manifest_piece *piece;
    size_t count, capacity;
} hil_pieces;

hil_status hil_pieces_add(hil_pieces *pieces, const hil_manifest_piece *piece);
void hil_pieces_free(hil_pieces *pieces);
/* All-gathers the ranks' pieces, sorted. Uses HIL_CHANNEL_SAVE. */
hil_status hil_pieces_gather(hil_pieces *pieces, hil_comm *comm);
/* Fails unless the pieces cover every byte of the file exactly once. */
hil_status hil_pieces_check(const hil_pieces *pieces, uint64_t bytes, const char *path);

#endif
