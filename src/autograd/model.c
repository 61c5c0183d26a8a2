/* model.c - building a model: segments, layers, parameters. */
#include "autograd/model.h"

#include "base/alloc.h"
#include "store/store.h"

#include <stdio.h>
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
    hil_free(model->last_reader);
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

#define RATE_MOST 16

static hil_init init_of(const hil_param_form *form)
{
    switch (form->role) {
    case HIL_SCALE:
    case HIL_FIXED_SCALE:
        return HIL_INIT_ONE;
    case HIL_RATE:
        return HIL_INIT_LOG;
    case HIL_RATES:
        return HIL_INIT_LOG_COUNT;
    case HIL_STEP:
        return HIL_INIT_STEP;
    case HIL_BIAS:
    case HIL_FIXED:
        return form->std != 0 ? HIL_INIT_STD : HIL_INIT_ZERO;
    case HIL_OFFSET:
        return HIL_INIT_ZERO;
    default:
        return HIL_INIT_NORMAL;
    }
}

static bool is_fixed(hil_role role)
{
    return role == HIL_FIXED || role == HIL_FIXED_SCALE || role == HIL_FIXED_MATRIX;
}

static hil_status add_param(hil_model *model, const char *name, const hil_param_form *form,
                            bool expert, hil_param **out)
{
    bool fixed = is_fixed(form->role);
    bool matrix = form->role == HIL_MATRIX || form->role == HIL_TRANSPOSED ||
                  form->role == HIL_ROUTER || form->role == HIL_FIXED_MATRIX;
    bool kernel = form->role == HIL_KERNEL;
    hil_param_spec spec = {
        .name = name,
        .shape = matrix ? (hil_shape){2, {form->rows, form->cols}} : (hil_shape){1, {form->cols}},
        .init = init_of(form),
        .std = form->std,
        .bound = RATE_MOST,
        .no_decay = !matrix && !kernel,
        .transposed = form->role == HIL_TRANSPOSED,
        .group = (int)model->count,
        .mixture = expert || form->role == HIL_ROUTER || (matrix && fixed),
        .router = form->role == HIL_ROUTER,
    };
    if (!matrix && form->rows > 1) {
        spec.shape.dim[0] *= form->rows;
        spec.filed = (hil_shape){2, {form->rows, form->cols}};
    }
    if (kernel) spec.filed = (hil_shape){3, {form->rows, 1, form->cols}};
    HIL_TRY(hil_store_add(model->store, &spec, out));
    if (fixed) hil_param_freeze(*out);
    return HIL_OK;
}

hil_status hil_model_param(hil_model *model, const char *name, const hil_param_form *form,
                           hil_param **out)
{
    return add_param(model, name, form, false, out);
}

hil_status hil_model_experts(hil_model *model, const char *pattern, const hil_param_form *each,
                             int64_t experts, hil_param **first)
{
    const char *star = strchr(pattern, '*');
    char name[512];
    if (!star || strlen(pattern) > sizeof name - 32 || experts < 1 ||
        (each->role != HIL_MATRIX && each->role != HIL_TRANSPOSED))
        return hil_fail(HIL_ERR_USAGE,
                        "experts %s: expected a name with *, at least one expert, and matrices",
                        pattern);
    for (int64_t e = 0; e < experts; ++e) {
        hil_param *param;
        snprintf(name, sizeof name, "%.*s%lld%s", (int)(star - pattern), pattern, (long long)e,
                 star + 1);
        HIL_TRY(add_param(model, name, each, true, &param));
        if (e == 0) *first = param;
    }
    return HIL_OK;
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
