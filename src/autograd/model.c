/* model.c - building a model: segments, layers, parameters. */
#include "autograd/model.h"

#include "base/alloc.h"
#include "store/store.h"

#include <string.h>

hil_status hil_model_create(hil_model **out)
{
    *out = NULL;
    hil_model *model;
    HIL_TRY(HIL_ALLOC(1, &model));
    hil_status status = hil_store_create(&model->store);
    if (status == HIL_OK)
        *out = model;
    else
        hil_free(model);
    return status;
}

void hil_model_destroy(hil_model *model)
{
    if (!model) return;
    hil_store_destroy(model->store);
    hil_arena_free(&model->arena);
    hil_free(model->segments);
    hil_free(model->extra);
    hil_free(model->adapter);
    hil_free(model);
}

hil_status hil_model_alloc(hil_model *model, size_t bytes, void **out)
{
    return hil_arena_alloc(&model->arena, bytes, out);
}

hil_status hil_model_segment(hil_model *model, const char *name, hil_segment_fn *run, void *layer)
{
    HIL_TRY(HIL_GROW(&model->segments, &model->capacity, model->count + 1));
    char *copy;
    HIL_TRY(HIL_ARENA_NEW(&model->arena, strlen(name) + 1, &copy));
    memcpy(copy, name, strlen(name) + 1);
    model->segments[model->count++] = (hil_segment){copy, run, layer};
    return HIL_OK;
}

/* Of `experts` matrices, or of one that is not an expert's. */
static hil_status add_param(hil_model *model, const char *name, int64_t experts,
                            const hil_param_form *form, hil_param **out)
{
    bool matrix = form->role == HIL_MATRIX || form->role == HIL_TRANSPOSED;
    hil_param_spec spec = {
        .name = name,
        .shape = matrix ? (hil_shape){2, {experts * form->rows, form->cols}}
                        : (hil_shape){1, {form->cols}},
        .init = form->role == HIL_SCALE ? HIL_INIT_ONE : HIL_INIT_ZERO,
        .std = form->std,
        .no_decay = !matrix,
        .transposed = form->role == HIL_TRANSPOSED,
        .group = (int)model->count,
        .part_rows = experts > 1 ? form->rows : 0,
    };
    if (matrix) spec.init = HIL_INIT_NORMAL;
    return hil_store_add(model->store, &spec, out);
}

hil_status hil_model_param(hil_model *model, const char *name, const hil_param_form *form,
                           hil_param **out)
{
    return add_param(model, name, 1, form, out);
}

hil_status hil_model_experts(hil_model *model, const char *name, int64_t experts,
                             const hil_param_form *each, hil_param **out)
{
    if (each->role != HIL_MATRIX || experts < 1)
        return hil_fail(HIL_ERR_USAGE, "parameter %s: %lld experts with matrices are expected",
                        name, (long long)experts);
    return add_param(model, name, experts, each, out);
}

hil_status hil_model_use(hil_model *model, hil_param *param)
{
    const char *name = hil_param_spec_of(param)->name;
    if (!model->count)
        return hil_fail(HIL_ERR_USAGE, "parameter %s: no segment was appended that may use it",
                        name);
    if (model->traced)
        return hil_fail(HIL_ERR_USAGE, "parameter %s: the model has a trainer already", name);
    HIL_TRY(HIL_GROW(&model->extra, &model->extras_room, model->extras + 1));
    model->extra[model->extras++] = (hil_extra){(int)model->count - 1, param};
    return HIL_OK;
}

hil_status hil_model_adapt(hil_model *model, const hil_param *weight, const hil_adapter *adapter)
{
    size_t index = hil_param_index(weight), room = model->adapters;
    assert(!model->traced);
    HIL_TRY(HIL_GROW(&model->adapter, &room, index + 1));
    for (; model->adapters < room; ++model->adapters) model->adapter[model->adapters] = NULL;
    HIL_TRY(HIL_ARENA_NEW(&model->arena, 1, &model->adapter[index]));
    *model->adapter[index] = *adapter;
    return HIL_OK;
}

const hil_adapter *hil_model_adapter(const hil_model *model, const hil_param *weight)
{
    size_t index = hil_param_index(weight);
    return index < model->adapters ? model->adapter[index] : NULL;
}

hil_status hil_values_set(hil_values *values, const char *name, hil_value *value)
{
    for (int i = 0; i < values->count; ++i)
        if (strcmp(values->name[i], name) == 0) {
            values->value[i] = value;
            return HIL_OK;
        }
    if (values->count == HIL_VALUES_MAX)
        return hil_fail(HIL_ERR_USAGE, "a segment gives out more than %d values", HIL_VALUES_MAX);
    values->name[values->count] = name;
    values->value[values->count++] = value;
    return HIL_OK;
}

hil_status hil_values_get(const hil_values *values, const char *name, hil_value **out)
{
    for (int i = 0; i < values->count; ++i)
        if (strcmp(values->name[i], name) == 0) {
            *out = values->value[i];
            return HIL_OK;
        }
    return hil_fail(HIL_ERR_USAGE, "no value \"%s\" comes from the previous segment", name);
}
