/* kernels_threads.h - the slots of hil_device_math for a device of threads
   (device/device_threads.h). */
#ifndef HIL_KERNELS_KERNELS_THREADS_H
#define HIL_KERNELS_KERNELS_THREADS_H

#include "kernels/kernels.h"

hil_status hil_threads_round(hil_device *device, hil_stream stream, const hil_rounding *rounding);
hil_status hil_threads_square(hil_device *device, hil_stream stream, const hil_block *block,
                              int64_t first, double *lanes);
hil_status hil_threads_squared(hil_device *device, hil_stream stream, const double *lanes,
                               int64_t blocks, double *shared);
hil_status hil_threads_reduce(hil_device *device, hil_stream stream, const hil_tensor *out,
                              const void *parts, int ranks);
hil_status hil_threads_expand(hil_device *device, hil_stream stream, const hil_quant_tile *tile,
                              const void *bytes, const hil_tensor *out);
hil_status hil_threads_draw(hil_device *device, hil_stream stream, const hil_quant_draw *draw);
hil_status hil_threads_add(hil_device *device, hil_stream stream, const hil_addend *addend);

#endif
