/* cuda.h - a GPU as a device. */
#ifndef HIL_DEVICE_CUDA_H
#define HIL_DEVICE_CUDA_H

#ifdef __cplusplus
extern "C" {
#endif

#include "device/device.h"

/* GPUs that the driver shows; 0 where there is no driver. */
int hil_cuda_count(void);
/* With its engine; whoever opens it adds operations and arithmetic. */
hil_status hil_cuda_open(hil_device **out, int index);
/* Its cudaStream_t, for whoever queues on it by himself; the GPU becomes the thread's. */
void *hil_cuda_stream_for(const hil_device *device, hil_stream stream);
/* Waits for what is queued. NULL is fine. */
void hil_cuda_close(hil_device *device);

/* Seconds of GPU time between begin and end of what is computed; end waits. */
hil_status hil_cuda_timer_begin(hil_device *device);
hil_status hil_cuda_timer_end(hil_device *device, double *seconds);

#ifdef __cplusplus
}
#endif
#endif
