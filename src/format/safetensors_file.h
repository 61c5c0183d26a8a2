/* safetensors_file.h - the fields of an open file, for safetensors.c and shards.c. */
#ifndef HIL_FORMAT_SAFETENSORS_FILE_H
#define HIL_FORMAT_SAFETENSORS_FILE_H

#include "format/safetensors.h"
#include "io/reader.h"

/* Owns everything it points to. Entries point into `names` and `dims`, or into those of a shard. */
struct hil_safetensors {
    hil_reader *reader; /* of one file; NULL: its content is in memory */
    const char *memory;
    hil_safetensors_source source; /* of a view */
    void *own;                     /* freed with it; NULL: nothing */
    void (*release)(void *own);    /* NULL: hil_free */
    char *names;
    int64_t *dims;
    hil_entry *entry;
    const hil_entry **by_name;
    size_t count;
    hil_safetensors **shard;
    size_t shards;
};

/* Makes room for the entries of a view, with names of at most `name` bytes each. */
hil_status hil_safetensors_reserve(hil_safetensors *file, size_t entries, size_t name);
/* Fills by_name with pointers into `entry`, which must not be reallocated afterwards. */
hil_status hil_safetensors_index(hil_safetensors *file);

#endif
