/* cuda.h - the slots of hil_device_math on a GPU: the same bits as on the CPU. */
#ifndef HIL_KERNELS_CUDA_H
#define HIL_KERNELS_CUDA_H

#ifdef __cplusplus
extern "C" {
#endif

#include "kernels/kernels.h"

hil_status hil_kernels_cuda_round(hil_device *device, hil_stream stream,
                                  const hil_rounding *rounding);
hil_status hil_kernels_cuda_square(hil_device *device, hil_stream stream, const hil_block *block,
                                   int64_t first, double *lanes);
hil_status hil_kernels_cuda_squared(hil_device *device, hil_stream stream, const double *lanes,
                                    int64_t blocks, double *shared);
hil_status hil_kernels_cuda_reduce(hil_device *device, hil_stream stream, const hil_tensor *out,
                                   const void *parts, int ranks);
hil_status hil_kernels_cuda_expand(hil_device *device, hil_stream stream,
                                   const hil_quant_tile *tile, const void *bytes,
                                   const hil_tensor *out);
hil_status hil_kernels_cuda_draw(hil_device *device, hil_stream stream, const hil_quant_draw *draw);
hil_status hil_kernels_cuda_add(hil_device *device, hil_stream stream, const hil_addend *addend);

#ifdef __cplusplus
}
#endif
#endif
