/* checkpoint_pieces.h - which bytes of a file have which checksum, put together from all ranks. */
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
/* All ranks' pieces, sorted, on every rank. On HIL_CHANNEL_SAVE. */
hil_status hil_pieces_gather(hil_pieces *pieces, hil_comm *comm);
/* Whether they cover the file's bytes once. */
hil_status hil_pieces_check(const hil_pieces *pieces, uint64_t bytes, const char *path);

#endif
