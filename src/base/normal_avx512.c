/* normal_avx512.c - normal numbers for AVX-512. */
#define NORMAL_KERNEL hil_normal_avx512
#include "base/normal_body.h"
