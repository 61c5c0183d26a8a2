/* tape.h - the tape: records the operations of one segment for one micro-batch, and runs their
   backwards in reverse. */
#ifndef HIL_AUTOGRAD_TAPE_H
#define HIL_AUTOGRAD_TAPE_H

#include "autograd/model.h"
#include "autograd/spans.h"
#include "base/arena.h"
#include "ops/ops.h"
#include "tier/offload.h"
#include "store/param.h"

/* A gradient, shared by the values that it reaches unchanged (through add) until one of them adds
   to it: copy on write. */
typedef struct hil_gradient {
    void *data;
    int holders;
} hil_gradient;

struct hil_value {
    hil_tensor tensor;
    hil_value *root; /* the value that owns the memory: itself, unless it is a reshape of another */
    hil_gradient *gradient;
    bool owned;             /* the tape frees the memory */
    bool kept;              /* backward reads it */
    int readers;            /* operations whose backward has not read it yet */
    bool leaves;            /* it is an output of the segment */
    bool wants;             /* it needs a gradient */
    bool brief;             /* only one operation reads it: freed as soon as that has run */
    int routing;            /* of the places of hil_route: its number in the segment; 0: no such */
    bool bulky;             /* a lean tape frees it, though making it again may cost a product */
    hil_value *next;        /* of the tape's values */
    int boundary;           /* of an input: the number of the boundary value; -1 otherwise */
    const int32_t *ids;     /* of the batch's arrays: the same numbers in host memory */
    bool *branches;         /* of these: set when a program asks for them; NULL: of no batch */
    struct hil_node *maker; /* the operation that must run before it is read; NULL: it has run */
};

typedef struct hil_node {
    struct hil_node *previous;
    const hil_op *op;
    const void *attr;
    bool wants; /* its backward must run */
    unsigned
        keep_in; /* op->keep_in, less what only gradients of parameters need if none is wanted */
    uint64_t site;
    int ins, outs, saveds, params;
    hil_value *in[HIL_OP_TENSORS], *out[HIL_OP_TENSORS];
    hil_tensor saved[HIL_OP_TENSORS];
    hil_param *param[HIL_OP_PARAMS];
    int64_t series; /* param[0] is the first of so many in the store; 0: the only one */
    size_t backward_scratch;
} hil_node;

typedef enum hil_mode {
    HIL_MODE_TRACE,    /* shapes only: no memory, no kernels */
    HIL_MODE_LOSS,     /* head_loss adds to the loss */
    HIL_MODE_LOSSES,   /* head_loss computes the loss of every position, without adapters */
    HIL_MODE_LOGITS,   /* head_loss computes the logits of every position */
    HIL_MODE_GENERATE, /* attention uses the caches, head_loss computes the last position's logits
                        */
} hil_mode;

/* The key-value cache of generation: one slot (keys and values) per attention call in a pass.
   Beside them, the norms of weights with adapters (DoRA): one slot per layer, computed in the first
   pass.

   [Note: states] A recurrence keeps a state instead, from which no position can be taken back. So
   it has two: a pass reads one and writes the other, and they change places when the pass is over.
   A pass that fails leaves no trace, and the last one can be undone. */
typedef struct hil_kv_cache {
    void **k, **v, **norm;
    void **state[2];                       /* one slot per recurrence in a pass */
    size_t count, norms, states, capacity; /* slots; of each kind at most */
    int64_t positions;                     /* capacity of each slot */
    int64_t length;                        /* positions filled */
    size_t next, next_norm, next_state;    /* the slots of the next calls in this pass */
    int turn;                              /* which state has all positions filled */
    int64_t before;                        /* how many the other one has; -1: it is not whole */
} hil_kv_cache;

/* Fails if a pass has more calls of a kind, `what`, than the cache has slots: the model decides
   that. */
static inline hil_status hil_tape_check_slot(const hil_kv_cache *cache, size_t slot,
                                             const char *what)
{
    if (slot < cache->capacity) return HIL_OK;
    return hil_fail(HIL_ERR_USAGE, "generation takes models of at most %zu %s", cache->capacity,
                    what);
}

/* One micro-batch. Borrows its arrays. */
typedef struct hil_micro {
    int64_t sequences, length;
    const int32_t *token, *target, *position, *first; /* (sequences, length) each */
    const float
        *reference;   /* as many: losses under the reference; NULL: they do not come with it */
    int64_t sequence; /* number of the first sequence within the step, over all ranks */
    /* Set by the engine if a device computes. */
    const int32_t *on_device; /* these arrays in its memory, contiguous; NULL: the CPU */
    double share;             /* fraction of causal pairs left by `first`: hil_op_call.share */
} hil_micro;

typedef struct hil_batch_input hil_batch_input; /* batch_input.h */
typedef struct hil_offloaded hil_offloaded;     /* tape_offload.c */

/* A tile of a quantized parameter that stays expanded: [Note: parameters on the tape]. */
typedef struct hil_expanded_tile {
    const hil_param *param;
    int64_t number;
    int64_t writes; /* hil_param_writes when it was expanded */
    void *data;
} hil_expanded_tile;

/* What all tapes of a pass share. Borrowed by the tapes. */
typedef struct hil_context {
    hil_pool *pool;
    hil_device *device; /* NULL: the CPU computes */
    const hil_model *model;
    bool *branches; /* the model's */
    hil_store *store;
    hil_buffers *buffers;
    hil_offload *offload; /* for hil_tape_offload */
    hil_dtype compute;
    hil_mode mode;
    bool training; /* dropout is on */
    bool last;     /* the step's last micro-batch on this rank: sums are complete after it */
    /* See the note in visit.h about the reference model. */
    hil_preference_loss preference;
    double token_weight, kl; /* of hil_preference_attr */
    bool without_adapter;    /* the reference model runs */
    void *reference;         /* its losses (sequences, length), fp32, of one micro-batch */
    uint64_t seed;
    int64_t step;
    float loss_scale;
    hil_expanded_tile *expanded; /* in the order of their first use */
    size_t expanded_count, expanded_room;
    hil_buffers *kept;        /* memory for them */
    const hil_spans *spans;   /* of operations */
    hil_links *links;         /* whose clock a rehearsal advances */
    const hil_speeds *speeds; /* NULL: no rehearsal */
    const double *share;      /* of an operation's seconds, in each segment; NULL: all of them */
    hil_kv_cache *cache;      /* HIL_MODE_GENERATE */
    hil_batch_input *input;   /* copies the output to the host */
    /* head_loss writes here, fp32: the logits, or HIL_MODE_LOSSES: the losses. */
    float *output;
    int64_t vocab; /* set by the trace: columns of the logits */
    /* Finds an output of an earlier segment; the engine implements it. */
    hil_status (*earlier)(hil_tape *tape, const char *segment, const char *name, hil_value **out);
} hil_context;

/* Linear layers whose adapters were applied to x together, by hil_linear_share. */
typedef struct hil_shared_input {
    hil_value *x;
    int count;
    hil_param *weight[HIL_OP_PARAMS];
    hil_value *h[HIL_OP_PARAMS]; /* scale * x A' */
} hil_shared_input;

/* [Note: again] When a segment is recomputed for its backward, the tape runs an operation only when
   something reads its result. Nothing reads the segment's outputs then, so a block's last product,
   and all that only it needs, is not computed a second time.

   [Note: lean] A lean tape frees the results of cheap operations when the segment's forward is
   done, though backward reads them, and bulky results of pure ones. Backward recomputes each before
   its first reader, from inputs that are kept anyway for the operation's own backward, and frees it
   after its last reader. A thin tape frees those of light operations as well: where bytes are the
   limit, more tapes fit. */
struct hil_tape {
    hil_context *context;
    void *owner; /* the engine */
    const hil_micro *micro;
    int segment;
    bool differentiate;
    bool again;      /* [Note: again]; set after hil_tape_begin */
    bool lean, thin; /* [Note: lean]; set before hil_tape_trim */
    hil_arena arena;
    hil_value *values;
    hil_node *last;
    hil_shared_input shared;
    hil_offloaded *offloaded; /* list of what hil_tape_offload offloaded */
    uint32_t sites;
    int routings;        /* so far */
    bool wants;          /* some operation has a backward */
    double *loss;        /* head_loss adds to it, HIL_PREFERENCES numbers or the first of them;
                            NULL in recompute: it was added before */
    hil_value *batch[4]; /* token, target, position, first */
    hil_value *out[HIL_VALUES_MAX]; /* the segment's outputs, for backward */
    hil_tape *next;                 /* of the engine's lists */
    int micro_index;
};

/* Starts recording segment `segment` for one micro-batch. Borrows context and micro-batch until the
   tape is reset. */
hil_status hil_tape_begin(hil_tape *tape, hil_context *context, const hil_micro *micro, int segment,
                          bool differentiate);
/* Makes a value of a tensor whose memory the tape does not own. */
hil_status hil_tape_borrow(hil_tape *tape, const hil_tensor *tensor, bool wants, hil_value **out);
/* An operation with its inputs and parameters. */
typedef struct hil_apply {
    const hil_op *op;
    const void *attr;
    int ins, outs, params;
    hil_value *in[HIL_OP_TENSORS];
    hil_param *param[HIL_OP_PARAMS];
} hil_apply;
/* Runs the operation and records it. */
hil_status hil_tape_apply(hil_tape *tape, const hil_apply *apply, hil_value **out);
hil_status hil_tape_reshape(hil_tape *tape, hil_value *x, const hil_shape *shape, hil_value **out);

/* After the segment's function has returned: frees all memory that backward does not read, except
   that of the outputs `out` (NULL: no later segment reads them). */
void hil_tape_trim(hil_tape *tape, const hil_values *out);
/* Passes the memory of an output to the caller, or NULL if the tape does not own it (the engine
   keeps it for later segments); and back to the tape, which frees it during backward. */
void *hil_tape_take_memory(hil_value *value);
void hil_tape_return_memory(hil_value *value, void *memory);
/* Sets the address of `root` and of all its reshapes. */
void hil_tape_show(hil_tape *tape, hil_value *root, void *memory);
/* Adds the gradient `data` to a value; takes over its memory. */
hil_status hil_tape_seed(hil_tape *tape, hil_value *value, void *data);
/* Runs all backwards in reverse. Gradients of borrowed inputs stay on them. */
hil_status hil_tape_backward(hil_tape *tape);
/* Passes the gradient of an input to the caller, not shared, in the input's dtype; NULL: none. */
hil_status hil_tape_take_gradient(hil_tape *tape, hil_value *value, void **data);
/* to += from, both gradients of a value like `tensor`. */
hil_status hil_tape_add(const hil_context *context, const hil_tensor *tensor, void *to, void *from);
/* All memory that the tape keeps, except the segment's outputs. _offload starts its copy to `tier`;
   _prefetch starts its fetch; _restore waits for that and sets the new addresses; _forget frees it.
 */
hil_status hil_tape_offload(hil_tape *tape, hil_tier tier);
hil_status hil_tape_prefetch(hil_tape *tape);
hil_status hil_tape_restore(hil_tape *tape);
void hil_tape_forget(hil_tape *tape);
/* Bytes of that memory, wherever it is. */
uint64_t hil_tape_kept(const hil_tape *tape);
/* Frees all tensors; the tape can begin again. */
void hil_tape_reset(hil_tape *tape);
void hil_tape_free(hil_tape *tape);

/* Frees the memory of a value, if the tape owns it. */
void hil_value_drop(hil_tape *tape, hil_value *value);
/* Before it is read: runs the operation that makes it, if that was deferred. */
hil_status hil_value_make(hil_tape *tape, const hil_value *value);
/* Frees what forward saved for backward. */
void hil_node_drop_saved(hil_tape *tape, hil_node *node);

/* The `owner` of an operation's call: for which node of which tape it asks for a parameter. */
typedef struct hil_request {
    hil_tape *tape;
    const hil_node *node;
    void *expanded[HIL_OP_PARAMS]; /* the tile of a quantized parameter that the operation reads */
    bool completes[HIL_OP_PARAMS]; /* nothing adds to its gradient after this operation */
    hil_status given;              /* a failure to give a complete gradient */
    bool idle;                     /* the gradient asked for last is that of an idle expert */
} hil_request;

/* In a rehearsal: advances the clock by the operation's estimated time. */
void hil_tape_spend(const hil_tape *tape, const hil_op_call *call, bool backward);

/* Fills the fields that forward and backward share; `request` is borrowed as long as the call. */
void hil_tape_prepare(hil_request *request, hil_op_call *call);

#endif
