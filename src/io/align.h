/* align.h - sizes in whole blocks, the unit of direct I/O and of every place in a tier. */
#ifndef HIL_IO_ALIGN_H
#define HIL_IO_ALIGN_H

#include "hilbert/io.h"

static inline size_t hil_align_up(size_t bytes)
{
    return (bytes + HIL_IO_ALIGN - 1) / HIL_IO_ALIGN * HIL_IO_ALIGN;
}

#endif
