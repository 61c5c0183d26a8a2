/* batch_input.h - what a pass hands over before it computes and reads when that is done: the arrays
   of its micro-batches, their losses, logits. */
#ifndef HIL_AUTOGRAD_BATCH_INPUT_H
#define HIL_AUTOGRAD_BATCH_INPUT_H

#include "autograd/tape.h"

/* [Note: feed] With a device the arrays of all micro-batches of a pass are copied to its memory
   before anything else, and losses are added up in memory that it shares with the host. The host
   touches the shared memory only while the device is idle: before a pass, and when it has waited.
   So a pass waits once, at its end. */
#define HIL_TOKEN_BYTES 16 /* of the four arrays of a micro-batch */
struct hil_feed {
    hil_device *device; /* borrowed, like the next two; NULL: the CPU */
    hil_pool *pool;
    hil_buffers *buffers;
    hil_micro *micro; /* of the pass that runs */
    int64_t count;
    size_t micro_room;
    double *loss; /* of each of them: the beginning of `memory` */
    char *memory; /* the host's; shared with the device */
    size_t bytes; /* of it */
    void *ids;    /* on the device: the arrays */
    bool busy;    /* the device was given work since the last wait */
};

/* Copies `micro` and, for a device, the arrays in it. Otherwise the host reads them until all of
   the pass was told. */
hil_status hil_feed_begin(hil_feed *feed, const hil_micro *micro, int64_t count);
/* Waits for all that was told so far: losses may be read. What failed in it is reported. */
hil_status hil_feed_wait(hil_feed *feed);
/* The pass is over, well or not: memory of the device goes back. */
void hil_feed_end(hil_feed *feed);
void hil_feed_free(hil_feed *feed);

/* The numbers of a tensor as fp32; waits for them. */
hil_status hil_feed_read(hil_feed *feed, const hil_tensor *x, float *out);

#endif
