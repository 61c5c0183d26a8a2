/* fibers.h - runs a kernel's grid; called by the streams of runtime.cpp. */
#ifndef HIL_EMULATOR_FIBERS_H
#define HIL_EMULATOR_FIBERS_H

#include <cuda_runtime.h>
#include <functional>

namespace emulator
{

#define EMULATED_SHARED_BYTES (99 << 10) /* of a block, of compute capability 8.9 */

/* Runs the blocks of the grid one after the other. Ends the process with a message where threads
   wait for each other forever. */
void run_grid(dim3 grid, dim3 block, size_t shared, const std::function<void(void)> &body);

} // namespace emulator

#endif
