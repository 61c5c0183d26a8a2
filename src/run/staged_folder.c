/* staged_folder.c - a model folder that appears whole or not at all. */
#include "run/staged_folder.h"

#include "run/output_folder.h"

#include <stdio.h>

hil_status hil_staged_begin(hil_staged *s)
{
    char found[256];
    s->lock.fd = -1;
    for (size_t i = 0; i < sizeof s->source / sizeof *s->source; ++i)
        if (s->source[i] && hil_folder_same(s->out, s->source[i]))
            return hil_fail(HIL_ERR_USAGE, "%s is what is read: choose another folder to write to",
                            s->out);
    hil_install_names kept = s->overwrite ? HIL_NAMES_NONE : HIL_NAMES_ALL;
    HIL_TRY(hil_install_find(s->out, kept, found));
    if (found[0])
        return hil_fail(HIL_ERR_USAGE,
                        "%s holds a model: choose another folder or use --overwrite (%s is there)",
                        s->out, found);
    s->existed = hil_dir_existing(s->out);
    s->created = true;
    HIL_TRY(hil_dir_create(s->out));
    HIL_TRY(hil_lock_take(&s->lock, s->out));
    return hil_install_begin(s->out, s->stage);
}

hil_status hil_staged_write(const hil_staged *s, const hil_export *export,
                            const hil_sidecar_files *files, hil_dtype dtype, hil_quant quant)
{
    HIL_TRY(hil_export_write(export, s->stage));
    HIL_TRY(hil_sidecar_files_write(files, s->stage));
    return hil_sidecar_files_write_config(files, s->stage, dtype, quant);
}

hil_status hil_staged_end(hil_staged *s, hil_status status)
{
    char message[1024];
    hil_install_names replaced = s->overwrite ? HIL_NAMES_ALL : HIL_NAMES_NONE;
    if (status == HIL_OK) status = hil_install_finish(s->out, s->stage, replaced, &s->lock);
    snprintf(message, sizeof message, "%s", status == HIL_OK ? "" : hil_status_message());
    if (status != HIL_OK && s->stage[0]) (void)!hil_file_remove_tree(s->stage);
    hil_lock_drop(&s->lock);
    if (status == HIL_OK) return HIL_OK;
    if (s->created) hil_dir_uncreate(s->out, s->existed);
    return hil_fail(status, "%s", message);
}
