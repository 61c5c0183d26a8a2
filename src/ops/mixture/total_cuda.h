/* total_cuda.h - a number that all threads of a block have a part of, on a GPU. */
#ifndef HIL_OPS_MIXTURE_TOTAL_CUDA_H
#define HIL_OPS_MIXTURE_TOTAL_CUDA_H

#define HIL_TOTAL_THREADS 1024

/* The sum over all HIL_TOTAL_THREADS threads of the block, in a fixed order, for all of them. */
static __device__ inline double hil_total(double mine)
{
    __shared__ double part[HIL_TOTAL_THREADS];
    __syncthreads();
    part[threadIdx.x] = mine;
    for (int half = HIL_TOTAL_THREADS / 2; half; half /= 2) {
        __syncthreads();
        if ((int)threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    }
    __syncthreads();
    return part[0];
}

#endif
