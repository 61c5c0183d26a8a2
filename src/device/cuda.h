/* cuda.h - one GPU: its compute stream, its libraries' handles, memory and copies. */
#ifndef HIL_DEVICE_CUDA_H
#define HIL_DEVICE_CUDA_H

#ifdef __cplusplus
extern "C" {
#endif

#include "base/fail.h"

/* Work is queued on the compute stream and runs in order; what fails there is reported by
   hil_cuda_wait. Not thread-safe. */
typedef struct hil_device hil_device;

/* GPUs that the driver shows; 0 where there is no driver. */
int hil_cuda_count(void);
hil_status hil_cuda_open(hil_device **out, int index);
/* Waits for what is queued. NULL is fine. */
void hil_cuda_close(hil_device *device);

const char *hil_cuda_name(const hil_device *device);
/* Until everything queued is done; then says what failed in it. */
hil_status hil_cuda_wait(hil_device *device);

/* Memory of the GPU, 256-byte aligned. NULL is fine for free. */
hil_status hil_cuda_alloc(hil_device *device, size_t bytes, void **out);
void hil_cuda_free(hil_device *device, void *memory);
/* Queued; host memory must stay as it is until the next wait. */
hil_status hil_cuda_copy_in(hil_device *device, void *to, const void *host, size_t bytes);
hil_status hil_cuda_copy_out(hil_device *device, void *host, const void *from, size_t bytes);
hil_status hil_cuda_copy(hil_device *device, void *to, const void *from, size_t bytes);
hil_status hil_cuda_fill(hil_device *device, void *to, int byte, size_t bytes);

/* Seconds of GPU time between begin and end; end waits. */
hil_status hil_cuda_timer_begin(hil_device *device);
hil_status hil_cuda_timer_end(hil_device *device, double *seconds);

#ifdef __cplusplus
}
#endif
#endif
