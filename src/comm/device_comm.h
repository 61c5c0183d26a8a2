/* device_comm.h - collective calls between the GPUs of ranks, one each: the gather and exchange of
   comm.h on device memory, queued on streams, bypassing the host.

   [Note: turns] All ranks make the same calls in the same order, on any streams. A call is made
   after the previous one has returned, and its stream waits for that call's end: two collectives at
   once could deadlock. */
#ifndef HIL_COMM_DEVICE_COMM_H
#define HIL_COMM_DEVICE_COMM_H

#include "comm/comm.h"
#include "device/device.h"

typedef struct hil_device_comm hil_device_comm;

typedef struct hil_device_comm_engine {
    void (*close)(hil_device_comm *device_comm); /* waits for queued calls */
    hil_status (*gather)(hil_device_comm *device_comm, hil_stream stream, const void *slice,
                         void *whole, size_t bytes);
    hil_status (*exchange)(hil_device_comm *device_comm, hil_stream stream, const void *out,
                           void *in, size_t bytes);
    /* *ready: all ranks are connected. Returns a failure of the connection. Any thread. */
    hil_status (*poll)(hil_device_comm *device_comm, bool *ready);
    /* A rank is lost: queued calls end, with undefined results, and later calls fail. Any thread.
     */
    void (*abandon)(hil_device_comm *device_comm);
} hil_device_comm_engine;

struct hil_device_comm {
    const hil_device_comm_engine *engine;
};

/* Creates the device comm of a module. */
#define HIL_DEVICE_COMM_NAME 128
typedef struct hil_device_comm_maker {
    /* A unique name: one rank creates it and sends it to the others, which connect by it. */
    hil_status (*name)(unsigned char name[HIL_DEVICE_COMM_NAME]);
    /* Starts to connect and returns at once: see `poll`. Borrows the device. */
    hil_status (*open)(hil_device_comm **out, hil_device *device,
                       const unsigned char name[HIL_DEVICE_COMM_NAME], int rank, int ranks);
} hil_device_comm_maker;

/* A thread that abandons the device comm when the comm breaks, and breaks the comm when the device
   comm fails: a device would wait for a lost rank forever, and the host for the device. Stop it
   before device comm or comm is closed; NULL is fine there. Borrows both. */
typedef struct hil_device_comm_watch hil_device_comm_watch;
hil_status hil_device_comm_watch_start(hil_device_comm_watch **out, hil_device_comm *device_comm,
                                       hil_comm *comm);
void hil_device_comm_watch_stop(hil_device_comm_watch *watch);

#endif
