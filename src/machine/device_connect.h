/* device_connect.h - connects the devices of ranks if each rank has a device of its own. */
#ifndef HIL_MACHINE_DEVICE_CONNECT_H
#define HIL_MACHINE_DEVICE_CONNECT_H

#include "comm/comm.h"
#include "comm/device_comm.h"
#include "hilbert/device.h"
#include "hilbert/observer.h"

typedef struct hil_device_connection {
    hil_device_comm *device_comm;
    double speed; /* bytes per second that a rank receives in an all-gather */
    hil_device_comm_watch *watch;
} hil_device_connection;

typedef struct hil_device_connection_options {
    const hil_device_choice *choice;
    hil_device *device; /* NULL: the CPU */
    int sharers;        /* ranks that share this device, with this one */
    hil_comm *comm;
    const hil_observer *observer;
} hil_device_connection_options;

/* All ranks call it together. out->device_comm is NULL if devices are shared or cannot be connected
   (a note to the observer says why): then ranks exchange data through host memory. Borrows device
   and comm until close. */
hil_status hil_device_connection_open(hil_device_connection *out,
                                      const hil_device_connection_options *options);
void hil_device_connection_close(hil_device_connection *connection);

#endif
