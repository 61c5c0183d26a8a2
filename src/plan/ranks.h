/* ranks.h - agreement between ranks: status, budgets, speeds, threads. A NULL comm is one rank.

   [Note: one plan] Every rank plans for itself from the same numbers: the least memory, the least
   disk space and the slowest speeds of any rank. So all ranks get the same plan and move the same
   units in the same order. */
#ifndef HIL_PLAN_RANKS_H
#define HIL_PLAN_RANKS_H

#include "comm/comm.h"
#include "plan/budget.h"

/* Call after work that every rank does: succeeds on all ranks, or fails on all if any failed. */
static inline hil_status hil_ranks_agree(hil_comm *comm, hil_status mine)
{
    return hil_comm_agree(comm, HIL_CHANNEL_CONTROL, mine, NULL);
}
/* Call after work that rank 0 does alone: all ranks wait and get rank 0's status (`mine` there). */
hil_status hil_ranks_follow(hil_comm *comm, hil_status mine);

/* *share: sequences of a batch for each rank. Refuses a batch that does not divide evenly. */
hil_status hil_ranks_share(int64_t ranks, int64_t batch, int64_t *share);
/* CPU threads of this rank: `asked`, or if that is 0 its share of the machine's CPUs. */
hil_status hil_ranks_threads(hil_comm *comm, int asked, int *out);

/* Lowers budgets and drives to the least of all ranks; see [Note: one plan]. */
hil_status hil_ranks_level_budget(hil_comm *comm, hil_budget *budget, hil_drive *drives, int count);
/* Lowers the speeds of the CPU to those of a rank that has so many CPUs to itself. */
void hil_ranks_share_cpus(hil_speeds *speeds, double cpus);
/* Lowers the speeds to the slowest of all machines, as measured by the first rank of each; the
   ranks of a machine share its drives and CPUs. `network`: bytes per second that a rank receives;
   0: measure it if the other speeds were measured. */
hil_status hil_ranks_level_speeds(hil_comm *comm, hil_machine *machine, int drives, double network);

#endif
