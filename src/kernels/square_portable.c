/* square_portable.c - squares of gradients for any machine. */
#define SQUARE_KERNEL hil_square_portable
#include "kernels/square_body.h"
