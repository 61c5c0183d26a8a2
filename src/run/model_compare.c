/* model_compare.c - collects what identifies a model and compares it between ranks. */
#include "run/model_compare.h"

#include "base/hash.h"
#include "format/safetensors.h"
#include "machine/interface.h"

#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 4, SAMPLE_BYTES = 4096 };

static hil_status add_sum(hil_facts *facts, const char *name, uint64_t sum)
{
    return hil_facts_add(facts, name, "%016llx", (unsigned long long)sum);
}

/* A checksum of one of the model's small files, as it was read. */
static hil_status add_file(hil_facts *facts, const hil_source *source, hil_model_file which)
{
    const hil_bytes *file = &source->files.file[which];
    char name[64];
    snprintf(name, sizeof name, "a %s of checksum", hil_model_file_name(which));
    if (!file->data) return hil_facts_add(facts, name, "(none)");
    return add_sum(facts, name, hil_hash(0, file->data, file->size));
}

static hil_status sample(const hil_entry *entry, uint64_t *hash)
{
    char block[SAMPLES * SAMPLE_BYTES];
    size_t size = entry->bytes;
    if (size <= sizeof block) {
        HIL_TRY(hil_entry_read(entry, 0, block, size));
    } else {
        for (size_t i = 0; i < SAMPLES; ++i)
            HIL_TRY(hil_entry_read(entry, (size - SAMPLE_BYTES) * i / (SAMPLES - 1),
                                   block + i * SAMPLE_BYTES, SAMPLE_BYTES));
        size = sizeof block;
    }
    *hash = hil_hash(0, block, size);
    return HIL_OK;
}

static hil_status add_tensor(hil_facts *facts, const hil_entry *entry)
{
    char name[256], shape[64];
    uint64_t hash;
    HIL_TRY(sample(entry, &hash));
    snprintf(name, sizeof name, "the tensor %s of checksum", entry->name);
    return hil_facts_add(facts, name, "%016llx (%s %s)", (unsigned long long)hash, entry->dtype,
                         hil_entry_shape_text(entry, shape));
}

/* See [Note: samples]. */
static hil_status add_weights(hil_facts *facts, const hil_source *source)
{
    hil_safetensors *file;
    HIL_TRY(hil_safetensors_open_folder(&file, source->folder));
    hil_status status = HIL_OK;
    for (size_t i = 0; i < hil_safetensors_count(file) && status == HIL_OK; ++i)
        status = add_tensor(facts, hil_safetensors_at(file, i));
    hil_safetensors_close(file);
    return status;
}

static hil_status add_model(hil_facts *facts, const hil_source *source)
{
    HIL_TRY(
        hil_facts_add(facts, "a build of hilbert with headers of checksum", "%s", HIL_INTERFACE));
    HIL_TRY(hil_facts_add(facts, "weights from", "%s", source->bare ? "the seed" : "files"));
    HIL_TRY(add_sum(facts, "a config.json of checksum", source->config_key));
    HIL_TRY(add_file(facts, source, HIL_FILE_TOKENIZER));
    HIL_TRY(add_file(facts, source, HIL_FILE_GENERATION));
    return source->bare ? HIL_OK : add_weights(facts, source);
}

hil_status hil_source_compare(hil_comm *comm, const hil_source *source)
{
    hil_facts facts = {0};
    hil_text advice = {0};
    if (hil_comm_size(comm) == 1) return HIL_OK;
    hil_status mine = add_model(&facts, source);
    if (mine == HIL_OK)
        mine = hil_text_print(&advice, "%s must be the same model on all machines",
                              source->bare ? source->config_path : source->folder);
    hil_status status = hil_facts_compare(comm, &facts, mine, advice.data);
    hil_text_free(&advice);
    hil_facts_free(&facts);
    return status;
}
