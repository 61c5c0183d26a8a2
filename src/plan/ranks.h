/* ranks.h - what the ranks of a run agree on before its first step. NULL is a run of one rank.

   [Note: one plan] Every rank plans for itself, from the same numbers: the least memory, the least
   room on the drives and the slowest speeds that any of them has. So all of them move the same
   units in the same order. */
#ifndef HIL_PLAN_RANKS_H
#define HIL_PLAN_RANKS_H

#include "comm/comm.h"
#include "plan/budget.h"

/* How a part of the work went that every rank does: all go on, or none. */
static inline hil_status hil_ranks_agree(hil_comm *comm, hil_status mine)
{
    return hil_comm_agree(comm, HIL_CHANNEL_CONTROL, mine, NULL);
}
/* How a part of the work went that rank 0 does alone; `mine` counts there. */
hil_status hil_ranks_follow(hil_comm *comm, hil_status mine);

/* Of a batch, the sequences of each rank; one that does not divide is refused. */
hil_status hil_ranks_share(int64_t ranks, int64_t batch, int64_t *share);
/* CPU threads of this rank: those asked for, or its part of the machine's CPUs. */
hil_status hil_ranks_threads(hil_comm *comm, int asked, int *out);

/* See [Note: one plan]. */
hil_status hil_ranks_level_budget(hil_comm *comm, hil_budget *budget, hil_drive *drives, int count);
/* The speeds of `machine` count on the first rank of each machine, which measured them alone; its
   ranks share the drives. Bytes per second that a rank receives are `network`; 0: measured where
   the other speeds were. */
hil_status hil_ranks_level_speeds(hil_comm *comm, hil_machine *machine, int drives, double network);

#endif
