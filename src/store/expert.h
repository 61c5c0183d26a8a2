/* expert.h - which experts of a mixture have tokens, and so which weights must be fetched. */
#ifndef HIL_STORE_EXPERT_H
#define HIL_STORE_EXPERT_H

#include "store/internal.h"

/* Whether the use at position `place` of the known order reads the weight, as far as is known now;
   see [Note: idle experts] in pass.h. */
bool hil_expert_expected(const hil_store *store, const hil_unit *unit, int64_t place);
/* Whether what is idle of this unit is left where it is. */
bool hil_expert_may_idle(const hil_store *store, const hil_unit *unit);
/* Whether the current visit may read the weight. */
bool hil_expert_wanted(const hil_store *store, const hil_unit *unit);
/* A visit of a segment begins: what was routed for an earlier group is forgotten. */
void hil_experts_enter(hil_store *store, const hil_segment_visit *visit);
/* Forgets all routings at the beginning of a pass. */
void hil_experts_begin(hil_store *store);

#endif
