/* speeds.h - speeds of an imaginary machine, for rehearsals whose times do not matter. */
#ifndef HIL_TESTS_SPEEDS_H
#define HIL_TESTS_SPEEDS_H

#include "tier/tiers.h"

static const hil_speeds any_speeds = {.disk_read = 1e9,
                                      .disk_write = 1e9,
                                      .disk_mixed = 1e9,
                                      .to_device = 1e10,
                                      .to_host = 1e10,
                                      .network = 5e9,
                                      .memory = 1e10,
                                      .gemm = {1e10, 1e10, 1e10},
                                      .attention = {1e10, 1e10, 1e10},
                                      .update = 1e9,
                                      .update_device = 1e9,
                                      .op_call = 1e-6};

#endif
