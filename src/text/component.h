/* component.h - the parts of a tokenizer.json that are one step or a Sequence of steps. */
#ifndef HIL_TEXT_COMPONENT_H
#define HIL_TEXT_COMPONENT_H

#include "base/fail.h"

#include <jansson.h>

#define HIL_COMPONENT_MAX 16

/* The steps in their order, borrowed from the JSON value. */
typedef struct hil_component {
    const json_t *steps[HIL_COMPONENT_MAX];
    const char *types[HIL_COMPONENT_MAX]; /* the "type" of each */
    size_t count;
} hil_component;

/* Lists the steps of `value`, of Sequences in Sequences too; none if it is NULL or null. `key` is
   the member of a Sequence that has its steps. `what` names the source in errors. */
hil_status hil_component_list(hil_component *component, const json_t *value, const char *key,
                              const char *what);

#endif
