/* fuzz_plan.c - any text as a plan: refused, or places that exist and a plan that reads back. */
#include "plan/plan_file.h"
#include "mutate.h"
#include "../tests/plan/small_outline.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
FUZZ_MUTATOR(mutate_json)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    hil_plan plan, again;
    if (hil_plan_parse(&plan, &outline, (const char *)bytes, size, "input") != HIL_OK) return 0;
    assert(plan.chunk >= 4096 && plan.chunk % 4096 == 0 && plan.slots >= 1 && plan.group >= 1);
    assert(plan.spill == HIL_HOST || plan.spill == HIL_DISK);
    for (size_t u = 0; u < plan.units; ++u)
        for (int s = 0; s < HIL_UNIT_STATES; ++s) assert(plan.unit[u].tier[s] < HIL_TIERS);
    for (size_t i = 0; i < plan.segments; ++i)
        assert(plan.segment[i].tier < HIL_TIERS && plan.segment[i].keep <= plan.group);
    json_t *object;
    hil_status status = hil_plan_write(&outline, &plan, NULL, &object);
    assert(status == HIL_OK);
    char *text = json_dumps(object, 0);
    json_decref(object);
    status = hil_plan_parse(&again, &outline, text, strlen(text), "again");
    assert(status == HIL_OK && again.window == plan.window && again.group == plan.group);
    assert(memcmp(again.unit, plan.unit, plan.units * sizeof *plan.unit) == 0);
    free(text);
    hil_plan_free(&plan);
    hil_plan_free(&again);
    return 0;
}
