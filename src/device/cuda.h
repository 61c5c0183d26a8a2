/* cuda.h - a GPU as a device. */
#ifndef HIL_DEVICE_CUDA_H
#define HIL_DEVICE_CUDA_H

#ifdef __cplusplus
extern "C" {
#endif

#include "device/device.h"

/* Number of GPUs that the driver shows; 0 without a driver. */
int hil_cuda_count(void);
/* Opens a GPU with memory, streams and events; the caller sets device->ops and device->math. */
hil_status hil_cuda_open(hil_device **out, int index);
/* Its cudaStream_t, for direct CUDA calls; makes the GPU current on this thread. */
void *hil_cuda_stream_for(const hil_device *device, hil_stream stream);
/* Waits for queued work. NULL is fine. */
void hil_cuda_close(hil_device *device);

/* GPU seconds between begin and end on the compute stream; end waits for it. */
hil_status hil_cuda_timer_begin(hil_device *device);
hil_status hil_cuda_timer_end(hil_device *device, double *seconds);

#ifdef __cplusplus
}
#endif
#endif
