/* model_compare.c - collects what identifies a model and compares it between ranks. */
#include "run/model_compare.h"

#include "base/hash.h"
#include "format/weights.h"
#include "machine/interface.h"

#include <stdlib.h>
#include <string.h>

static hil_status add_sum(hil_facts *facts, const char *name, uint64_t sum)
{
    return hil_facts_add(facts, name, "%016llx", (unsigned long long)sum);
}

/* A checksum of one of the model's small files, as it was read. */
static hil_status add_file(hil_facts *facts, const hil_source *source, hil_sidecar_file which)
{
    const hil_bytes *file = &source->files.file[which];
    char name[64];
    snprintf(name, sizeof name, "a %s of checksum", hil_sidecar_file_name(which));
    if (!file->data) return hil_facts_add(facts, name, "(none)");
    return add_sum(facts, name, hil_hash(0, file->data, file->size));
}

static hil_status add_tensor(hil_facts *facts, const hil_entry *entry)
{
    char name[256], shape[64];
    uint64_t hash;
    HIL_TRY(hil_weights_sample(entry, &hash));
    snprintf(name, sizeof name, "the tensor %s of checksum", entry->name);
    return hil_facts_add(facts, name, "%016llx (%s %s)", (unsigned long long)hash, entry->dtype,
                         hil_entry_shape_text(entry, shape));
}

/* See [Note: samples]. Closes the file. */
static hil_status add_weights(hil_facts *facts, hil_safetensors *file)
{
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
    HIL_TRY(add_file(facts, source, HIL_SIDECAR_TOKENIZER));
    HIL_TRY(add_file(facts, source, HIL_SIDECAR_GENERATION));
    hil_safetensors *file;
    if (!source->bare) {
        HIL_TRY(hil_safetensors_open_folder(&file, source->folder));
        HIL_TRY(add_weights(facts, file));
    }
    if (!source->adapter_folder) return HIL_OK;
    uint64_t key;
    HIL_TRY(hil_peft_key(&source->adapter, &key));
    HIL_TRY(add_sum(facts, "an adapter_config.json of checksum", key));
    HIL_TRY(hil_weights_open_adapter(&file, source->adapter_folder));
    return add_weights(facts, file);
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
