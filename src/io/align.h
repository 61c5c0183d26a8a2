/* align.h - rounds sizes up to HIL_IO_ALIGN, the unit of direct I/O and of blocks in a tier. */
#ifndef HIL_IO_ALIGN_H
#define HIL_IO_ALIGN_H

#include "hilbert/io.h"

static inline size_t hil_align_up(size_t bytes)
{
    return (bytes + HIL_IO_ALIGN - 1) / HIL_IO_ALIGN * HIL_IO_ALIGN;
}

#endif
