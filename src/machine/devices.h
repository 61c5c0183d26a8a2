/* devices.h - which device computes: a GPU, the CPU, or threads that play one. */
#ifndef HIL_MACHINE_DEVICES_H
#define HIL_MACHINE_DEVICES_H

#include "hilbert/comm.h"
#include "hilbert/device.h"
#include "hilbert/observer.h"

#include "device/device.h"

/* `choice->name`: "auto" (or NULL) is a GPU where there is one that works and the CPU otherwise,
   which the observer learns; "cuda" is the first GPU, or that of the process's number among those
   of its machine (`comm`, may be NULL); "cuda:N", "cpu"; "threads" and "threads:each" (not one for
   all ranks) are for tests. *out is NULL for the CPU. */
hil_status hil_devices_open(const hil_device_choice *choice, const hil_comm *comm,
                            const hil_observer *observer, hil_device **out);
/* NULL, the CPU, is none; nor is the device of threads. */
bool hil_devices_gpu(const hil_device *device);
/* NULL is fine. */
void hil_devices_close(hil_device *device);
/* Every rank calls it with what it opened. *sharers: ranks that have the same device, this one
   among them. Ranks compute alike: where one has no device, all give theirs back and *device
   becomes NULL, which the observer learns. */
hil_status hil_devices_share(hil_comm *comm, const hil_observer *observer, hil_device **device,
                             int *sharers);
/* The same for ranks that are not there: so many, on one machine. */
int hil_devices_crowd(const hil_device_choice *choice, int ranks);
/* What may be used of it where no budget is given, by all its sharers together: what was free, less
   what their libraries load later, or what wires will take. 0: its memory is the host's. */
uint64_t hil_devices_room(const hil_device *device, int sharers, bool wired);

#endif
