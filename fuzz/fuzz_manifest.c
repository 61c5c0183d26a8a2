/* fuzz_manifest.c - any text as a checkpoint's manifest: refused, or files whose pieces cover them.
 */
#include "format/checkpoint_manifest.h"
#include "mutate.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
FUZZ_MUTATOR(mutate_json)

static void check(const hil_manifest *m)
{
    uint64_t all = 0;
    size_t pieces = 0;
    assert(m->step >= 0 && json_is_object(json_object_get(m->root, "state")));
    assert(hil_manifest_find(m, "master.safetensors"));
    for (size_t i = 0; i < m->files; ++i) {
        const hil_manifest_file *file = &m->file[i];
        uint64_t at = 0;
        assert(hil_path_is_plain(file->name) && file->first == pieces);
        for (size_t k = 0; k < file->pieces; ++k) {
            const hil_manifest_piece *piece = &m->piece[file->first + k];
            assert(piece->offset == at && piece->bytes > 0);
            at += piece->bytes;
        }
        assert(at == file->size);
        pieces += file->pieces;
        all += file->size;
    }
    assert(all == m->bytes && pieces == m->pieces);
}

/* As it is, its own checksum is hardly ever right; so also with a right one. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    hil_manifest manifest;
    hil_text text = {0};
    if (hil_manifest_parse(&manifest, (const char *)bytes, size, "input") == HIL_OK) {
        check(&manifest);
        hil_manifest_close(&manifest);
    }
    hil_status status = hil_text_add(&text, bytes, size);
    if (status == HIL_OK) status = hil_manifest_seal(&text);
    if (status == HIL_OK &&
        hil_manifest_parse(&manifest, text.data, text.size, "input") == HIL_OK) {
        check(&manifest);
        hil_manifest_close(&manifest);
    }
    hil_text_free(&text);
    return 0;
}
