/* normal_avx2.c - normal numbers for AVX2. */
#define NORMAL_KERNEL hil_normal_avx2
#include "base/normal_body.h"
