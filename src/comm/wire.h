/* wire.h - what connects the devices of ranks, where each has one of its own: the gathers and
   exchanges of comm.h with memory of the device, queued on its streams, past the host.

   [Note: turns] All ranks make the same calls in the same order, on whatever streams. A call is
   made when the one before has returned, and its stream follows the end of that: two at once could
   each hold what the other waits for. */
#ifndef HIL_COMM_WIRE_H
#define HIL_COMM_WIRE_H

#include "comm/comm.h"
#include "device/device.h"

typedef struct hil_wire hil_wire;

typedef struct hil_wire_engine {
    void (*close)(hil_wire *wire); /* after what is queued */
    hil_status (*gather)(hil_wire *wire, hil_stream stream, const void *slice, void *whole,
                         size_t bytes);
    hil_status (*exchange)(hil_wire *wire, hil_stream stream, const void *out, void *in,
                           size_t bytes);
    /* How things stand: *ready once all ranks are connected; or what went wrong. Any thread. */
    hil_status (*look)(hil_wire *wire, bool *ready);
    /* A rank will never come: what is queued ends, with anything in its memory, and later calls
       fail. Any thread. */
    void (*abandon)(hil_wire *wire);
} hil_wire_engine;

struct hil_wire {
    const hil_wire_engine *engine;
};

/* How the wires of a module are made. */
#define HIL_WIRE_NAME 128
typedef struct hil_wire_maker {
    /* By which the ranks find each other: one asks for it and tells the others. */
    hil_status (*name)(unsigned char name[HIL_WIRE_NAME]);
    /* Begins to connect, and returns at once: see `look`. Borrows the device. */
    hil_status (*open)(hil_wire **out, hil_device *device, const unsigned char name[HIL_WIRE_NAME],
                       int rank, int ranks);
} hil_wire_maker;

/* A device waits for other ranks as long as it takes, and the host for the device. The watch
   abandons the wire when the comm is broken, and breaks the comm when the wire fails. Stopped
   before either is closed; NULL is fine there. */
typedef struct hil_wire_watch hil_wire_watch;
hil_status hil_wire_watch_start(hil_wire_watch **out, hil_wire *wire, hil_comm *comm);
void hil_wire_watch_stop(hil_wire_watch *watch);

#endif
