/* budget.h - how much of each tier a run may use: as the user set it, or what is free less a
   margin. */
#ifndef HIL_PLAN_BUDGET_H
#define HIL_PLAN_BUDGET_H

#include "hilbert/account.h"

#include "tier/disk.h"
#include "plan/placement.h"
#include "machine/probe.h"

/* The user's limits, and what they are divided by. */
typedef struct hil_allowance {
    hil_memory_options memory; /* 0: not set by the user */
    int sharers;               /* ranks on this machine, which divide host memory and disks; 0: 1 */
    uint64_t room;     /* bytes of the device's own memory; 0: device and host are the same RAM */
    int room_sharers;  /* ranks on this device, which divide its memory by default; 0: 1 */
    bool hypothetical; /* hilbert plan: sizes are not checked; a folder with a size need not exist
                        */
} hil_allowance;

/* [Note: one RAM] Without a GPU, device and host memory are the same RAM, of which `available`
   bytes are free. Budgets that are not set are chosen so that the sum leaves a margin: most goes to
   the device, because what is kept there need not move; the host gets enough for staging buffers.
 */
void hil_budget_split(uint64_t device, uint64_t host, uint64_t available, hil_budget *out);

/* Finds the budgets, and the drives with their bytes. `drives` has HIL_DRIVES elements and borrows
   the paths. */
hil_status hil_budget_find(const hil_allowance *allowance, hil_budget *out, hil_drive *drives);
/* Refuses budgets above the free RAM, or above the free memory of `device` (NULL: the CPU). */
hil_status hil_budget_check(const hil_allowance *allowance, const hil_device *device,
                            const hil_budget *budget);
/* Copies the measured speeds to the drives. */
void hil_budget_speeds(const hil_machine *machine, hil_drive *drives, size_t count);

#endif
