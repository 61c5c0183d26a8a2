/* param_store_keep.c - bytes of the program's that wait in host memory or on disk, such as
   activations between forward and backward. */
#include "train/param_store.h"

#include "base/alloc.h"
#include "base/text.h"
#include "io/align.h"

#include <string.h>

#define PIECE_MOST ((size_t)32 << 20)
#define PIECE_PART 4 /* of the device memory: pieces in flight */
#define RING_MOST ((size_t)16 << 20)
#define RING_PART 4 /* of the host memory, if there are disks */

/* Pieces of a run of bytes. The list of the store is in the order of hil_param_store_keep. */
struct hil_kept {
    hil_kept *before, *after;
    size_t bytes, pieces;
    hil_movable piece[];
};

hil_status hil_param_store_open_kept(hil_param_store *store)
{
    hil_param_store_kept *k = &store->kept;
    hil_tiers *tiers = &store->tiers;
    size_t ring = 0;
    if (!k->window) return HIL_OK;
    if (tiers->disk) ring = k->host / RING_PART / HIL_IO_ALIGN * HIL_IO_ALIGN;
    if (ring > RING_MOST) ring = RING_MOST;
    k->piece = k->window / PIECE_PART / HIL_IO_ALIGN * HIL_IO_ALIGN;
    if (k->piece > PIECE_MOST) k->piece = PIECE_MOST;
    if (!k->piece || (tiers->disk && ring < 2 * HIL_IO_ALIGN))
        return hil_fail(HIL_ERR_BUDGET, "keep_window and keep_host are too small: give each at "
                                        "least 64 KiB");
    HIL_TRY(hil_buffers_create(&k->buffers, tiers, k->window));
    HIL_TRY(hil_ring_create(&k->ring, tiers, ring));
    HIL_TRY(hil_offload_create(&k->offload, tiers, k->buffers, k->ring, k->host - ring,
                               HIL_PIN_ON_USE));
    return hil_tiers_pin_all(tiers);
}

void hil_param_store_close_kept(hil_param_store *store)
{
    hil_param_store_kept *k = &store->kept;
    while (k->last) hil_param_store_drop(store, k->last);
    hil_offload_destroy(k->offload);
    hil_ring_destroy(k->ring);
    hil_buffers_destroy(k->buffers);
}

/* In the order of the compute stream; on the CPU at once. */
static hil_status copy(const hil_param_store *store, void *to, const void *from, size_t bytes)
{
    hil_device *device = store->device;
    if (device) return device->queue->copy(device, HIL_STREAM_COMPUTE, to, from, bytes);
    memcpy(to, from, bytes);
    return HIL_OK;
}

/* Frees the device memory of a piece that was fetched ahead; its copy at home is whole. */
static hil_status put_back(hil_param_store *store, hil_movable *piece)
{
    return piece->data ? hil_movable_offload(store->kept.offload, piece, piece->home) : HIL_OK;
}

/* Makes room on the device: what was fetched ahead goes, the oldest first, which backward needs
   last. All but `own`, whose pieces are in use. */
static hil_status make_room(hil_param_store *store, size_t bytes, const hil_movable *own)
{
    hil_param_store_kept *k = &store->kept;
    for (hil_kept *kept = k->first; kept; kept = kept->after)
        for (size_t i = 0; i < kept->pieces && !hil_buffers_fits(k->buffers, bytes); ++i)
            if (&kept->piece[i] != own) HIL_TRY(put_back(store, &kept->piece[i]));
    return HIL_OK;
}

/* Host memory first, then disk. */
static hil_status send(hil_param_store *store, hil_movable *piece)
{
    hil_param_store_kept *k = &store->kept;
    hil_status status = hil_movable_offload(k->offload, piece, HIL_HOST);
    if (status != HIL_ERR_BUDGET || !store->tiers.disk) return status;
    return hil_movable_offload(k->offload, piece, HIL_DISK);
}

static hil_status keep_piece(hil_param_store *store, hil_movable *piece, const char *data)
{
    hil_param_store_kept *k = &store->kept;
    HIL_TRY(make_room(store, piece->bytes, NULL));
    HIL_TRY(hil_buffers_take(k->buffers, piece->bytes, &piece->data));
    HIL_TRY(copy(store, piece->data, data, piece->bytes));
    return send(store, piece);
}

static hil_status check_kept(const hil_param_store *store)
{
    if (store->phase < HIL_PARAM_STORE_IDLE)
        return hil_fail(HIL_ERR_USAGE, "hil_param_store_place comes before hil_param_store_keep");
    if (store->kept.buffers) return HIL_OK;
    return hil_fail(HIL_ERR_USAGE, "the store was created without room for keeping: set "
                                   "options.keep_window and options.keep_host");
}

hil_status hil_param_store_keep(hil_param_store *store, const void *data, uint64_t bytes,
                                hil_kept **out)
{
    hil_param_store_kept *k = &store->kept;
    *out = NULL;
    HIL_TRY(check_kept(store));
    size_t pieces = (size_t)((bytes + k->piece - 1) / k->piece);
    hil_kept *kept;
    HIL_TRY(hil_alloc(1, sizeof *kept + pieces * sizeof *kept->piece, (void **)&kept));
    kept->bytes = (size_t)bytes;
    kept->pieces = pieces;
    kept->before = k->last;
    if (k->last)
        k->last->after = kept;
    else
        k->first = kept;
    k->last = kept;
    hil_status status = HIL_OK;
    for (size_t i = 0; i < pieces && status == HIL_OK; ++i) {
        size_t at = i * k->piece, rest = kept->bytes - at;
        kept->piece[i].bytes = rest < k->piece ? rest : k->piece;
        status = keep_piece(store, &kept->piece[i], (const char *)data + at);
    }
    if (status != HIL_OK) {
        hil_param_store_drop(store, kept);
        return status;
    }
    *out = kept;
    return HIL_OK;
}

/* Backward uses what forward kept in the reverse order: fetches what was kept before, while there
   is room. */
static hil_status fetch_ahead(hil_param_store *store, hil_kept *kept)
{
    hil_param_store_kept *k = &store->kept;
    for (; kept; kept = kept->before)
        for (size_t i = 0; i < kept->pieces; ++i) {
            hil_movable *piece = &kept->piece[i];
            if (piece->data) continue;
            if (!hil_buffers_fits(k->buffers, piece->bytes)) return HIL_OK;
            HIL_TRY(hil_movable_prefetch(k->offload, piece));
        }
    return HIL_OK;
}

hil_status hil_param_store_fetch(hil_param_store *store, hil_kept *kept, void *into)
{
    hil_param_store_kept *k = &store->kept;
    HIL_TRY(check_kept(store));
    for (size_t i = 0; i < kept->pieces; ++i) {
        hil_movable *piece = &kept->piece[i];
        if (!piece->data) HIL_TRY(make_room(store, piece->bytes, piece));
        HIL_TRY(hil_movable_wait(k->offload, piece, HIL_WAIT_ACTIVATIONS));
        HIL_TRY(copy(store, (char *)into + i * k->piece, piece->data, piece->bytes));
        HIL_TRY(put_back(store, piece));
    }
    return fetch_ahead(store, kept->before);
}

void hil_param_store_drop(hil_param_store *store, hil_kept *kept)
{
    hil_param_store_kept *k = &store->kept;
    if (!kept) return;
    for (size_t i = 0; i < kept->pieces; ++i) hil_movable_free(k->offload, &kept->piece[i]);
    if (kept->before)
        kept->before->after = kept->after;
    else
        k->first = kept->after;
    if (kept->after)
        kept->after->before = kept->before;
    else
        k->last = kept->before;
    hil_free(kept);
}
