/* plan_file.h - a plan as JSON, out and in. */
#ifndef HIL_PLAN_PLAN_FILE_H
#define HIL_PLAN_PLAN_FILE_H

#include "base/json.h"
#include "base/text.h"
#include "hilbert/speeds.h"
#include "plan/outline.h"

/* The plan as a JSON object of its own, with names; `speeds` may be NULL. The caller releases *out
   with json_decref. */
hil_status hil_plan_write(const hil_outline *outline, const hil_plan *plan,
                          const hil_speeds *speeds, json_t **out);

/* The part of it that a plan decides, without what it predicts. */
hil_status hil_plan_write_decided(const hil_outline *outline, const hil_plan *plan, json_t **out);

/* What a file decides: places, sizes and order, and the budgets it was made for. What it predicts
   is not read. Names that do not match the model are named. `what` names the source. */
hil_status hil_plan_parse(hil_plan *plan, const hil_outline *outline, const char *text, size_t size,
                          const char *what);
hil_status hil_plan_read(hil_plan *plan, const hil_outline *outline, const char *path);

#endif
