/* sidecar_files.c - the small files of a model folder, kept in memory. */
#include "format/sidecar_files.h"

#include "model/config/config.h"
#include "format/peft.h"

#include <assert.h>

const char *hil_sidecar_file_name(hil_sidecar_file which)
{
    static const char *const names[HIL_SIDECAR_FILES] = {
        [HIL_SIDECAR_CONFIG] = "config.json",
        [HIL_SIDECAR_TOKENIZER] = "tokenizer.json",
        [HIL_SIDECAR_TOKENIZER_CONFIG] = "tokenizer_config.json",
        [HIL_SIDECAR_SPECIAL_TOKENS] = "special_tokens_map.json",
        [HIL_SIDECAR_SENTENCEPIECE] = "tokenizer.model",
        [HIL_SIDECAR_VOCAB] = "vocab.json",
        [HIL_SIDECAR_MERGES] = "merges.txt",
        [HIL_SIDECAR_GENERATION] = "generation_config.json",
        [HIL_SIDECAR_CHAT_TEMPLATE] = "chat_template.jinja",
        [HIL_SIDECAR_ADDED_TOKENS] = "added_tokens.json",
        [HIL_SIDECAR_ADAPTER] = HIL_PEFT_CONFIG,
    };
    assert(which < HIL_SIDECAR_FILES);
    return names[which];
}

hil_status hil_sidecar_files_read(hil_sidecar_files *files, const char *folder)
{
    char path[HIL_PATH_MAX];
    for (int i = 0; i < HIL_SIDECAR_FILES; ++i) {
        if (files->file[i].data) continue;
        HIL_TRY(hil_path_join(path, folder, hil_sidecar_file_name((hil_sidecar_file)i)));
        if (hil_file_exists(path)) HIL_TRY(hil_bytes_read(&files->file[i], path));
    }
    return HIL_OK;
}

void hil_sidecar_files_free(hil_sidecar_files *files)
{
    for (int i = 0; i < HIL_SIDECAR_FILES; ++i) hil_bytes_free(&files->file[i]);
}

void hil_sidecar_files_drop_tokenizer(hil_sidecar_files *files)
{
    for (size_t i = 0; i < HIL_SIDECAR_FILES; ++i)
        if (i != HIL_SIDECAR_CONFIG && i != HIL_SIDECAR_GENERATION && i != HIL_SIDECAR_ADAPTER &&
            i != HIL_SIDECAR_CHAT_TEMPLATE)
            hil_bytes_free(&files->file[i]);
}

uint64_t hil_sidecar_files_bytes(const hil_sidecar_files *files)
{
    uint64_t bytes = 0;
    for (int i = 0; i < HIL_SIDECAR_FILES; ++i) bytes += files->file[i].size;
    return bytes;
}

hil_status hil_sidecar_files_write_one(const hil_sidecar_files *files, hil_sidecar_file which,
                                       const char *folder)
{
    char path[HIL_PATH_MAX];
    const hil_bytes *file = &files->file[which];
    HIL_TRY(hil_path_join(path, folder, hil_sidecar_file_name(which)));
    return hil_file_write(path, file->data, file->size);
}

hil_status hil_sidecar_files_write(const hil_sidecar_files *files, const char *folder)
{
    for (int i = 0; i < HIL_SIDECAR_FILES; ++i)
        if (i != HIL_SIDECAR_CONFIG && files->file[i].data)
            HIL_TRY(hil_sidecar_files_write_one(files, (hil_sidecar_file)i, folder));
    return HIL_OK;
}

hil_status hil_sidecar_files_write_config(const hil_sidecar_files *files, const char *folder,
                                          hil_dtype dtype, hil_quant quant)
{
    char path[HIL_PATH_MAX];
    hil_text text = {0};
    const hil_bytes *file = &files->file[HIL_SIDECAR_CONFIG];
    HIL_TRY(hil_path_join(path, folder, hil_sidecar_file_name(HIL_SIDECAR_CONFIG)));
    hil_status status = hil_config_edit(&text, file->data, file->size, dtype, quant);
    if (status == HIL_OK) status = hil_file_write(path, text.data, text.size);
    hil_text_free(&text);
    return status;
}
