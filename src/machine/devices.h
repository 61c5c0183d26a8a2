/* devices.h - opens the device that computes: a GPU, the CPU, or the test device of threads. */
#ifndef HIL_MACHINE_DEVICES_H
#define HIL_MACHINE_DEVICES_H

#include "hilbert/comm.h"
#include "hilbert/device.h"
#include "hilbert/observer.h"

#include "device/device.h"

/* `choice->name`: "auto" (or NULL) is a working GPU if there is one, otherwise the CPU, and a note
   to the observer says why. "cuda" is the first GPU, or with ranks (`comm`, may be NULL) the one of
   the rank's number on its machine. "cuda:N" and "cpu" are explicit. "threads" and "threads:each"
   (one for each rank) are for tests; "NAME@SPEED", that device behind a bus of so many GB/s
   (device/device_limit.h), is for benchmarks. *out is NULL for the CPU. Keeps nothing of what it is
   given. */
hil_status hil_devices_open(const hil_device_choice *choice, const hil_comm *comm,
                            const hil_observer *observer, hil_device **out);
/* Whether it is a real GPU: neither NULL (the CPU) nor the test device. */
bool hil_devices_gpu(const hil_device *device);
/* Fails if it cannot compute with --dtype fp8. */
hil_status hil_devices_check_fp8(const hil_device *device);
/* Does nothing for NULL. */
void hil_devices_close(hil_device *device);
/* All ranks call it together with the device that each opened. *sharers: ranks that have the same
   device, this one included. Ranks must compute alike: if one has no device, all close theirs,
   *device becomes NULL, and a note goes to the observer. */
hil_status hil_devices_share(hil_comm *comm, const hil_observer *observer, hil_device **device,
                             int *sharers);
/* The number of sharers if that many ranks ran on this machine; for plans. */
int hil_devices_planned_sharers(const hil_device_choice *choice, int ranks);
/* The default budget of device memory, for all sharers together: what was free, less a reserve for
   libraries that load later, and for NCCL's buffers if `connected`. 0: the device uses host memory.
 */
uint64_t hil_devices_room(const hil_device *device, int sharers, bool connected);

#endif
