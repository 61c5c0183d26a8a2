/* normal_portable.c - normal numbers for any CPU. */
#define NORMAL_KERNEL hil_normal_portable
#include "base/normal_body.h"
