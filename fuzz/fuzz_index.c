/* fuzz_index.c - any text as model.safetensors.index.json beside two shards: refused, or tensors
   that lie in them. */
#include "format/safetensors.h"
#include "mutate.h"
#include "place.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
FUZZ_MUTATOR(mutate_json)

/* A shard with the tensors NAME.0 and NAME.1 of two floats each. */
static void write_shard(const char *folder, const char *name)
{
    char path[PLACE_PATH], file[64], header[256], all[512] = {0};
    int size = snprintf(header, sizeof header,
                        "{\"%s.0\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                        "\"%s.1\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}",
                        name, name);
    all[0] = (char)size;
    memcpy(all + 8, header, (size_t)size);
    snprintf(file, sizeof file, "%s.safetensors", name);
    place_path(folder, file, path);
    place_write(path, all, 8 + (size_t)size + 16);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static char folder[PLACE_PATH], path[PLACE_PATH];
    hil_safetensors *all;
    if (!folder[0]) {
        place_make(folder);
        write_shard(folder, "a");
        write_shard(folder, "b");
        place_path(folder, "model.safetensors.index.json", path);
    }
    place_write(path, bytes, size);
    if (hil_safetensors_open_folder(&all, folder) != HIL_OK) return 0;
    for (size_t i = 0; i < hil_safetensors_count(all); ++i) {
        const hil_entry *entry = hil_safetensors_at(all, i);
        assert((entry->name[0] == 'a' || entry->name[0] == 'b') && entry->bytes == 8);
        assert(hil_safetensors_find(all, entry->name) == entry);
    }
    hil_safetensors_close(all);
    return 0;
}
