/* plan_file.h - writes and reads plans as JSON. */
#ifndef HIL_PLAN_PLAN_FILE_H
#define HIL_PLAN_PLAN_FILE_H

#include "base/json.h"
#include "base/text.h"
#include "hilbert/speeds.h"
#include "plan/outline.h"

/* The whole plan as a JSON object, with the names of units; `speeds` may be NULL. The caller
   releases *out with json_decref. */
hil_status hil_plan_write(const hil_outline *outline, const hil_plan *plan,
                          const hil_speeds *speeds, json_t **out);

/* Only the predictions: peaks, bytes and times of a step. The caller releases the object; NULL: out
   of memory. */
json_t *hil_plan_predicted(const hil_plan *plan);

/* Only what the plan decides, without its predictions. */
hil_status hil_plan_write_decided(const hil_outline *outline, const hil_plan *plan, json_t **out);

/* Reads what a file decides: places, sizes, order, and the budgets that it was made for. Ignores
   its predictions. Messages name units that do not match the model; `what` names the file in them.
 */
hil_status hil_plan_parse(hil_plan *plan, const hil_outline *outline, const char *text, size_t size,
                          const char *what);
hil_status hil_plan_read(hil_plan *plan, const hil_outline *outline, const char *path);

#endif
