/* events.h - the metrics of a run as an event file, which TensorBoard shows. */
#ifndef HIL_REPORT_EVENTS_H
#define HIL_REPORT_EVENTS_H

#include "base/json.h"

/* Owns the file. */
typedef struct hil_events hil_events;

/* Creates the folder, if needed, and a new event file in it. `step` is the step that the run goes
   on after; TensorBoard forgets what older files have of later steps. */
hil_status hil_events_open(hil_events **out, const char *folder, int64_t step);
/* Adds the numbers of an object of metrics.jsonl, under names with a group: "train/loss". */
hil_status hil_events_add(hil_events *events, json_t *object, int64_t step);
hil_status hil_events_flush(hil_events *events);
void hil_events_close(hil_events *events);

#endif
