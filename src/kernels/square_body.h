/* square_body.h - hil_block_square, compiled once for each instruction set: the including file
   defines SQUARE_KERNEL. */
#include "kernels/gradient_body.h"
#include "kernels/square_kernel.h"

void SQUARE_KERNEL(const hil_block *b, double lane[HIL_SQUARES])
{
    gradient_chunk c = {.block = b};
    while (next_chunk(&c)) {
        sum_gradient(&c);
        for (int64_t i = c.count; i < CHUNK; ++i) c.g[i] = 0;
        for (int64_t i = 0; i < CHUNK; i += HIL_SQUARES)
            for (int k = 0; k < HIL_SQUARES; ++k)
                lane[k] += (double)c.g[i + k] * (double)c.g[i + k];
    }
}
