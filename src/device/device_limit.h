/* device_limit.h - for benchmarks and tests: a device behind a slower bus than it has. */
#ifndef HIL_DEVICE_DEVICE_LIMIT_H
#define HIL_DEVICE_DEVICE_LIMIT_H

#include "device/device.h"

/* Measures the bus, and from then on repeats the copies of all streams but compute's until they
   take the time of a bus with this speed in each direction: the result is the same, the link is
   busy for longer. Short copies, which are a matter of latency, are not repeated. Called once,
   after the device was opened and before anything is queued; its name then says so. */
hil_status hil_device_limit(hil_device *device, double bytes_per_second);

#endif
