/* device_connect.h - connects the devices of ranks if each rank has a device of its own. */
#ifndef HIL_MACHINE_DEVICE_CONNECT_H
#define HIL_MACHINE_DEVICE_CONNECT_H

#include "comm/comm.h"
#include "comm/wire.h"
#include "hilbert/device.h"
#include "hilbert/observer.h"

typedef struct hil_wires {
    hil_wire *wire;
    double speed; /* bytes per second that a rank receives in an all-gather */
    hil_wire_watch *watch;
} hil_wires;

typedef struct hil_wires_options {
    const hil_device_choice *choice;
    hil_device *device; /* NULL: the CPU */
    int sharers;        /* ranks that share this device, with this one */
    hil_comm *comm;
    const hil_observer *observer;
} hil_wires_options;

/* All ranks call it together. out->wire is NULL if devices are shared or cannot be connected (a
   note to the observer says why): then ranks exchange data through host memory. Borrows device and
   comm until close. */
hil_status hil_wires_open(hil_wires *out, const hil_wires_options *options);
void hil_wires_close(hil_wires *wires);

#endif
