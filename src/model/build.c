/* build.c - builds a model by its architecture; adds a layer from its table. */
#include "model/build.h"

#include "base/fail.h"

#include <stdio.h>
#include <string.h>

hil_status hil_build_param(hil_model *model, const char *module, const hil_param_form *form,
                           hil_param **out)
{
    char name[300];
    snprintf(name, sizeof name, "%s.%s", module, form->role == HIL_BIAS ? "bias" : "weight");
    return hil_model_param(model, name, form, out);
}

hil_status hil_build_config(hil_model *model, const hil_config *config, const hil_config **out)
{
    hil_config *copy;
    HIL_TRY(hil_model_alloc(model, sizeof *copy, (void **)&copy));
    *copy = *config;
    *out = copy;
    return HIL_OK;
}

/* A vector for each row of the form. */
static hil_status build_series(hil_model *model, const char *pattern, const hil_param_form *form,
                               hil_param **first)
{
    const char *star = strchr(pattern, '*');
    hil_param_form each = *form;
    char name[280];
    each.rows = 1;
    for (int64_t i = 0; i < form->rows; ++i) {
        hil_param *param;
        snprintf(name, sizeof name, "%.*s%lld%s", (int)(star - pattern), pattern, (long long)i,
                 star + 1);
        HIL_TRY(hil_build_param(model, name, &each, &param));
        if (i == 0) *first = param;
    }
    return HIL_OK;
}

hil_status hil_build_vector(hil_model *model, const hil_config *config, int64_t n,
                            const hil_build_row *row)
{
    char name[256];
    snprintf(name, sizeof name, "%s%lld.%s", config->arch->names->blocks, (long long)n,
             row->module);
    return hil_model_param(model, name, &row->form, row->out);
}

hil_status hil_build_part(hil_model *model, const hil_build_table *table, const char *part)
{
    char name[256];
    for (size_t i = 0; i < table->count; ++i) {
        const hil_build_row *row = &table->rows[i];
        if (row->absent || !row->module) continue;
        int before = (int)strcspn(row->module, "%");
        snprintf(name, sizeof name, "%s%lld.%.*s%s%s", table->prefix, (long long)table->number,
                 before, row->module, row->module[before] ? part : "",
                 row->module + before + (row->module[before] != 0));
        HIL_TRY(strchr(name, '*') ? build_series(model, name, &row->form, row->out)
                                  : hil_build_param(model, name, &row->form, row->out));
    }
    return HIL_OK;
}

hil_status hil_build_params(hil_model *model, const hil_build_table *table)
{
    return hil_build_part(model, table, "");
}

hil_status hil_build_block(hil_model *model, const hil_build_table *table, hil_segment_fn *run,
                           void *layer)
{
    char name[32];
    HIL_TRY(hil_build_params(model, table));
    snprintf(name, sizeof name, "block %lld", (long long)table->number);
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
