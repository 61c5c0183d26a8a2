/* tape.h - records what one segment did for one micro-batch and replays it backward. */
#ifndef HIL_AUTOGRAD_TAPE_H
#define HIL_AUTOGRAD_TAPE_H

#include "autograd/model.h"
#include "base/arena.h"
#include "ops/ops.h"
#include "tier/offload.h"
#include "store/param.h"

/* A gradient, shared by the values it flows to unchanged (through add) until somebody adds to it.
 */
typedef struct hil_gradient {
    void *data;
    int holders;
} hil_gradient;

struct hil_value {
    hil_tensor tensor;
    hil_value *root; /* the value whose memory this one shows in another shape; itself otherwise */
    hil_gradient *gradient;
    bool owned;             /* the tape gives the memory back */
    bool kept;              /* backward reads it */
    int readers;            /* operations whose backward has still to read it */
    bool leaves;            /* the segment gives it out */
    bool wants;             /* a gradient is wanted for it */
    hil_value *next;        /* of the tape's values */
    int boundary;           /* for inputs: which value of an earlier segment it is; -1 otherwise */
    const int32_t *ids;     /* of the batch's arrays: the same numbers where the host reads them */
    struct hil_node *maker; /* has yet to run, and memory to be given; NULL: it is there */
};

typedef struct hil_node {
    struct hil_node *previous;
    const hil_op *op;
    const void *attr;
    bool wants; /* takes part in backward */
    uint64_t site;
    int ins, outs, saveds, params;
    hil_value *in[HIL_OP_TENSORS], *out[HIL_OP_TENSORS];
    hil_tensor saved[HIL_OP_TENSORS];
    hil_param *param[HIL_OP_PARAMS];
    size_t backward_scratch;
} hil_node;

typedef enum hil_mode {
    HIL_MODE_TRACE,    /* shapes only: no memory, no kernels */
    HIL_MODE_LOSS,     /* head_loss adds to the loss */
    HIL_MODE_LOGITS,   /* head_loss leaves the logits of every position */
    HIL_MODE_GENERATE, /* attention uses the caches, head_loss leaves the last position's logits */
} hil_mode;

/* Keys and values of everything generated so far, one pair per attention call in a pass. */
typedef struct hil_kv_cache {
    void **k, **v;
    size_t count, capacity; /* slots */
    int64_t positions;      /* room in each slot */
    int64_t length;         /* filled */
    size_t next;            /* the slot of the pass's next attention */
} hil_kv_cache;

/* One micro-batch. Borrows its arrays. */
typedef struct hil_micro {
    int64_t sequences, length;
    const int32_t *token, *target, *position, *first; /* (sequences, length) each */
    int64_t sequence; /* number of the first sequence within the step, over all ranks */
    /* Set by the engine where a device computes. */
    const int32_t *on_device; /* the four arrays there, one after the other; NULL: the CPU */
    double share;             /* as hil_op_call.share, what `first` leaves */
} hil_micro;

typedef struct hil_feed hil_feed; /* batch_input.h */
typedef struct hil_away hil_away; /* tape_offload.c */

/* What all tapes of a pass share. Borrowed by the tapes. */
typedef struct hil_context {
    hil_pool *pool;
    hil_device *device; /* that computes; NULL: the CPU */
    hil_store *store;
    hil_buffers *buffers;
    hil_offload *offload; /* of tapes that wait elsewhere */
    hil_dtype compute;
    hil_mode mode;
    bool training; /* dropout is on */
    uint64_t seed;
    int64_t step;
    float loss_scale;
    hil_links *links;         /* whose clock a rehearsal advances */
    const hil_speeds *speeds; /* NULL: it does not */
    hil_kv_cache *cache;      /* HIL_MODE_GENERATE */
    hil_feed *feed;           /* brings the batch, and logits back */
    float *logits;            /* HIL_MODE_LOGITS and GENERATE: where head_loss leaves them, fp32 */
    int64_t vocab;            /* set by the trace: columns of the logits */
    /* How a tape reaches the outputs of an earlier segment; the engine implements it. */
    hil_status (*earlier)(hil_tape *tape, const char *segment, const char *name, hil_value **out);
} hil_context;

/* [Note: again] A tape that is made again for its backward runs an operation only when something
   reads what it makes: nobody reads what the segment gives out, so a block's last product and
   whatever else only leads there are not computed a second time.

   [Note: lean] A lean tape gives back what cheap operations made as soon as its segment is done,
   though backward reads it: the same operation makes it once more before its first reader, from
   inputs that stay for the operation's own backward, and it goes with its last. */
struct hil_tape {
    hil_context *context;
    void *owner; /* the engine's */
    const hil_micro *micro;
    int segment;
    bool differentiate;
    bool again; /* [Note: again]; set after hil_tape_begin */
    bool lean;  /* [Note: lean]; set before hil_tape_trim */
    hil_arena arena;
    hil_value *values;
    hil_node *last;
    hil_away *away; /* what hil_tape_offload sent */
    uint32_t sites;
    bool wants;                     /* some operation takes part in backward */
    double *loss;                   /* head_loss adds to it; NULL: it did so before */
    hil_value *batch[4];            /* token, target, position, first */
    hil_value *out[HIL_VALUES_MAX]; /* what the segment gave out, for backward */
    hil_tape *next;                 /* of the engine's lists */
    int micro_index;
};

/* Starts recording segment `segment` for one micro-batch. Borrows context and micro-batch until the
   tape is reset. */
hil_status hil_tape_begin(hil_tape *tape, hil_context *context, const hil_micro *micro, int segment,
                          bool differentiate);
/* A value whose memory belongs to somebody else. */
hil_status hil_tape_borrow(hil_tape *tape, const hil_tensor *tensor, bool wants, hil_value **out);
/* Runs an operation and records it when backward will need it. */
typedef struct hil_apply {
    const hil_op *op;
    const void *attr;
    int ins, outs, params;
    hil_value *in[HIL_OP_TENSORS];
    hil_param *param[HIL_OP_PARAMS];
} hil_apply;
hil_status hil_tape_apply(hil_tape *tape, const hil_apply *apply, hil_value **out);
hil_status hil_tape_reshape(hil_tape *tape, hil_value *x, const hil_shape *shape, hil_value **out);

/* The segment's function has returned: memory that backward does not read goes back, but for that
   of `out` (NULL: nobody reads what the segment gives out). */
void hil_tape_trim(hil_tape *tape, const hil_values *out);
/* Takes over the memory of an output (the engine keeps it for the next segment), or NULL where it
   is not the tape's; and returns it, so that backward frees it as soon as it can. */
void *hil_tape_take_memory(hil_value *value);
void hil_tape_return_memory(hil_value *value, void *memory);
/* The memory of `root` lies there now: every value that shows it follows. */
void hil_tape_show(hil_tape *tape, hil_value *root, void *memory);
/* Hands the gradient `data` to a value, which owns it from now on. */
hil_status hil_tape_seed(hil_tape *tape, hil_value *value, void *data);
/* Replays in reverse. Gradients of borrowed inputs that want one remain on them. */
hil_status hil_tape_backward(hil_tape *tape);
/* Takes the gradient that remained on an input, alone and in the input's dtype, or NULL. */
hil_status hil_tape_take_gradient(hil_tape *tape, hil_value *value, void **data);
/* to += from, both gradients of a value like `tensor`. */
hil_status hil_tape_add(const hil_context *context, const hil_tensor *tensor, void *to, void *from);
/* What the tape keeps, but for what leaves the segment: leaves for `tier`; starts its way back; is
   the tape's again, where it is now; is given up. */
hil_status hil_tape_offload(hil_tape *tape, hil_tier tier);
hil_status hil_tape_prefetch(hil_tape *tape);
hil_status hil_tape_restore(hil_tape *tape);
void hil_tape_forget(hil_tape *tape);
/* Gives all memory back; the tape can begin again. */
void hil_tape_reset(hil_tape *tape);
void hil_tape_free(hil_tape *tape);

/* Gives back the memory of a value where it is the tape's. */
void hil_value_drop(hil_tape *tape, hil_value *value);
/* What the node reads at i has to be there: runs the operation that has yet to make it. */
hil_status hil_node_make_input(hil_tape *tape, const hil_node *node, int i);
/* Gives back what forward saved for backward. */
void hil_node_drop_saved(hil_tape *tape, hil_node *node);

/* Who asks for a parameter: the `owner` of an operation's call. */
typedef struct hil_request {
    hil_tape *tape;
    const hil_node *node;
} hil_request;

/* In a rehearsal: the operation takes its time. */
void hil_tape_spend(const hil_tape *tape, const hil_op_call *call, bool backward);

/* Fills what forward and backward of a node share; `request` lives as long as the call. */
void hil_tape_prepare(const hil_request *request, hil_op_call *call);

#endif
