/* build.c - builds a model by its architecture; adds a layer from its table. */
#include "model/build.h"

#include "base/fail.h"

#include <stdio.h>

hil_status hil_build_param(hil_model *model, const char *module, const hil_param_form *form,
                           hil_param **out)
{
    char name[300];
    snprintf(name, sizeof name, "%s.%s", module, form->role == HIL_BIAS ? "bias" : "weight");
    return hil_model_param(model, name, form, out);
}

hil_status hil_build_block(hil_model *model, const hil_build_table *table, hil_segment_fn *run,
                           void *layer)
{
    char name[256];
    long long number = table->number;
    for (size_t i = 0; i < table->count; ++i) {
        const hil_build_row *row = &table->rows[i];
        if (row->absent || !row->module) continue;
        snprintf(name, sizeof name, "%s%lld.%s", table->prefix, number, row->module);
        HIL_TRY(hil_build_param(model, name, &row->form, row->out));
    }
    snprintf(name, sizeof name, "block %lld", number);
    return hil_model_segment(model, name, run, layer);
}

hil_status hil_build_model(hil_model **out, const hil_config *config)
{
    *out = NULL;
    hil_model *model;
    HIL_TRY(hil_model_create(&model));
    hil_status status = config->arch->build(model, config);
    if (status == HIL_OK)
        *out = model;
    else
        hil_model_destroy(model);
    return status;
}
