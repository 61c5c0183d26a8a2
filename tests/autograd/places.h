/* places.h - initialisers for arrays of tiers of segments 0, 1, 2, 0, ... */
#ifndef TESTS_AUTOGRAD_PLACES_H
#define TESTS_AUTOGRAD_PLACES_H

#include "tier/tiers.h"

#define DEVICE                                                                                     \
    {                                                                                              \
        HIL_DEVICE, HIL_DEVICE, HIL_DEVICE                                                         \
    }
#define HOST                                                                                       \
    {                                                                                              \
        HIL_HOST, HIL_HOST, HIL_HOST                                                               \
    }
#define DISK                                                                                       \
    {                                                                                              \
        HIL_DISK, HIL_DISK, HIL_DISK                                                               \
    }
#define MIXED                                                                                      \
    {                                                                                              \
        HIL_HOST, HIL_DEVICE, HIL_DISK                                                             \
    }

#endif
