/* safetensors_file.h - the inside of an open file, shared by the one-file and the folder reader. */
#ifndef HIL_FORMAT_SAFETENSORS_FILE_H
#define HIL_FORMAT_SAFETENSORS_FILE_H

#include "format/safetensors.h"
#include "io/reader.h"

/* Owns everything it points to; the entries' names and dims lie in `names` and `dims`, or in a
 * shard. */
struct hil_safetensors {
    hil_reader *reader; /* of one file; NULL: its content is in memory */
    const char *memory;
    char *names;
    int64_t *dims;
    hil_entry *entry;
    const hil_entry **by_name;
    size_t count;
    hil_safetensors **shard;
    size_t shards;
};

/* Fills by_name from entry[0, count), which must not move afterwards. */
hil_status hil_safetensors_index(hil_safetensors *file);

#endif
