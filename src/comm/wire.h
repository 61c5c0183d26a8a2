/* wire.h - collective calls between the GPUs of ranks, one each: the gather and exchange of comm.h
   on device memory, queued on streams, bypassing the host.

   [Note: turns] All ranks make the same calls in the same order, on any streams. A call is made
   after the previous one has returned, and its stream waits for that call's end: two collectives at
   once could deadlock. */
#ifndef HIL_COMM_WIRE_H
#define HIL_COMM_WIRE_H

#include "comm/comm.h"
#include "device/device.h"

typedef struct hil_wire hil_wire;

typedef struct hil_wire_engine {
    void (*close)(hil_wire *wire); /* waits for queued calls */
    hil_status (*gather)(hil_wire *wire, hil_stream stream, const void *slice, void *whole,
                         size_t bytes);
    hil_status (*exchange)(hil_wire *wire, hil_stream stream, const void *out, void *in,
                           size_t bytes);
    /* *ready: all ranks are connected. Returns a failure of the connection. Any thread. */
    hil_status (*poll)(hil_wire *wire, bool *ready);
    /* A rank is lost: queued calls end, with undefined results, and later calls fail. Any thread.
     */
    void (*abandon)(hil_wire *wire);
} hil_wire_engine;

struct hil_wire {
    const hil_wire_engine *engine;
};

/* Creates the wires of a module. */
#define HIL_WIRE_NAME 128
typedef struct hil_wire_maker {
    /* A unique name: one rank creates it and sends it to the others, which connect by it. */
    hil_status (*name)(unsigned char name[HIL_WIRE_NAME]);
    /* Starts to connect and returns at once: see `poll`. Borrows the device. */
    hil_status (*open)(hil_wire **out, hil_device *device, const unsigned char name[HIL_WIRE_NAME],
                       int rank, int ranks);
} hil_wire_maker;

/* A thread that abandons the wire when the comm breaks, and breaks the comm when the wire fails:
   a device would wait for a lost rank forever, and the host for the device. Stop it before wire or
   comm is closed; NULL is fine there. */
typedef struct hil_wire_watch hil_wire_watch;
hil_status hil_wire_watch_start(hil_wire_watch **out, hil_wire *wire, hil_comm *comm);
void hil_wire_watch_stop(hil_wire_watch *watch);

#endif
