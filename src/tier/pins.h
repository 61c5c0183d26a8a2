/* pins.h - ranges of host memory that a device copies from and to, and when each is pinned. */
#ifndef HIL_TIER_PINS_H
#define HIL_TIER_PINS_H

#include "device/device.h"

/* Pinning takes a second for a few gigabytes of new memory, so it runs in the background, in the
   order in which a step needs the ranges; a copy waits for its own range only. A virtual machine
   may get its memory from the host at first use, at no more than some gigabytes per second. */
typedef enum hil_pin_order {
    HIL_PIN_FIRST, /* loading and forward copy it */
    HIL_PIN_TOUCH, /* loading writes it and nothing copies it: it is faulted in, and not pinned */
    HIL_PIN_NEXT,  /* backward copies it */
    HIL_PIN_LATER, /* the update does */
    HIL_PIN_ON_USE /* perhaps nobody does: pinned at the first copy, one hil_device.pin_piece each
                    */
} hil_pin_order;

/* Thread-safe. Owns the pins, and borrows device and memory. */
typedef struct hil_pins hil_pins;
hil_status hil_pins_create(hil_pins **out, hil_device *device);
/* Unpins everything, after all copies and calls are over. NULL is fine. */
void hil_pins_destroy(hil_pins *pins);

/* Registers whole pages, which must exist until the end. Parts that are registered already keep
   their order. */
hil_status hil_pins_add(hil_pins *pins, char *memory, size_t bytes, hil_pin_order order);
/* Pins now what is registered, but not queued nor HIL_PIN_ON_USE. */
hil_status hil_pins_pin_all(hil_pins *pins);
/* Queues the same for hil_pins_pin_next. */
hil_status hil_pins_queue(hil_pins *pins);
/* Pins the next queued range. False: none is left, or it failed; hil_pins_wait tells why to those
   who need it. */
bool hil_pins_pin_next(hil_pins *pins);
/* Waits until these bytes are pinned, as far as they are registered; pins what no thread has begun
   to pin. Fails with a message that says what to do. */
hil_status hil_pins_wait(hil_pins *pins, const void *memory, size_t bytes);

#endif
