/* component.c - a step or a Sequence of steps of a tokenizer.json. */
#include "text/component.h"

#include "base/json.h"

#include <string.h>

static hil_status add(hil_component *component, const json_t *value, const char *key, int depth,
                      const char *what)
{
    const char *type = "";
    HIL_TRY(hil_json_string(value, "type", what, &type));
    bool deep = depth == HIL_COMPONENT_MAX;
    if (strcmp(type, "Sequence") == 0 && !deep) {
        const json_t *list = json_object_get(value, key);
        for (size_t i = 0; i < json_array_size(list); ++i)
            HIL_TRY(add(component, json_array_get(list, i), key, depth + 1, what));
        return HIL_OK;
    }
    if (component->count == HIL_COMPONENT_MAX || deep)
        return hil_fail(HIL_ERR_INPUT, "%s: more than %d %s", what, HIL_COMPONENT_MAX, key);
    component->steps[component->count] = value;
    component->types[component->count++] = type;
    return HIL_OK;
}

hil_status hil_component_list(hil_component *component, const json_t *value, const char *key,
                              const char *what)
{
    component->count = 0;
    return !value || json_is_null(value) ? HIL_OK : add(component, value, key, 0, what);
}
