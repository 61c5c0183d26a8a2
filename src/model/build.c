/* build.c - which architecture builds which model. */
#include "model/build.h"

#include "base/fail.h"

#include <stdio.h>

hil_status hil_build_params(hil_model *model, const char *prefix, const hil_build_row *rows,
                            size_t count)
{
    for (size_t i = 0; i < count; ++i) {
        char name[256];
        if (rows[i].absent) continue;
        snprintf(name, sizeof name, "%s%s", prefix, rows[i].name);
        HIL_TRY(hil_model_param(model, name, &rows[i].form, rows[i].out));
    }
    return HIL_OK;
}

hil_status hil_model_build(hil_model **out, const hil_config *config)
{
    *out = NULL;
    hil_model *model;
    HIL_TRY(hil_model_create(&model));
    hil_status status =
        config->arch == HIL_GPT2 ? hil_gpt2_build(model, config) : hil_llama_build(model, config);
    if (status == HIL_OK)
        *out = model;
    else
        hil_model_destroy(model);
    return status;
}
