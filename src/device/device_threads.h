/* device_threads.h - a device for tests whose streams are threads of this process: asynchronous,
   with its own memory, without a GPU. */
#ifndef HIL_DEVICE_DEVICE_THREADS_H
#define HIL_DEVICE_DEVICE_THREADS_H

#include "device/device.h"

/* The caller attaches the tables of operations and kernels. Close it with device->close. It is
   strict where a GPU would be slow or silent: pin takes whole pages once, copies of more than
   HIL_DEVICE_THREADS_SMALL bytes need pinned memory, and accessing a small arena from other threads
   faults while the streams are idle. */
#define HIL_DEVICE_THREADS_SMALL ((size_t)1 << 10)
hil_status hil_device_threads_open(hil_device **out);

/* From now on half of the queued work, at random, is delayed by up to so many microseconds. */
void hil_device_threads_delay(hil_device *device, uint64_t seed, unsigned microseconds);

/* Queues a function, to be called on the stream's thread with a copy of `args` (at most
   HIL_DEVICE_THREADS_ARGS bytes, 64-byte aligned). The first failure of any is kept: nothing is
   called after it, and wait and finish report it. */
#define HIL_DEVICE_THREADS_ARGS ((size_t)64 << 10)
hil_status hil_device_threads_call(hil_device *device, hil_stream stream,
                                   hil_status (*function)(void *args), const void *args,
                                   size_t bytes);

#endif
