/* mma_cuda.h - a warp's matrix product of 16 x 8 x 16, and its fragments: thread (g, t) of eight
   times four has numbers 2 t and 2 t + 1 of row g. */
#ifndef HIL_OPS_LINEAR_MMA_CUDA_H
#define HIL_OPS_LINEAR_MMA_CUDA_H

#include <stdint.h>

/* c += a b in fp32 of bf16. a has rows g and g + 8, first of columns 2 t, then of 8 + 2 t; b0 and
   b1 have column g in rows 2 t and 8 + 2 t; c has two numbers of rows g and g + 8. */
static __device__ inline void hil_mma(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

/* Of a matrix of 8 x 8 numbers of 16 bits, of which a thread has two of a row. */
static __device__ inline uint32_t hil_mma_transpose(uint32_t x)
{
    uint32_t y = 0;
#if __CUDA_ARCH__ >= 800
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
#endif
    return y;
}

#endif
