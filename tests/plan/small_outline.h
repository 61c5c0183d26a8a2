/* small_outline.h - a model to plan for: four units in three segments. */
#ifndef TESTS_PLAN_SMALL_OUTLINE_H
#define TESTS_PLAN_SMALL_OUTLINE_H

#include "plan/outline.h"

static const hil_outline_unit units[] = {
    {.name = "embed[0]", .elements = 4096, .bytes = {8192, 8192, 16384, 16384, 8192}, .uses = 2},
    {.name = "embed[1]", .elements = 256, .bytes = {512, 512, 1024, 1024, 512}, .uses = 2},
    {.name = "norm and 1 more", .elements = 512, .bytes = {2048, 0, 2048, 2048, 2048}, .uses = 1},
    {.name = "frozen", .elements = 1024, .bytes = {2048, 0, 0, 0, 0}, .uses = 0},
};
static const hil_outline_segment segments[] = {
    {.name = "embed"}, {.name = "block 0"}, {.name = "head"}};
static const hil_outline outline = {
    .unit = units, .units = 4, .segment = segments, .segments = 3, .micros = 4, .training = true};

#endif
