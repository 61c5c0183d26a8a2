/* batch_input.h - a pass's input and output: copies the arrays of its micro-batches to the device,
   and losses and logits back. */
#ifndef HIL_AUTOGRAD_BATCH_INPUT_H
#define HIL_AUTOGRAD_BATCH_INPUT_H

#include "autograd/tape.h"

/* [Note: batch input] With a device, the arrays of all micro-batches of a pass are copied to it
   first, and losses are added up in memory that device and host share. The host accesses the shared
   memory only while the device is idle: before a pass, and after hil_batch_input_wait. So a pass
   blocks the host once, at its end. */
#define HIL_TOKEN_BYTES 16    /* of the four arrays of a micro-batch */
#define HIL_REFERENCE_BYTES 4 /* of the losses under the reference, if they come with it */
struct hil_batch_input {
    hil_device *device; /* borrowed, like the next two; NULL: the CPU */
    hil_pool *pool;
    hil_buffers *buffers;
    hil_micro *micro; /* of the current pass */
    int64_t count;
    size_t micro_room;
    double *loss;    /* HIL_PREFERENCES per micro-batch: the beginning of `memory` */
    char *memory;    /* shared by host and device */
    size_t bytes;    /* of `memory` */
    void *ids;       /* the arrays in device memory */
    bool busy;       /* work was queued since the last wait */
    bool references; /* micro-batches have those losses */
};

/* Copies `micro` and, for a device, the arrays in it. Without a device the arrays are borrowed
   until the pass has been computed. */
hil_status hil_batch_input_begin(hil_batch_input *input, const hil_micro *micro, int64_t count);
/* Blocks until all queued work is over; then losses may be read. Returns the first failure. */
hil_status hil_batch_input_wait(hil_batch_input *input);
/* Ends the pass, also after a failure: waits, and frees its device memory. */
void hil_batch_input_end(hil_batch_input *input);
void hil_batch_input_free(hil_batch_input *input);

/* Copies a tensor to the host as fp32. Blocks. */
hil_status hil_batch_input_read(hil_batch_input *input, const hil_tensor *x, float *out);

#endif
