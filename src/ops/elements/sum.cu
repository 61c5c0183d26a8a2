/* sum.cu - the sum of a few numbers, for the host. */
#include "ops/cuda_kernel.h"

#define THREADS 1024

/* Thread t adds elements t, t + THREADS, ...; then halves of the threads are added. */
static __global__ void __launch_bounds__(THREADS)
    add_all(const float *x, int64_t count, double *out)
{
    __shared__ double part[THREADS];
    double sum = 0;
    for (int64_t i = threadIdx.x; i < count; i += THREADS) sum += (double)x[i];
    part[threadIdx.x] = sum;
    for (unsigned half = THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    }
    if (threadIdx.x == 0) *out += part[0];
}

hil_status hil_op_cuda_sum(hil_device *device, const hil_tensor *x, double *out)
{
    int64_t count = hil_shape_count(&x->shape);
    cudaStream_t on = hil_cuda_stream(device, HIL_STREAM_COMPUTE);
    add_all<<<1, THREADS, 0, on>>>((const float *)x->data, count, out);
    return hil_cuda_launched(device, "sum");
}
