/* normal_kernel.h - what each instruction set provides to normal.c. */
#ifndef HIL_BASE_NORMAL_KERNEL_H
#define HIL_BASE_NORMAL_KERNEL_H

#include "base/normal.h"

#define HIL_NORMAL_GROUPS 32 /* of four numbers, at once */

typedef struct hil_normal_groups {
    uint64_t key, high;
    uint64_t first; /* group */
    float out[4 * HIL_NORMAL_GROUPS];
} hil_normal_groups;

typedef void hil_normal_kernel(hil_normal_groups *groups);
hil_normal_kernel hil_normal_portable, hil_normal_avx2, hil_normal_avx512;

#endif
