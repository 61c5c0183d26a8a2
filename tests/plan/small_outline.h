/* small_outline.h - a model to plan for: four units in three segments. */
#ifndef TESTS_PLAN_SMALL_OUTLINE_H
#define TESTS_PLAN_SMALL_OUTLINE_H

#include "plan/outline.h"

static const hil_outline_unit units[] = {
    {"embed[0]", 4096, {8192, 8192, 16384, 16384, 8192}, 2, HIL_QUANT_NONE},
    {"embed[1]", 256, {512, 512, 1024, 1024, 512}, 2, HIL_QUANT_NONE},
    {"norm and 1 more", 512, {2048, 0, 2048, 2048, 2048}, 1, HIL_QUANT_NONE},
    {"frozen", 1024, {2048, 0, 0, 0, 0}, 0, HIL_QUANT_NONE},
};
static const hil_outline_segment segments[] = {
    {.name = "embed"}, {.name = "block 0"}, {.name = "head"}};
static const hil_outline outline = {units, 4, segments, 3, 4, true, 1, false, 0, false};

#endif
