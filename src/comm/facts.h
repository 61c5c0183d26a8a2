/* facts.h - settings that must be the same on all ranks: names and values, compared before use. */
#ifndef HIL_COMM_FACTS_H
#define HIL_COMM_FACTS_H

#include "base/text.h"
#include "comm/comm.h"

/* Owns its text: "name\0value\0" for each fact, in the order in which they were added. {0} is
   empty. */
typedef struct hil_facts {
    hil_text text;
} hil_facts;

hil_status hil_facts_add(hil_facts *facts, const char *name, const char *format, ...)
    HIL_PRINTF(3, 4);
void hil_facts_free(hil_facts *facts);

/* Called by every rank; `mine` is the status of collecting this rank's facts. If a rank's facts
   differ from those of rank 0, all fail with one line: the first such rank, its first fact that
   differs, both values, and `advice`. Exchanges a few bytes while all agree; nothing with one rank.
 */
hil_status hil_facts_compare(hil_comm *comm, const hil_facts *facts, hil_status mine,
                             const char *advice);

#endif
