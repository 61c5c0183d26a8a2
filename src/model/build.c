/* build.c - which architecture builds which model. */
#include "model/build.h"

#include "base/fail.h"

#include <stdio.h>

hil_status hil_build_param(hil_model *model, const char *prefix, const char *name, hil_role role,
                           const int64_t size[2], double std, hil_param **out)
{
    char full[256];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    return hil_model_param(model, full, role, size[0], size[1], std, out);
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
