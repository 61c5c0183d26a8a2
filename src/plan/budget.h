/* budget.h - how much of each tier a run may use: what the user said, or what is free less a
   margin. */
#ifndef HIL_PLAN_BUDGET_H
#define HIL_PLAN_BUDGET_H

#include "hilbert/account.h"

#include "tier/disk.h"
#include "plan/placement.h"
#include "machine/probe.h"

/* What the options of a command say about memory. */
typedef struct hil_allowance {
    hil_memory_options memory; /* 0: not said */
    int sharers;       /* ranks on this machine, which divide all but the device's memory; 0: 1 */
    uint64_t room;     /* of a device with memory of its own; 0: both memories are the same RAM */
    int room_sharers;  /* ranks that have this device: without a word each gets a part; 0: 1 */
    bool hypothetical; /* hilbert plan: sizes are believed, and a folder with a size need not exist
                        */
} hil_allowance;

/* [Note: one RAM] Without a GPU both memories are the same RAM, of which `available` bytes are
   free. What is not said is chosen so that the sum leaves a margin: most of it is the device's,
   because what is there need not move, and the host gets enough for staging. */
void hil_budget_split(uint64_t device, uint64_t host, uint64_t available, hil_budget *out);

/* Budgets, and the drives with their room; `drives` has HIL_DRIVES places and borrows paths. */
hil_status hil_budget_find(const hil_allowance *allowance, hil_budget *out, hil_drive *drives);
/* Refuses budgets that ask for more memory than there is: RAM, and that of `device`, which is NULL
   where the CPU computes. */
hil_status hil_budget_check(const hil_allowance *allowance, const hil_device *device,
                            const hil_budget *budget);
/* The drives' measured speeds. */
void hil_budget_speeds(const hil_machine *machine, hil_drive *drives, size_t count);

#endif
