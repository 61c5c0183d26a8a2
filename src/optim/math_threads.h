/* math_threads.h - the store's arithmetic for a device of threads (device/device_threads.h). */
#ifndef HIL_OPTIM_MATH_THREADS_H
#define HIL_OPTIM_MATH_THREADS_H

#include "kernels/kernels.h"

extern const hil_device_math hil_math_threads;

#endif
